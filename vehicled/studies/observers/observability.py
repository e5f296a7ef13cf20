"""Observability: the parts of a mechanism's state that its sensors determine, calculated without running a filter.

The readings over a window are linearised about the model's own motion: with H_k the derivatives of the k-th
readings with respect to z, ż, F_k the transition from the start to there, R of the sensors and P0 = L Lᵀ at
the start, the matrix of all R^(−1/2) H_k F_k L (Maybeck, *Stochastic Models, Estimation, and Control* 1,
section 1.7, scaled) has singular values with a meaning: an error of one standard deviation at the start
changes the readings by that number of their standard deviations. A direction with a value below one is
determined better by the start than by the sensors: it counts as unobservable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from vehicled.errors import RunError
from vehicled.multibody import problems
from vehicled.multibody.formulations import Ali3p
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.linearised import calc_exact_transition, calc_state_sensitivity

_NAMED = 0.05
"""Share of the largest part of a combination above which a coordinate is named in it."""
_STEPS = 200
"""Number of steps over which states without effect on any reading are found."""
_MOTIONS = 2
"""Number of motions with other rates (root mean square 1 rad/s or m/s)."""
_HIDDEN = 1e-9
"""Share of the largest singular value below which a value is due to rounding."""


@dataclass(frozen=True)
class Observability:
    """Observability of the 2f states z, ż."""

    names: tuple[str, ...]
    """Names of the states."""
    values: np.ndarray
    """(2f,) singular values, the largest first; 1: the readings add as much information as there was at the start."""
    directions: np.ndarray
    """(2f, 2f) orthonormal rows, in standard deviations of the start, one for each value."""

    @property
    def rank(self) -> int:
        """Number of combinations of states that the readings determine better than the start does."""
        return int(np.count_nonzero(self.values > 1.0))

    @property
    def complete(self) -> bool:
        """Whether every direction of the state is observable."""
        return self.rank == len(self.values)

    @property
    def unobservable(self) -> list[str]:
        """The combinations of states that are not observable, each in standard deviations of the start.

        Each contains as few states as possible.
        """
        hidden = self.directions[self.rank :]
        if not len(hidden):
            return []
        # Any basis of the same space is valid: one that is the identity in some of the states is easy to
        # interpret.
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
    """Observability over `steps` of `h` (s) from the present state, with readings after every `every` steps.

    The mechanism is left at their end.

    `covariance`: (2f, 2f) of z, ż at the start, positive definite. `free_masses`: for filters whose errors
    are propagated by [I h; 0 I] (errorEKF, DEKF) instead of by the exact Jacobian of the dynamics. Raises
    RunError if the motion cannot be simulated.
    """
    root = np.linalg.cholesky(covariance)
    parts = [
        sensitivity @ root / sensors.sigma[:, None]
        for sensitivity in _linearise(mechanism, sensors, h, steps, every, free_masses)
    ]
    return _decompose(mechanism, parts)


def find_hidden(
    mechanism: Mechanism, sensors: SensorSet, h: float, *, free_masses: bool = False
) -> list[str]:
    """Combinations of states that no reading depends on, for any noise of the sensors; `free_masses` as above.

    If there are some in the motion from the present state, motions with other rates are considered too: a
    gyroscope may depend on an angle only while the mechanism moves. The state of the mechanism is not
    changed. Empty if no motion can be simulated.
    """
    home, z, zd = mechanism.get_state(), mechanism.z, mechanism.zd
    best: Observability | None = None
    for rates in (None, *np.random.default_rng(0).standard_normal((_MOTIONS, len(zd)))):
        try:
            if rates is not None:
                mechanism.set_independent_state(z, zd + rates).require("the start")
            found = _find_structure(mechanism, sensors, h, free_masses)
        except RunError:
            continue
        finally:
            mechanism.set_state(home)
        if best is None or found.rank > best.rank:
            best = found
        if best.complete:
            break
    return [] if best is None else best.unobservable


def _find_structure(mechanism: Mechanism, sensors: SensorSet, h: float, free_masses: bool) -> Observability:
    """Observability whose values are above 1, except for rounding."""
    parts: list[np.ndarray] = []
    for part in _linearise(mechanism, sensors, h, _STEPS, 1, free_masses):
        if not np.all(np.isfinite(part)):
            raise RunError("the sensors cannot be linearised")
        parts.append(part)
        # Most sensors depend on all states after a few steps.
        if len(parts) in (_STEPS // 10, _STEPS):
            largest = np.abs(parts).max(axis=(0, 2))
            scale = np.where(largest > 0.0, largest, 1.0)[:, None]
            found = _decompose(mechanism, [part / scale for part in parts])
            least = max(_HIDDEN * float(found.values[0]), np.finfo(float).tiny)
            found = replace(found, values=found.values / least)
            if found.complete:
                break
    return found


def _linearise(
    mechanism: Mechanism, sensors: SensorSet, h: float, steps: int, every: int, free_masses: bool
) -> Iterator[np.ndarray]:
    """(k, 2f) derivatives of the readings, after every `every` steps, with respect to the initial z, ż."""
    stepper = Ali3p()
    independent = mechanism.independent.copy()
    f = len(independent)
    free = np.eye(2 * f)
    free[:f, f:] = h * np.eye(f)
    transition = np.eye(2 * f)
    for k in range(steps + 1):
        memory = mechanism.qdd.copy(), mechanism.multipliers.copy()
        problems.solve_dynamics(mechanism)
        if k and k % every == 0:
            yield calc_state_sensitivity(mechanism, sensors) @ transition
        step = free if free_masses else calc_exact_transition(mechanism, h)[0]
        transition = step @ transition
        mechanism.qdd[:], mechanism.multipliers = memory
        if k < steps:
            stepper.step(mechanism, h).require("the motion along which the sensors are linearised")
            mechanism.set_independent(independent)


def _decompose(mechanism: Mechanism, parts: Sequence[np.ndarray]) -> Observability:
    """Observability from derivatives (k, 2f) of readings with respect to the states, each scaled by its unit."""
    coordinates = [mechanism.coordinate_names[k] for k in mechanism.independent]
    names = (*coordinates, *(f"rate of {name}" for name in coordinates))
    # Rows of zeros come first, so that there is a value for every state, even with few readings.
    rows = np.vstack([np.zeros((len(names), len(names))), *parts])
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    return Observability(names, values, directions)
