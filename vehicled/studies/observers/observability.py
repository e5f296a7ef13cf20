"""What the sensors of a mechanism can tell of its state, before any filter has run.

The readings over a window are linearised about the model's own motion: with H_k the derivatives of the k-th readings
by z, ż, F_k the transition from the start to there, R of the sensors and P0 = L Lᵀ of the start, the matrix of all
R^(−1/2) H_k F_k L (Maybeck, *Stochastic Models, Estimation, and Control* 1, section 1.7, scaled) has singular values
with a meaning: by so many standard deviations of the readings shows one standard deviation of what is not known at
the start. What shows by less than one is known better from the start than from the sensors: it is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vehicled.multibody import problems
from vehicled.multibody.formulations import Ali3p
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import MechanismObserver

_NAMED = 0.05
"""Share of the largest part of a combination from which a coordinate is named in it."""


@dataclass(frozen=True)
class Observability:
    """Of the 2f states z, ż."""

    names: tuple[str, ...]
    """Of the states."""
    values: np.ndarray
    """(2f,) singular values, the largest first; 1: the readings tell as much as was known before."""
    directions: np.ndarray
    """(2f, 2f) orthonormal rows, in standard deviations of the start, one for each value."""

    @property
    def rank(self) -> int:
        return int(np.count_nonzero(self.values > 1.0))

    @property
    def complete(self) -> bool:
        """Whether every direction of the state is seen."""
        return self.rank == len(self.values)

    @property
    def unseen(self) -> list[str]:
        """The combinations of states that are not seen, each in standard deviations of the start; as few states in
        each as can be."""
        hidden = self.directions[self.rank :]
        if not len(hidden):
            return []
        # Any basis of the same space would do: one that is the identity in some of the states can be read.
        _, _, pivots = scipy.linalg.qr(hidden, mode="economic", pivoting=True)
        pivots = np.sort(pivots[: len(hidden)])
        return [self._name(row) for row in np.linalg.solve(hidden[:, pivots], hidden)]

    def _name(self, direction: np.ndarray) -> str:
        largest = int(np.argmax(np.abs(direction)))
        scaled = direction / direction[largest]
        text = ""
        for name, share in zip(self.names, scaled, strict=True):
            if abs(share) < _NAMED:
                continue
            sign = ("−" if share < 0 else "") if not text else (" − " if share < 0 else " + ")
            size = abs(share)
            text += sign + (name if abs(size - 1.0) < _NAMED else f"{size:.2g} {name}")
        return text


def calc_observability(
    mechanism: Mechanism,
    sensors: SensorSet,
    h: float,
    covariance: np.ndarray,
    steps: int,
    every: int = 1,
    *,
    free_masses: bool = False,
) -> Observability:
    """Over `steps` of `h` (s) from the present state, with readings after `every` so many of them; the mechanism
    is left at their end.

    `covariance`: (2f, 2f) of z, ż at the start, positive definite. `free_masses`: as filters see it that let errors
    spread by [I h; 0 I] (errorEKF, DEKF) instead of by the exact Jacobian of the dynamics. Raises RunError where
    the motion cannot be followed.
    """
    stepper = Ali3p()
    linear = MechanismObserver(mechanism, sensors, h, covariance, np.zeros(np.shape(covariance)))
    f = len(linear.independent)
    root = np.linalg.cholesky(linear.covariance)
    free = np.eye(2 * f)
    free[:f, f:] = h * np.eye(f)
    spread, rows = np.eye(2 * f), [np.zeros((2 * f, 2 * f))]
    for k in range(steps + 1):
        memory = mechanism.qdd.copy(), mechanism.multipliers.copy()
        problems.solve_dynamics(mechanism)
        if k and k % every == 0:
            by_z, by_zd, by_zdd = linear.calc_sensitivity()
            seen = np.hstack([by_z, by_zd])
            if by_zdd.any() and not free_masses:
                seen += by_zdd @ np.hstack(problems.calc_acceleration_jacobians(mechanism))
            rows.append(seen @ spread @ root / sensors.sigma[:, None])
        spread = (free if free_masses else linear.calc_exact_transition()[0]) @ spread
        mechanism.qdd[:], mechanism.multipliers = memory
        if k < steps:
            stepper.step(mechanism, h).require("the motion along which the sensors are judged")
            mechanism.set_independent(linear.independent)
    # Rows of zeros stand first, so that there is a value for every state however few the readings are.
    _, values, directions = np.linalg.svd(np.vstack(rows), full_matrices=False)
    coordinates = [mechanism.coordinate_names[k] for k in linear.independent]
    names = (*coordinates, *(f"rate of {name}" for name in coordinates))
    return Observability(names, values, directions)
