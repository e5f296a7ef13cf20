"""Estimates of a mechanism's parameters from recorded motions and forces, with priors from its file.

All unknowns are estimated at once, weighted by the noise of each force, of bodies that are physically possible
(`feasible`). The values of the file are priors with a standard deviation of their own: the equations of a mechanism
with few degrees of freedom are so ill-conditioned that without any prior the noise of the forces decides. What the
runs do not determine then has the file's value, and the rest is estimated again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.interpolate import interp1d

from vehicled.identification import feasible, motions
from vehicled.identification.least_squares import calc_prediction_error
from vehicled.identification.mechanism.findings import (
    PRIOR_DEVIATION,
    FoundCombination,
    FoundQuantity,
    FreeDirections,
    find_far,
)
from vehicled.identification.mechanism.motion_errors import MotionFit, RunEquations
from vehicled.identification.mechanism.smoothing import SmoothMotion, smooth
from vehicled.identification.mechanism.unknowns import MechanismUnknowns

_PASSES = 20
"""Estimates at most, each with the motion and the noise of the forces that the last one left."""
_SETTLED = 0.01
"""Change of the estimates in standard deviations, squared, and of the noise, below which they end."""
_FIRST_NOISE = 0.05
"""Share of the forces."""
_LEAST_NOISE = 1e-4
_BALANCED, _IGNORED = 0.7, 1e6
"""Shares of the terms of an equation that nothing drives: one that leaves more than the first says nothing but that
there are no masses, and gets the second as noise. So does that of a body with one unknown, which is its factor."""
_CHUNK = 200
_STEPS = (1e-5, 1e-4, 1.0)
"""Of differences, for slopes by z, ż and z̈, as shares of their ranges. The equations are linear in z̈."""
_LEAST_REACH = 1e-3
"""Of such ranges, rad, m and per s, s²."""
_PER_COEFFICIENT = 0.75
"""Samples at which slopes are found, for each coefficient of a coordinate."""
_ROUNDING = 1e-9
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

    @cached_property
    def smoothed(self) -> SmoothMotion:
        """Its motion. Raises UsageError for samples that cannot be smoothed."""
        return smooth(self.t, self.z)


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
    unexplained: np.ndarray
    """(runs, f) what all unknowns together cannot explain of each force and is no noise, as a share of that force in
    all runs; zero where nothing drives a coordinate."""
    notes: list[str]
    """What contradicts the file so much that log or file may be wrong."""


def calc_equations(
    unknowns: MechanismUnknowns, run: Recorded, progress: Callable[[int], None] = lambda _: None
) -> RunEquations:
    """The equations of a run; `progress` receives the number of its samples that are done.

    Raises UsageError for samples that cannot be smoothed, RunError for positions that the mechanism does not have.
    """
    smoothed = run.smoothed
    used = smoothed.used
    motion = np.stack([smoothed.z, smoothed.zd, smoothed.zdd])
    few = _choose_few(used, smoothed.errors.on_samples.shape[1] // run.z.shape[1])
    f, done = run.z.shape[1], 0
    evaluations = len(used) + 3 * f * len(few)
    blocks = []

    def observe(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal done
        found = observe_motion(unknowns, run.t[used[rows]], x, run.forces[used[rows]])
        done += len(rows)
        progress(done * len(used) // evaluations)
        return found

    for start in range(0, len(used), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(used)))
        blocks.append(observe(motion[:, rows], rows))
    w, forces = (np.concatenate(part) for part in zip(*blocks, strict=True))
    slopes = np.empty((*w.shape, 3 * f))
    for nu, step in enumerate(_STEPS):
        for i in range(f):
            changed = motion[:, few].copy()
            step_here = step * max(float(np.ptp(motion[nu, :, i])), _LEAST_REACH)
            changed[nu, :, i] += step_here
            slope = (observe(changed, few)[0] - w[few]) / step_here
            # They change as slowly as the motion does.
            slopes[..., nu * f + i] = interp1d(few, slope, axis=0)(np.arange(len(used)))
    return RunEquations(w, forces, slopes, smoothed.errors)


def observe_motion(
    unknowns: MechanismUnknowns, t: np.ndarray, motion: np.ndarray, forces: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """W (N, f, n) and τ (N, f) at times t (N,) of z, ż and z̈ (3, N, f). RunError for positions that cannot be."""
    mechanism = unknowns.regressor.mechanism
    home = mechanism.get_state()
    try:
        solved = motions.solve_motion(mechanism, t, *motion)
        w, known = motions.observe(unknowns.regressor, solved, forces).on_coordinates()
    finally:
        mechanism.set_state(home)
    return w @ unknowns.matrix, known


def _choose_few(used: np.ndarray, coefficients: int) -> np.ndarray:
    """Places among the samples used: some between any two knots, and the ends of pieces."""
    stride = max(1, int(len(used) / (_PER_COEFFICIENT * max(coefficients, 1))))
    ends = np.flatnonzero(np.diff(used) > 1)
    return np.unique([*range(0, len(used), stride), len(used) - 1, *ends, *(ends + 1)])


def estimate(
    unknowns: MechanismUnknowns, runs: Sequence[RunEquations], left: Collection[int] = ()
) -> UnknownsEstimate:
    """The unknowns from the equations of one or more runs.

    Base parameters that the runs do not determine have the file's values, as those have, by number, that are `left`.
    """
    w = np.concatenate([run.w for run in runs])
    forces = np.concatenate([run.forces for run in runs])
    # Terms of the equations, not forces: nothing drives some coordinates, where terms are in balance.
    size = _calc_size(w, unknowns.units)
    loaded = _is_loaded(forces, size)
    free = FreeDirections(unknowns, left)
    found = _solve(unknowns, runs, free.basis, size, loaded)
    whole = np.where(loaded, _rms(forces), np.inf)
    unexplained = np.array([fit.calc_lasting() for fit in found.fits]) / whole
    if free.narrow(found.theta, found.covariance):
        found = _solve(unknowns, runs, free.basis, size, loaded)
    return UnknownsEstimate(
        found.theta,
        found.covariance * np.outer(unknowns.units, unknowns.units),
        found.noise,
        quantities := free.describe_quantities(found.theta, found.covariance),
        free.describe_base(found.theta, found.covariance),
        calc_error(unknowns, runs, unknowns.prior),
        calc_error(unknowns, runs, found.theta),
        unexplained,
        find_far(quantities),
    )


@dataclass(frozen=True)
class _Solution:
    """θ (n,) with its covariance (n, n) in units; noise (f,) of the forces; the motions, corrected for it."""

    theta: np.ndarray
    covariance: np.ndarray
    noise: np.ndarray
    fits: list[MotionFit]


def _solve(
    unknowns: MechanismUnknowns,
    runs: Sequence[RunEquations],
    basis: np.ndarray,
    size: np.ndarray,
    loaded: np.ndarray,
) -> _Solution:
    """Changes along `basis` (n, s), in units, that are most probable; (f,) sizes, and what is driven."""
    w = np.concatenate([run.w for run in runs])
    fits = [MotionFit(run) for run in runs]
    theta, noise = unknowns.prior, _FIRST_NOISE * size
    for _ in range(_PASSES):
        balanced = loaded | _is_balanced(w, theta, unknowns.calc_units(theta))
        linear = [fit.linearise(theta, np.where(balanced, noise, _IGNORED * size)) for fit in fits]
        information, gradient = (np.sum(part, axis=0) for part in zip(*linear, strict=True))
        values = _improve(unknowns, theta, information, gradient, basis)
        squares = np.sum([fit.advance(values) for fit in fits], axis=0)
        before, noise = noise, np.maximum(np.sqrt(squares / len(w)), _LEAST_NOISE * size)
        change, theta = values - theta, values
        if change @ information @ change < _SETTLED and np.abs(np.log(noise / before)).max() < _SETTLED:
            break
    balanced = loaded | _is_balanced(w, theta, unknowns.calc_units(theta))
    used = np.where(balanced, noise, _IGNORED * size)
    return _Solution(theta, _calc_covariance(unknowns.units, fits, theta, used, basis), noise, fits)


def _improve(
    unknowns: MechanismUnknowns,
    theta: np.ndarray,
    information: np.ndarray,
    gradient: np.ndarray,
    basis: np.ndarray,
) -> np.ndarray:
    """The unknowns (n,) by the information (n, n) and gradient (n,) at θ (n,); the file's values across `basis`."""
    if not basis.shape[1]:
        return unknowns.prior
    # The runs pull along the basis only, the prior in all directions.
    out, back = unknowns.units[:, None] * basis, basis / unknowns.units[:, None]
    along = out.T @ information @ out
    w, right = _calc_rows(along, along @ (back.T @ theta) + out.T @ gradient)
    weight = 1.0 / PRIOR_DEVIATION
    return feasible.estimate_feasible(
        w @ back.T, right, unknowns.sizes, unknowns.prior, prior_weight=weight
    ).values


