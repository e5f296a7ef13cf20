"""Brake pressure, as input of the model."""

from __future__ import annotations

from collections.abc import Mapping

from vehicled.vehicle.car import Car

LIMITS: Mapping[str, float] = {"brake.pressure": 1e8}


class Brakes:
    """Keeps the latest line pressure."""

    def __init__(self, car: Car) -> None:
        self._car = car
        self.pressure = 0.0
        """Pa."""

    def take(self, values: Mapping[str, float]) -> None:
        """Keep the line pressure (Pa) if it is among the channels; below zero counts as zero."""
        if "brake.pressure" in values:
            self.pressure = max(values["brake.pressure"], 0.0)

    def apply(self) -> None:
        """Write it into the car."""
        self._car.corner_inputs[4] = self.pressure
