"""Estimates of a mechanism's parameters from recorded motions and forces, with priors from its file.

All unknowns are estimated at once, weighted by the noise of each force, of bodies that are physically possible
(`feasible`). The values of the file are priors with a standard deviation of their own: the equations of a mechanism
with few degrees of freedom are so ill-conditioned that without any prior the noise of the forces decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vehicled.identification import feasible, motions
from vehicled.identification.least_squares import calc_prediction_error
from vehicled.identification.mechanism.findings import (
    PRIOR_DEVIATION,
    FoundCombination,
    FoundQuantity,
    describe_base,
    describe_quantities,
    find_base,
    find_contradictions,
)
from vehicled.identification.mechanism.smoothing import smooth
from vehicled.identification.mechanism.unknowns import MechanismUnknowns

_PASSES = 3
"""Estimates, each with the noise of the forces that the last one left."""
_FIRST_NOISE = 0.05
"""Share of the forces."""
_LEAST_NOISE = 1e-4
_BALANCED, _IGNORED = 0.7, 1e6
"""Shares of the terms of an equation that nothing drives: one that leaves more than the first says nothing but that
there are no masses, and gets the second as noise. So does that of a body with one unknown, which is its factor."""
_CHUNK = 200
_LOADED = 1e-6
"""Share of the terms of an equation above which its force counts as one."""


@dataclass(frozen=True)
class Recorded:
    """A run: f independent coordinates and the forces on them, N samples."""

    name: str
    t: np.ndarray
    """(N,) s"""
    z: np.ndarray
    """(N, f) m, rad"""
    forces: np.ndarray
    """(N, f) N, N·m; zero where nothing drives a coordinate."""


@dataclass(frozen=True)
class RunEquations:
    """W (N, f, n) of the unknowns and τ (N, f) on the independent coordinates."""

    w: np.ndarray
    forces: np.ndarray


@dataclass(frozen=True)
class UnknownsEstimate:
    """θ (n,) of the unknowns and what follows from it."""

    theta: np.ndarray
    covariance: np.ndarray
    """(n, n)"""
    noise: np.ndarray
    """(f,) standard deviation of what is left of each force, N, N·m."""
    quantities: list[FoundQuantity]
    base: list[FoundCombination]
    before: float
    """Error of the predicted forces (`calc_error`) with the file's values, and with those found."""
    after: float
    notes: list[str]
    """What contradicts the file so much that log or file may be wrong."""


def calc_equations(
    unknowns: MechanismUnknowns, run: Recorded, progress: Callable[[int], None] = lambda _: None
) -> RunEquations:
    """The equations of a run; `progress` receives the number of its samples that are done.

    Raises UsageError for samples that cannot be smoothed, RunError for positions that the mechanism does not have.
    """
    smoothed = smooth(run.t, run.z)
    t, forces = run.t[smoothed.used], run.forces[smoothed.used]
    mechanism = unknowns.regressor.mechanism
    home, blocks = mechanism.get_state(), []
    for start in range(0, len(t), _CHUNK):
        part = slice(start, start + _CHUNK)
        motion = motions.solve_motion(
            mechanism, t[part], smoothed.z[part], smoothed.zd[part], smoothed.zdd[part]
        )
        w, known = motions.observe(unknowns.regressor, motion, forces[part]).on_coordinates()
        blocks.append((w @ unknowns.matrix, known))
        progress(min(start + _CHUNK, len(t)))
    mechanism.set_state(home)
    return RunEquations(*(np.concatenate(part) for part in zip(*blocks, strict=True)))


