"""A copy of a car with further code, so that the code of the car is the same with it and without."""

from __future__ import annotations

from typing import Generic

import numpy as np

from vehicled.vehicle.car import PRESENT, Car, Instances, compiled
from vehicled.vehicle.extension import Extension, Result


class CarCopy(Instances, Generic[Result]):
    """Moves as the car does whenever `update` is called."""

    def __init__(self, car: Car, extension: Extension[Result]) -> None:
        """With the parameters that the car has now. The code is compiled on first use."""
        super().__init__(compiled(car.vehicle.tyre, car.vehicle.suspensions, (extension,)))
        for name in ("parameters", "corner_parameters"):
            self.view(name)[...] = car.view(name)
        self.call(self.kernels.prepare)
        self.added = self.result(extension)
        """What the extension has added."""
        self._car = car
        self._here, self._there = (
            np.concatenate([c.layout.view(np.arange(c.layout.size), name).ravel() for name in PRESENT])
            for c in (self, car)
        )

    def update(self) -> None:
        """Take over the car's present motion, inputs and surroundings."""
        self.workspace[self._here] = self._car.workspace[self._there]
