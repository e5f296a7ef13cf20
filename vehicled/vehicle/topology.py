"""What a compiled car consists of, counted from the model itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.vehicle.car import Car

_STEP = 1e-3
"""m, or per unit of a direction: nearly all constraints are polynomials of second degree, of which central
differences are exact at any step."""


@dataclass(frozen=True)
class CarTopology:
    """Of the whole car: what one corner has counts four times."""

    bodies: list[str]
    coordinates: list[str]
    constraints: list[str]
    rank: int
    """Of the constraint Jacobian at rest."""

    @property
    def degrees_of_freedom(self) -> int:
        """Coordinates less the rank of the constraints' Jacobian."""
        return len(self.coordinates) - self.rank


def calc_topology(car: Car) -> CarTopology:
    """Counts of a car; it is left as it was."""
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
    """(constraints,) Φ(q) as the end of a step computes it, which also writes rates: q alone counts here."""
    car.call(car.kernels.step.recover)
    return np.concatenate([car.view(name).reshape(-1) for name in ("phi", "branch.phi")])