def _calc_rows(information: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows W (n, n) and τ (n,) of these normal equations; what is below rounding gets none."""
    size = np.sqrt(np.maximum(np.diag(information), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(information / np.outer(size, size))
    root = np.sqrt(np.maximum(values, len(size) * np.finfo(float).eps * values.max()))
    return root[:, None] * vectors.T * size, vectors.T @ (right / size) / root


def calc_error(unknowns: MechanismUnknowns, runs: Sequence[RunEquations], theta: np.ndarray) -> float:
    """Error of the forces that unknowns (n,) predict, as `calc_prediction_error`.

    Coordinates that nothing drives are left out.
    """
    w = np.concatenate([run.w for run in runs])
    forces = np.concatenate([run.forces for run in runs])
    loaded = _is_loaded(forces, _calc_size(w, unknowns.units))
    return calc_prediction_error((w @ theta)[:, loaded], forces[:, loaded])


def _is_loaded(forces: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(f,) whether something drives a coordinate. `size`: of the terms of its equation."""
    loaded: np.ndarray = _rms(forces) > _LOADED * size
    return loaded


def _is_balanced(w: np.ndarray, theta: np.ndarray, units: np.ndarray) -> np.ndarray:
    """(f,) whether the terms of each equation are in balance without a force, for θ (n,) with its units (n,)."""
    balanced: np.ndarray = _rms(w @ theta) < _BALANCED * _calc_size(w, units)
    return balanced


def _rms(values: np.ndarray) -> np.ndarray:
    """(f,) of (N, f)."""
    found: np.ndarray = np.sqrt(np.mean(values**2, axis=0))
    return found


def _calc_size(w: np.ndarray, units: np.ndarray) -> np.ndarray:
    """(f,) root mean square of the terms of each equation, or what is rounding beside the largest.

    With each unknown at its unit (n,): the first moments of a body are zero about its centre of mass.
    """
    size: np.ndarray = np.sqrt(np.mean(np.sum((w * units) ** 2, axis=2), axis=0))
    return np.maximum(size, _ROUNDING * size.max()) if size.any() else np.ones_like(size)


def _calc_covariance(
    units: np.ndarray, fits: Sequence[MotionFit], theta: np.ndarray, noise: np.ndarray, basis: np.ndarray
) -> np.ndarray:
    """(n, n) in units, of an estimate along `basis` (n, s).

    Larger where gradients are correlated in time, as those of friction that the file lacks are.

    H⁻¹ along the basis with the information H, P of the prior included; or H⁻¹ (Ω + P) H⁻¹ with the covariance Ω of
    the gradients by Bartlett's weights (Newey and West 1987) over 1.3 √N samples (Lazarus, Lewis, Stock and Watson,
    "HAC inference", 2018). The latter is smaller by chance as often as not, and is then not believed. What has the
    file's value has the file's standard deviation, and passes it on to the rest (Schmidt 1966).
    """
    n = len(theta)
    information, scatter = np.zeros((n, n)), np.zeros((n, n))
    for fit in fits:
        information += fit.linearise(theta, noise)[0]
        pulls = fit.calc_pulls()
        window = int(np.ceil(1.3 * np.sqrt(len(pulls))))
        # Sums over a moving window: their products are Bartlett's weighted sum.
        sums = np.cumsum(np.vstack([np.zeros((window, n)), pulls, np.zeros((window - 1, n))]), axis=0)
        moving = sums[window:] - sums[:-window]
        scatter += moving.T @ moving / window
    information, scatter = (matrix * np.outer(units, units) for matrix in (information, scatter))
    prior = np.eye(basis.shape[1]) / PRIOR_DEVIATION**2
    own = scipy.linalg.inv(basis.T @ information @ basis + prior)
    rest = scipy.linalg.null_space(basis.T)
    errors = rest - basis @ (own @ basis.T @ information @ rest)
    passed_on = PRIOR_DEVIATION**2 * errors @ errors.T
    whole = basis @ own @ basis.T + passed_on
    correlated = basis @ (own @ (basis.T @ scatter @ basis + prior) @ own) @ basis.T + passed_on
    scale = np.sqrt(np.maximum(np.diag(correlated) / np.diag(whole), 1.0))
    covariance: np.ndarray = whole * np.outer(scale, scale)
    return covariance
