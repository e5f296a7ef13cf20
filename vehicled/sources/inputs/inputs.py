"""The inputs that the model follows, from their measurements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.states import STEERING_OFFSET
from vehicled.sources.by_channels import ByChannels
from vehicled.sources.inputs.brakes import Brakes
from vehicled.sources.inputs.drive_health import DriveHealth
from vehicled.sources.inputs.model_input import InputSettings, ModelInput
from vehicled.sources.inputs.steering import MIRRORED, Steering
from vehicled.sources.inputs.torques import Torques
from vehicled.sources.sensors import Sensors, Sources
from vehicled.vehicle.arrays import AHEAD, BRAKE_PRESSURE, DRIVE_TORQUE, LEFT

if TYPE_CHECKING:  # commands that only read a configuration load no machine code
    from vehicled.vehicle.car import Car

Kind = TypeVar("Kind", bound=ModelInput[InputSettings])
MISSING = "without_steering", "without_drive"
"""What `Inputs.count_missing` counts."""
_SIDEWAYS = 0.3
"""Share of the speed ahead, lateral speed of a car that slides: at full lock the centre of mass has less."""
_EVERY = 0.01
"""s between checks of inputs that are measured, while none comes."""


class Inputs:
    """All inputs of a car: takes their measurements, and writes them into it before each step."""

    def __init__(self, car: Car, sensors: Sensors) -> None:
        self._car, self._settings = car, dict(sensors.inputs())
        self.channels = frozenset(c for settings in self._settings.values() for c in settings.LIMITS)
        """That they are measured by."""
        self.reset()

    def reset(self) -> None:
        """Nothing is known any more."""
        for array in (self._car.inputs, self._car.corner_inputs):
            array[...] = 0.0
        self._inputs = {name: settings.make_input(self._car) for name, settings in self._settings.items()}
        self._readers = ByChannels(self._find_readers)
        self.steering = self._find(Steering)
        self._torques, self._brakes = self._find(Torques), self._find(Brakes)
        self._drive_health = DriveHealth(self._car.vehicle)
        self._due = -math.inf
        """When to check them again, s."""

    def reconfigure(self, sensors: Sensors) -> None:
        """Take other settings while running; the memory of the steering's tracker only from the next reset on."""
        self._settings = dict(sensors.inputs())
        for name, settings in self._settings.items():
            self._inputs[name].reconfigure(settings)

    def __iter__(self) -> Iterator[ModelInput[InputSettings]]:
        return iter(self._inputs.values())

    def _find(self, kind: type[Kind]) -> Kind:
        return next(each for each in self if isinstance(each, kind))

    def take(self, t_ns: int, values: Mapping[str, float]) -> None:
        """Channels measured at a time; those that are no inputs are left alone."""
        t, self._due = t_ns * 1e-9, -math.inf
        for each in self._readers[tuple(values)]:
            each.take(t, values)

    def _find_readers(self, channels: tuple[str, ...]) -> list[ModelInput[InputSettings]]:
        """Those that read any of them."""
        return [each for each in self if not each.settings.LIMITS.keys().isdisjoint(channels)]

    def find_faults(self) -> dict[str, str]:
        """What is wrong with inputs that are measured, in words, by name."""
        faults = {each.NAME: fault for each in self if (fault := each.fault) is not None}
        if not self._drive_health.is_healthy:
            faults[self._drive_health.suspect] = "contradicts the accelerometer"
        return faults

    def check(self, t: float, f: EstimatedFilter, sources: Sources) -> None:
        """Find which inputs are measured at t, s; the filter estimates the errors of what replaces the others.

        While none has come since the last check and all are as they should be, that is done a little later.
        """
        if t < self._due and f.is_drive_known:  # a filter that has begun anew knows of none
            return
        ahead, yaw_rate, imu, steering = f.pose.item(AHEAD), sources.yaw_rate, sources.imu, self.steering
        f.set_drive_known(self.check_drive(t, ahead, None if imu is None else imu.measure_ahead(t)))
        slides = abs(f.pose.item(LEFT)) > _SIDEWAYS * abs(ahead)
        is_steered = steering.check(t, ahead, yaw_rate, slides)
        if steering.is_replaced_anew:
            # The last angle, and all that it has been off by while the wheels turned on, are over.
            f.set_steering_known(True, steering.noise)
        f.set_steering_known(is_steered, steering.noise)
        if steering.take_speed(ahead) and not (is_steered or steering.is_replaced_anew):
            # With the wheels turned to the other side, it turns on as it has been measured to.
            angle = steering.find_held_angle(t) + float(f.slow.get(STEERING_OFFSET)[0])
            f.slow.move(STEERING_OFFSET, -2.0 * angle)
            f.add_variance(STEERING_OFFSET, "", MIRRORED**2)
        self._due = t + _EVERY if is_steered else t

    def count_missing(self, counters: Counter[str], f: EstimatedFilter) -> None:
        """Count a step without steering, and one without torques or pressure."""
        steering, drive = MISSING
        if self.steering.health.state != "measured":
            counters[steering] += 1
        if not f.is_drive_known:
            counters[drive] += 1

    def check_drive(self, t: float, ahead: float, measured: float | None) -> bool:
        """Find whether torques and pressure at t (s) agree with the accelerometer; if not, they count as zero.

        `ahead`: speed, m/s; `measured`: specific force along the car, m/s², None where it is not measured. Returns
        whether both are measured at t, and healthy.
        """
        torques, brakes, health = self._torques, self._brakes, self._drive_health
        has_torques, has_brakes = torques.is_measured(t), brakes.is_measured(t)
        if has_torques or has_brakes:
            torque, pressure = torques.find_sum(t), brakes.find(t)
            health.check(
                t, torque if has_torques else None, pressure if has_brakes else None, ahead, measured
            )
        return health.is_healthy and has_torques and has_brakes

    def forget_contradictions(self) -> None:
        """Use torques and pressure again: the accelerometer that may have contradicted them is wrong itself."""
        self._drive_health = DriveHealth(self._car.vehicle)

    def apply(self, t: float) -> None:
        """Write the inputs at t (s) into the car."""
        for each in self._inputs.values():
            each.apply(t)
        if not self._drive_health.is_healthy:
            for row in (DRIVE_TORQUE, BRAKE_PRESSURE):
                self._car.corner_inputs[row] = 0.0