def estimate(unknowns: MechanismUnknowns, runs: Sequence[RunEquations]) -> UnknownsEstimate:
    """The unknowns from the equations of one or more runs."""
    w = np.concatenate([run.w for run in runs])
    forces = np.concatenate([run.forces for run in runs])
    count, n = len(w), w.shape[-1]
    # Terms of the equations, not forces: nothing drives some coordinates, where terms are in balance.
    size = _calc_size(w, unknowns.prior)
    loaded = _is_loaded(forces, size)
    noise = np.where(loaded | _is_balanced(w, unknowns.prior), _FIRST_NOISE, _IGNORED) * size
    for _ in range(_PASSES):
        found = feasible.estimate_feasible(
            w.reshape(-1, n),
            forces.ravel(),
            unknowns.sizes,
            unknowns.prior,
            np.tile(noise, count),
            1.0 / PRIOR_DEVIATION,
        )
        left = np.maximum(_rms(forces - w @ found.values), _LEAST_NOISE * size)
        noise = np.where(loaded | _is_balanced(w, found.values), left, _IGNORED * size)
    covariance = _calc_covariance(runs, found, noise)
    base = find_base(unknowns)
    quantities = describe_quantities(unknowns, base, found.values, found.units, covariance)
    return UnknownsEstimate(
        found.values,
        covariance,
        left,
        quantities,
        describe_base(unknowns, base, found.values, found.units, covariance),
        calc_error(runs, unknowns.prior),
        calc_error(runs, found.values),
        find_contradictions(unknowns, quantities, left, np.where(loaded, forces, 0.0)),
    )


def calc_error(runs: Sequence[RunEquations], theta: np.ndarray) -> float:
    """Error of the forces that unknowns (n,) predict, as `calc_prediction_error`.

    Coordinates that nothing drives are left out.
    """
    w = np.concatenate([run.w for run in runs])
    forces = np.concatenate([run.forces for run in runs])
    loaded = _is_loaded(forces, _calc_size(w, theta))
    return calc_prediction_error((w @ theta)[:, loaded], forces[:, loaded])


def _is_loaded(forces: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(f,) whether something drives a coordinate. `size`: of the terms of its equation."""
    loaded: np.ndarray = _rms(forces) > _LOADED * size
    return loaded


def _is_balanced(w: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """(f,) whether the terms of each equation are in balance without a force."""
    balanced: np.ndarray = _rms(w @ theta) < _BALANCED * _calc_size(w, theta)
    return balanced


def _rms(values: np.ndarray) -> np.ndarray:
    """(f,) of (N, f)."""
    found: np.ndarray = np.sqrt(np.mean(values**2, axis=0))
    return found


def _calc_size(w: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """(f,) root mean square of the terms of each equation."""
    size: np.ndarray = np.sqrt(np.mean(np.sum((w * theta) ** 2, axis=2), axis=0))
    size[size == 0.0] = 1.0
    return size


def _calc_covariance(
    runs: Sequence[RunEquations], found: feasible.FeasibleEstimate, noise: np.ndarray
) -> np.ndarray:
    """(n, n) with residuals that are correlated in time, as those of smoothed accelerations are.

    H⁻¹ (Ω + P) H⁻¹ with H = WᵀW + P, P of the prior, and Ω the covariance of Wᵀ residuals with Bartlett's weights
    (Newey and West 1987) over 1.3 √N samples (Lazarus, Lewis, Stock and Watson, "HAC inference", 2018).
    """
    n = len(found.values)
    information, scatter = np.zeros((n, n)), np.zeros((n, n))
    for run in runs:
        w = run.w * (found.units / noise[:, None])
        left = (run.forces - run.w @ found.values) / noise
        pulls = np.einsum("kfn,kf->kn", w, left)
        window = int(np.ceil(1.3 * np.sqrt(len(pulls))))
        # Sums over a moving window: their products are Bartlett's weighted sum.
        sums = np.cumsum(np.vstack([np.zeros((window, n)), pulls, np.zeros((window - 1, n))]), axis=0)
        moving = sums[window:] - sums[:-window]
        scatter += moving.T @ moving / window
        information += np.tensordot(w, w, axes=((0, 1), (0, 1)))
    prior = np.eye(n) / PRIOR_DEVIATION**2
    inverse = scipy.linalg.inv(information + prior)
    covariance = inverse @ (scatter + prior) @ inverse
    return covariance * np.outer(found.units, found.units)
