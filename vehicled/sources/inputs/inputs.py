"""Measured inputs of the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.states import STEERING_OFFSET, VELOCITY
from vehicled.sources.by_channels import ByChannels
from vehicled.sources.falsified import doubt_unmodelled
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
_FOLLOWED = 0.5
"""Share of the velocity aside of wheels turned wrongly that the car's lateral velocity takes until they are
found."""
_SIDEWAYS = 0.3
"""Lateral speed over forward speed above which the car slides: at full lock it is less at the centre of
mass."""
_EVERY = 0.01
"""Time between checks, s, while inputs are measured and no new one comes."""


class Inputs:
    """All inputs of a car: takes measurements, and writes them into the car before each step."""

    def __init__(self, car: Car, sensors: Sensors) -> None:
        self._car, self._settings = car, dict(sensors.inputs())
        self.channels = frozenset(c for settings in self._settings.values() for c in settings.LIMITS)
        """Channels of all inputs."""
        self.reset()

    def reset(self) -> None:
        """Forget all inputs."""
        for array in (self._car.inputs, self._car.corner_inputs):
            array[...] = 0.0
        self._inputs = {name: settings.make_input(self._car) for name, settings in self._settings.items()}
        self._readers = ByChannels(self._find_readers)
        self.steering = self._find(Steering)
        self._torques, self._brakes = self._find(Torques), self._find(Brakes)
        self._drive_health = DriveHealth(self._car.vehicle)
        self._due = -math.inf
        """Time of the next check, s."""

    def reconfigure(self, sensors: Sensors) -> None:
        """Take other settings while running; the steering tracker's memory changes at the next reset only."""
        self._settings = dict(sensors.inputs())
        for name, settings in self._settings.items():
            self._inputs[name].reconfigure(settings)

    def __iter__(self) -> Iterator[ModelInput[InputSettings]]:
        return iter(self._inputs.values())

    def _find(self, kind: type[Kind]) -> Kind:
        return next(each for each in self if isinstance(each, kind))

    def take(self, t_ns: int, values: Mapping[str, float]) -> None:
        """Take channels measured at a time; those that are no inputs are ignored."""
        t, self._due = t_ns * 1e-9, -math.inf
        for each in self._readers[tuple(values)]:
            each.take(t, values)

    def _find_readers(self, channels: tuple[str, ...]) -> list[ModelInput[InputSettings]]:
        """Inputs that read any of these channels."""
        return [each for each in self if not each.settings.LIMITS.keys().isdisjoint(channels)]

    def find_fault(self, each: ModelInput[InputSettings]) -> str | None:
        """Fault of an input that is measured, in words; None without one."""
        if not self._drive_health.is_healthy and self._drive_health.suspect == each.NAME:
            return "contradicts the accelerometer"
        return each.fault

    def check(self, t: float, f: EstimatedFilter, sources: Sources) -> None:
        """Find which inputs are measured at t, s; for the others, the filter estimates the error of a replacement.

        While all inputs are healthy and none has come since the last check, the next check is `_EVERY` later.
        """
        if t < self._due and f.is_drive_known:  # a restarted filter knows no inputs yet
            return
        ahead, yaw_rate, imu, steering = f.pose.item(AHEAD), sources.yaw_rate, sources.imu, self.steering
        f.set_drive_known(self.check_drive(t, ahead, None if imu is None else imu.measure_ahead(t)))
        slides = abs(f.pose.item(LEFT)) > _SIDEWAYS * abs(ahead)
        is_steered = steering.check(t, ahead, yaw_rate, slides)
        if steering.is_replaced_anew:
            # The last angle is no longer used, so its error is dropped as well.
            f.set_steering_known(True, steering.noise)
        f.set_steering_known(is_steered, steering.noise)
        if steering.found_off:
            self._doubt_falsified(f, steering.found_off * ahead)
        if steering.take_speed(ahead) and not (is_steered or steering.is_replaced_anew):
            # The yaw rate stays as measured while the speed changed sign: so the wheels are turned to the
            # other side.
            angle = steering.find_held_angle(t) + float(f.slow.get(STEERING_OFFSET)[0])
            f.slow.move(STEERING_OFFSET, -2.0 * angle)
            f.add_variance(STEERING_OFFSET, "", MIRRORED**2)
        self._due = t + _EVERY if is_steered else t

    def _doubt_falsified(self, f: EstimatedFilter, aside: float) -> None:
        """Make uncertain what wrong steering has falsified. `aside`: error of the wheels' lateral velocity, m/s."""
        f.add_variance(VELOCITY, "left", (_FOLLOWED * aside) ** 2)
        doubt_unmodelled(f)

    def count_missing(self, counters: Counter[str], f: EstimatedFilter) -> None:
        """Count the step if steering is missing, and if torques or pressure are."""
        steering, drive = MISSING
        if self.steering.health.state != "measured":
            counters[steering] += 1
        if not f.is_drive_known:
            counters[drive] += 1

    def check_drive(self, t: float, ahead: float, measured: float | None) -> bool:
        """Check torques and pressure at t (s) against the accelerometer; if they do not agree, they count as zero.

        `ahead`: speed, m/s; `measured`: specific force along the car, m/s², None where it is not measured.
        Returns whether both are measured at t, and healthy.
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
        """Use torques and pressure again, as the accelerometer that may have contradicted them was wrong itself."""
        self._drive_health = DriveHealth(self._car.vehicle)

    def apply(self, t: float) -> None:
        """Write the inputs at t (s) into the car."""
        for each in self._inputs.values():
            each.apply(t)
        if not self._drive_health.is_healthy:
            for row in (DRIVE_TORQUE, BRAKE_PRESSURE):
                self._car.corner_inputs[row] = 0.0
