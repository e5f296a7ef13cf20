"""Drive torque at the wheels, as an input of the model.

The torque of an axle is known if both of its wheels are measured, or their sum. Torques of single wheels
include the effect of the differential; a sum is distributed by the model's differential. An axle with unknown
torque gets none: the filter estimates the missing force.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from vehicled.messages import WHEELS
from vehicled.sources.inputs.model_input import InputSettings, ModelInput
from vehicled.sources.inputs.tracker import EXTRAPOLATED_OVER, Tracker
from vehicled.units import NonNegative, Positive
from vehicled.vehicle.arrays import DRIVE_TORQUE, TRANSFER_LIMIT
from vehicled.vehicle.parameters import Vehicle

if TYPE_CHECKING:  # commands that only read a configuration load no machine code
    from vehicled.vehicle.car import Car

TIMEOUT = 0.5
"""s: a torque that has not been measured for this long is unknown, and taken as zero."""
AXLES = ("front", "rear")
_DRIVE_TORQUES, _TRANSFER_LIMITS = (
    slice(row * len(WHEELS), (row + 1) * len(WHEELS)) for row in (DRIVE_TORQUE, TRANSFER_LIMIT)
)
"""Places of these rows in the flat inputs of corners."""


@dataclass(frozen=True, kw_only=True)
class WheelTorques(InputSettings):
    """How the drive torques that the model follows are read."""

    LIMITS: ClassVar[Mapping[str, float]] = dict.fromkeys((f"torque.{n}" for n in (*WHEELS, *AXLES)), 1e5)

    gain: Annotated[float, Positive] = 1.0
    """True torque over the sensor's."""
    scale: Annotated[float, NonNegative] = 0.005
    """Its uncertainty, 1 σ: the forces identified for a car are known no better."""

    def make_input(self, car: Car) -> Torques:
        """The input that uses this section."""
        return Torques(self, car)


class _AxleTorques:
    """The latest torques of one axle."""

    def __init__(self, axle: str, vehicle: Vehicle) -> None:
        self.channels = tuple(f"torque.{n}" for n in (f"{axle[0]}l", f"{axle[0]}r", axle))
        """Channels of the left wheel, of the right wheel, and of both."""
        self.is_driven = vehicle.driven in (axle, "all")
        self._calc_limit = getattr(vehicle, axle).differential.calc_limit
        self._torques = [0.0, 0.0, 0.0]
        self._trackers = [Tracker(EXTRAPOLATED_OVER) for _ in self.channels]
        self._until = [-math.inf, -math.inf, -math.inf]

    def take(self, n: int, t: float, latency: float, torque: float) -> None:
        """Keep a torque, N·m, of the n-th channel that came at t, s."""
        self._torques[n] = torque
        self._trackers[n].update(t - latency, torque)
        self._until[n] = t + TIMEOUT

    @property
    def until(self) -> float:
        """Time until which any of them is known, s."""
        return max(self._until)

    def find(self, t: float, latency: float) -> tuple[float, float, float, float]:
        """At t, s: torques of both wheels, and the torque that the differential can transfer between them, N·m.

        The last value is the time until which they are known, −∞ if they are not.
        """
        left, right, both = [k.at(t)[0] for k in self._trackers] if latency else self._torques
        left_until, right_until, until = self._until
        if t < left_until and t < right_until:
            return left, right, 0.0, min(left_until, right_until)
        if t < until:
            return 0.5 * both, 0.5 * both, self._calc_limit(both), until
        return 0.0, 0.0, self._calc_limit(0.0), -math.inf


class Torques(ModelInput[WheelTorques]):
    """Keeps the latest torques of the wheels."""

    NAME = "torques"
    SERVES = ("slip",)
    HOLDS = TIMEOUT

    def __init__(self, settings: WheelTorques, car: Car) -> None:
        super().__init__(settings, car)
        self._inputs = car.flat_corner_inputs
        self._front, self._rear = axles = [_AxleTorques(axle, car.vehicle) for axle in AXLES]
        self._places = {channel: (axle, n) for axle in axles for n, channel in enumerate(axle.channels)}
        self._find(-math.inf)

    def take(self, t: float, values: Mapping[str, float]) -> None:
        """Keep the torques (N·m, times `gain`) that are among the channels."""
        for channel, value in values.items():
            if channel in self._places:
                axle, n = self._places[channel]
                axle.take(n, t, self.settings.latency, self.settings.gain * value)
                self._next = -math.inf

    @property
    def measured_at(self) -> float:
        """Time of the latest measurement of one of them, s; −∞ if never."""
        return max(self._front.until, self._rear.until) - TIMEOUT

    def is_measured(self, t: float) -> bool:
        """Whether the torques of all driven axles were measured shortly before t, s."""
        if t >= self._next:
            self._find(t)
        return self._is_measured

    def find_sum(self, t: float) -> float:
        """Sum of the torques of all wheels at t, s, N·m."""
        if t >= self._next:
            self._find(t)
        return sum(self._torques)

    def apply(self, t: float) -> None:
        """Write the torques into the car; zero on an axle where they are not measured at t, s."""
        if t >= self._next:
            self._find(t)
        self._inputs[_DRIVE_TORQUES] = self._torques
        self._inputs[_TRANSFER_LIMITS] = self._limits

    def _find(self, t: float) -> None:
        latency = self.settings.latency
        left, right, limit, front_until = self._front.find(t, latency)
        rear_left, rear_right, rear_limit, rear_until = self._rear.find(t, latency)
        self._torques = array("d", (left, right, rear_left, rear_right))
        self._limits = array("d", (limit, limit, rear_limit, rear_limit))
        front, rear = t < front_until, t < rear_until
        self._is_measured = (front or not self._front.is_driven) and (rear or not self._rear.is_driven)
        # Nothing changes until the first of them expires, except for late torques, which are extrapolated.
        self._next = (
            -math.inf
            if latency
            else min(front_until if front else math.inf, rear_until if rear else math.inf)
        )
