"""Drive torque at the wheels, as input of the model.

The torque of an axle is known when both of its wheels are measured, or both together. What is measured of each wheel
contains what the differential does; a torque of both is shared by the differential of the model. An axle whose torque
is not known gets none: the filter estimates the force that it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from vehicled.messages import WHEELS
from vehicled.units import NonNegative, Positive
from vehicled.vehicle.car import Car
from vehicled.vehicle.differential import Differential

TIMEOUT = 0.5
"""s: a torque that has not been measured for this long is unknown, and no torque is assumed."""
AXLES = ("front", "rear")


@dataclass(frozen=True, kw_only=True)
class WheelTorques:
    """How the drive torques that the model follows are read."""

    LIMITS: ClassVar[Mapping[str, float]] = dict.fromkeys((f"torque.{n}" for n in (*WHEELS, *AXLES)), 1e5)

    gain: Annotated[float, Positive] = 1.0
    """True torque over the sensor's."""
    scale: Annotated[float, NonNegative] = 0.005
    """How far off that may be, 1 σ: what is identified of a car's forces is known no better."""


class _AxleTorques:
    """The latest torques of one axle."""

    def __init__(self, axle: str, differential: Differential) -> None:
        self.channels = tuple(f"torque.{n}" for n in (f"{axle[0]}l", f"{axle[0]}r", axle))
        """Of the left and the right wheel, and of both."""
        self._differential = differential
        self._torques = [0.0, 0.0, 0.0]
        self._until = [-math.inf, -math.inf, -math.inf]

    def take(self, n: int, t: float, torque: float) -> None:
        """Keep a torque, N·m, of the channel at that place."""
        self._torques[n] = torque
        self._until[n] = t + TIMEOUT

    def find(self, t: float) -> tuple[float, float, float, float]:
        """At t, s: the torques of both wheels and what the differential can move between them, N·m.

        And the time until which they are measured, −∞ if they are not.
        """
        left, right, both = self._torques
        limit = self._differential.calc_limit
        until = min(self._until[:2])
        if t < until:
            return left, right, 0.0, until
        if t < self._until[2]:
            return 0.5 * both, 0.5 * both, limit(both), self._until[2]
        return 0.0, 0.0, limit(0.0), -math.inf


class Torques:
    """Keeps the latest torques of the wheels."""

    def __init__(self, settings: WheelTorques, car: Car) -> None:
        vehicle = car.vehicle
        self._gain, self._inputs = settings.gain, car.corner_inputs
        self._axles = [_AxleTorques(axle, getattr(vehicle, axle).differential) for axle in AXLES]
        self._is_driven = [vehicle.driven in (axle, "all") for axle in AXLES]
        self._places = {c: (axle, n) for axle in self._axles for n, c in enumerate(axle.channels)}
        self._find(-math.inf)

    def take(self, t: float, values: Mapping[str, float]) -> None:
        """Keep the torques (N·m, times `gain`) that are among the channels."""
        for channel, (axle, n) in self._places.items():
            if channel in values:
                axle.take(n, t, self._gain * values[channel])
                self._next = -math.inf

    def is_measured(self, t: float) -> bool:
        """Whether the torques of all driven axles were measured shortly before t, s."""
        self._follow(t)
        return self._known

    def apply(self, t: float) -> None:
        """Write them into the car; none on an axle where they are not measured at t, s."""
        self._follow(t)
        self._inputs[3] = self._torques
        self._inputs[5] = self._limits

    def _follow(self, t: float) -> None:
        if not t < self._next:
            self._find(t)

    def _find(self, t: float) -> None:
        found = [axle.find(t) for axle in self._axles]
        self._torques = [torque for left, right, _, _ in found for torque in (left, right)]
        """Of the wheels, N·m."""
        self._limits = [limit for _, _, limit, _ in found for _ in range(2)]
        ends = [until for *_, until in found]
        self._known = all(t < end for end, driven in zip(ends, self._is_driven, strict=True) if driven)
        self._next = min((end for end in ends if t < end), default=math.inf)
        """Time at which the next of them is no longer measured, s."""
