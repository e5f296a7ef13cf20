"""A copy of a car with further code, so that the code of the car itself does not change."""

from __future__ import annotations

from typing import Generic

import numpy as np

from vehicled.vehicle.car import PRESENT, Car, Instances, compiled
from vehicled.vehicle.extension import Extension, Result


class CarCopy(Instances, Generic[Result]):
    """Takes over the state of the car whenever `update` is called."""

    def __init__(self, car: Car, extension: Extension[Result]) -> None:
        """Copy the present parameters of the car. The code is compiled on first use."""
        super().__init__(compiled(car.vehicle.tyre, car.vehicle.suspensions, (extension,)))
        for name in ("parameters", "corner_parameters"):
            self.view(name)[...] = car.view(name)
        self.call(self.kernels.prepare)
        self.added = self.result(extension)
        """Result of the extension."""
        self._car = car
        self._here, self._there = (
            np.concatenate([c.layout.view(np.arange(c.layout.size), name).ravel() for name in PRESENT])
            for c in (self, car)
        )

    def update(self) -> None:
        """Take over the car's present motion, inputs and surroundings."""
        self.workspace[self._here] = self._car.workspace[self._there]
