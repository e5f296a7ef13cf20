"""Brake pressure, as input of the model."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

from vehicled.messages import WHEELS
from vehicled.vehicle.arrays import BRAKE_PRESSURE
from vehicled.vehicle.car import Car

TIMEOUT = 0.5
"""s: a pressure that has not been measured for this long is unknown, and no pressure is assumed."""
_PRESSURES = slice(BRAKE_PRESSURE * len(WHEELS), (BRAKE_PRESSURE + 1) * len(WHEELS))
"""Places of this row in the flat inputs of corners."""
LIMITS: Mapping[str, float] = {"brake.pressure": 1e8}


class Brakes:
    """Keeps the latest line pressure."""

    def __init__(self, car: Car) -> None:
        self._car = car
        self.pressure = 0.0
        """Pa."""
        self.measured_at = -math.inf
        """s."""

    def take(self, t: float, values: Mapping[str, float]) -> None:
        """Keep the line pressure (Pa) if it is among the channels; below zero counts as zero."""
        if "brake.pressure" in values:
            self.pressure = max(values["brake.pressure"], 0.0)
            self.measured_at = t

    def is_measured(self, t: float) -> bool:
        """Whether it was measured shortly before t, s."""
        return t - self.measured_at < TIMEOUT

    def find(self, t: float) -> float:
        """The pressure at t, s; none where it is not measured."""
        return self.pressure if self.is_measured(t) else 0.0

    def apply(self, t: float) -> None:
        """Write it into the car."""
        self._car.flat_corner_inputs[_PRESSURES] = array("d", [self.find(t)] * len(WHEELS))
