"""Drive torque at the wheels, as input of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from vehicled.units import NonNegative, Positive
from vehicled.vehicle.car import Car

TIMEOUT = 0.5
"""s: a torque that has not been measured for this long is unknown, and no torque is assumed."""


@dataclass(frozen=True, kw_only=True)
class WheelTorques:
    """How the drive torques that the model follows are read."""

    LIMITS: ClassVar[Mapping[str, float]] = {"torque.rl": 1e5, "torque.rr": 1e5}

    gain: Annotated[float, Positive] = 1.0
    """True torque over the sensor's."""
    scale: Annotated[float, NonNegative] = 0.005
    """How far off that may be, 1 σ: what is identified of a car's forces is known no better."""


class Torques:
    """Keeps the latest torques of the rear wheels."""

    def __init__(self, settings: WheelTorques, car: Car) -> None:
        self._settings, self._car = settings, car
        self.rear = [0.0, 0.0]
        """Left and right, N·m."""
        self._measured_at = [-math.inf, -math.inf]

    def take(self, t: float, values: Mapping[str, float]) -> None:
        """Keep the torques of the rear wheels (N·m, times `gain`) that are among the channels."""
        for n, channel in enumerate(("torque.rl", "torque.rr")):
            if channel in values:
                self.rear[n] = self._settings.gain * values[channel]
                self._measured_at[n] = t

    def is_measured(self, t: float) -> bool:
        """Whether both wheels' torque was measured shortly before t, s."""
        return t - min(self._measured_at) < TIMEOUT

    def apply(self, t: float) -> None:
        """Write them into the car; none where they are not measured at t, s."""
        self._car.corner_inputs[3, 2:] = self.rear if self.is_measured(t) else 0.0
