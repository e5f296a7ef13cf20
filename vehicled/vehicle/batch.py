"""Several cars stepped together, as for sigma points of a filter: each is cheaper than a car alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from vehicled.vehicle.car import PRESENT, Car, Instances, compiled
from vehicled.vehicle.extension import Extension


class CarBatch(Instances):
    """`width` cars with the parameters of one.

    Code for that width is compiled on first use. A Newton iteration goes on until the last car has
    converged; cars that have converged are not changed meanwhile, so that each result is the same as that of a
    single car.
    """

    def __init__(self, car: Car, width: int, extensions: tuple[Extension[Any], ...] = ()) -> None:
        """`width`: 2, 4 or a multiple of 8, which is what vectors hold. Raises ValueError on others."""
        if width not in (2, 4) and (width < 8 or width % 8):
            raise ValueError(f"{width} cars side by side: expected 2, 4 or a multiple of 8")
        super().__init__(compiled(car.vehicle.tyre, car.vehicle.suspensions, extensions, width))
        self._newton = self.view("newton")
        for name in ("parameters", "corner_parameters"):
            self.view(name)[...] = car.view(name)[..., None]
        self.call(self.kernels.prepare)
        self._shared = [(self.view(name), car.view(name)[..., None]) for name in PRESENT]
        self.copy_state_from_car()

    def copy_state_from_car(self) -> None:
        """Copy the present state of the single car, with its inputs, its ground and additions by a filter."""
        for ours, its in self._shared:
            ours[...] = its

    @property
    def converged(self) -> np.ndarray:
        """(width,) whether the last step reached its tolerance."""
        converged: np.ndarray = self._newton[0] < self.tolerance**2
        return converged
