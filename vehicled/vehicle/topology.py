"""Bodies, coordinates and constraints of a compiled car, counted from the model itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.vehicle.car import Car

_STEP = 1e-3
"""m, or per unit of a direction: nearly all constraints are polynomials of second degree, for which central
differences are exact with any step."""


@dataclass(frozen=True)
class CarTopology:
    """Counts of the whole car: parts of a corner count four times."""

    bodies: list[str]
    coordinates: list[str]
    constraints: list[str]
    rank: int
    """Rank of the constraint Jacobian at rest."""

    @property
    def degrees_of_freedom(self) -> int:
        """Coordinates less the rank of the constraints' Jacobian."""
        return len(self.coordinates) - self.rank


def calc_topology(car: Car) -> CarTopology:
    """Counts of a car; its state is not changed."""
    names = car.compiled.names
    rank = int(np.linalg.matrix_rank(calc_constraint_jacobian(car)))
    return CarTopology(names.bodies, names.coordinates, names.constraints, rank)


def calc_constraint_jacobian(car: Car) -> np.ndarray:
    """(constraints, coordinates) ∂Φ/∂q of the machine code at rest, by central differences.

    Rows and columns of the root come first; then each of a corner, in turn for fl, fr, rl, rr.
    """
    before = car.workspace.copy()
    try:
        car.rest()
        places = [car.view(name).reshape(-1) for name in ("q", "branch.q")]
        columns = []
        for place in places:
            for k in range(place.size):
                middle = place[k]
                ends = []
                for end in (middle + _STEP, middle - _STEP):
                    place[k] = end
                    ends.append(_constraint_values(car))
                place[k] = middle
                columns.append((ends[0] - ends[1]) / (2 * _STEP))
        return np.stack(columns, axis=1)
    finally:
        car.workspace[:] = before


def _constraint_values(car: Car) -> np.ndarray:
    """(constraints,) Φ(q) as at the end of a step. The kernel also writes rates, but only q matters here."""
    car.call(car.kernels.step.recover)
    return np.concatenate([car.view(name).reshape(-1) for name in ("phi", "branch.phi")])
