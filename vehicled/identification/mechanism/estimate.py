"""Estimates of a mechanism's parameters from recorded motions and forces, with priors from its file.

All unknowns are estimated at once, weighted by the noise of each force, and bodies are kept physically
possible (`feasible`). The values of the file are priors with a standard deviation of their own: the equations
of a mechanism with few degrees of freedom are so ill-conditioned that without any prior the noise of the
forces decides. Parameters that the runs do not determine then get the file's value, and the others are
estimated again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
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
from vehicled.multibody.mechanism import Mechanism

_PASSES = 20
"""Largest number of estimates, each with the motion and the noise of the forces from the previous one."""
_SETTLED = 0.01
"""Change of the estimates in standard deviations, squared, and of the noise, below which the iteration
ends."""
_FIRST_NOISE = 0.05
"""First noise of the forces, as a share of them."""
_LEAST_NOISE = 1e-4
_BALANCED, _IGNORED = 0.7, 1e6
"""Shares of the terms of an equation that nothing drives. If the residual exceeds the first share, the
equation shows only that there are no masses, and it gets the second share as noise. This also applies to the
equation of a body with one unknown, which is merely its factor."""
_CHUNK = 200
_STEPS = (1e-5, 1e-4, 1.0)
"""Steps of differences for slopes by z, ż and z̈, as shares of their ranges. The equations are linear in
z̈."""
_LEAST_REACH = 1e-3
"""Least value of such ranges, rad, m and per s, s²."""
_PER_COEFFICIENT = 0.75
"""Number of samples at which slopes are calculated, per coefficient of a coordinate."""
_ROUNDING = 1e-9
_MOVED, _LASTING = 0.1, 0.95
"""Shares of the terms of such an equation, and of what is left of it, that have to last from sample to sample to
say that something drives it: noise of accelerations lasts for a few samples, too."""
_LOADED = 1e-6
"""Share of the terms of an equation above which a force counts as driving."""


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
        """Smoothed motion. Raises UsageError for samples that cannot be smoothed."""
        return smooth(self.t, self.z)


@dataclass(frozen=True)
class UnknownsEstimate:
    """θ (n,) of the unknowns, and results from it."""

    theta: np.ndarray
    covariance: np.ndarray
    """(n, n)"""
    noise: np.ndarray
    """(f,) standard deviation of the residual of each force, N, N·m."""
    quantities: list[FoundQuantity]
    base: list[FoundCombination]
    before: float
    """Error of the predicted forces (`calc_error`) with the file's values; `after`: with the estimated
    ones."""
    after: float
    unexplained: np.ndarray
    """(runs, f) lasting part of each force that all unknowns together cannot explain, without noise, as a
    share of that force in all runs; zero if nothing drives a coordinate."""
    notes: list[str]
    """Contradictions to the file so large that log or file may be wrong."""


def calc_equations(
    unknowns: MechanismUnknowns, run: Recorded, progress: Callable[[int], None] = lambda _: None
) -> RunEquations:
    """The equations of a run; `progress` receives the number of its samples that are done.

    Raises UsageError for samples that cannot be smoothed, RunError for positions that the mechanism cannot
    have.
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
            # Slopes change as slowly as the motion, so they are interpolated.
            slopes[..., nu * f + i] = interp1d(few, slope, axis=0)(np.arange(len(used)))
    return RunEquations(w, forces, slopes, smoothed.errors)


def observe_motion(
    unknowns: MechanismUnknowns, t: np.ndarray, motion: np.ndarray, forces: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """W (N, f, n) and τ (N, f) at times t (N,) of z, ż and z̈ (3, N, f).

    Raises RunError for positions that the mechanism cannot have.
    """
    mechanism = unknowns.regressor.mechanism
    home = mechanism.get_state()
    try:
        solved = motions.solve_motion(mechanism, t, *motion)
        w, known = motions.observe(unknowns.regressor, solved, forces).on_coordinates()
    finally:
        mechanism.set_state(home)
    return w @ unknowns.matrix, known


def _choose_few(used: np.ndarray, coefficients: int) -> np.ndarray:
    """Places among the used samples: some between any two knots, and the ends of pieces."""
    stride = max(1, int(len(used) / (_PER_COEFFICIENT * max(coefficients, 1))))
    ends = np.flatnonzero(np.diff(used) > 1)
    return np.unique([*range(0, len(used), stride), len(used) - 1, *ends, *(ends + 1)])


def estimate(
    unknowns: MechanismUnknowns, runs: Sequence[RunEquations], left: Collection[int] = ()
) -> UnknownsEstimate:
    """The unknowns from the equations of one or more runs.

    Base parameters that the runs do not determine get the file's values; so do those in `left`, by number.
    """
    w = np.concatenate([run.w for run in runs])
    forces = np.concatenate([run.forces for run in runs])
    # Size of the terms of the equations, not of the forces: some coordinates are not driven, and their terms
    # are in balance.
    size = _calc_size(w, unknowns.units)
    loaded = _is_loaded(forces, size)
    free = FreeDirections(unknowns, left)
    found = _solve(unknowns, runs, free.basis, size, loaded)
    whole = np.where(loaded, _rms(forces), np.inf)
    lasting = np.array([fit.calc_lasting() for fit in found.fits])
    unexplained = lasting / whole
    driving = _rms(lasting)
    moved = ~loaded & (driving > _MOVED * size) & (driving > _LASTING * found.noise)
    strange = list(_describe_moved(unknowns.regressor.mechanism, driving, moved))
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
        [*strange, *find_far(quantities)],
    )


def _describe_moved(mechanism: Mechanism, driving: np.ndarray, moved: np.ndarray) -> Iterator[str]:
    """One line for each coordinate (f,) that has `moved` as if a force that no run has drove it."""
    for k in np.flatnonzero(moved):
        c = mechanism.independent[k]
        name, unit = mechanism.coordinate_names[c], "N" if c in mechanism.lengths else "N·m"
        yield f"{name}: moves as if driven by {driving[k]:.3g} {unit}, but no log has {name}.force"


@dataclass(frozen=True)
class _Solution:
    """θ (n,) with its covariance (n, n) in units; noise (f,) of the forces; the motions corrected with them."""

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
    """Most probable changes along `basis` (n, s), in units; `size` (f,) of the terms; `loaded` (f,): driven."""
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
    """The unknowns (n,) by information (n, n) and gradient (n,) at θ (n,), changed along `basis` only."""
    if not basis.shape[1]:
        return unknowns.prior
    # The runs act along the basis only, the prior in all directions.
    out, back = unknowns.units[:, None] * basis, basis / unknowns.units[:, None]
    along = out.T @ information @ out
    w, right = _calc_rows(along, along @ (back.T @ theta) + out.T @ gradient)
    weight = 1.0 / PRIOR_DEVIATION
    return feasible.estimate_feasible(
        w @ back.T, right, unknowns.sizes, unknowns.prior, prior_weight=weight
    ).values


def _calc_rows(information: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows W (n, n) and τ (n,) of these normal equations; eigenvalues below rounding are raised to it."""
    size = np.sqrt(np.maximum(np.diag(information), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(information / np.outer(size, size))
    root = np.sqrt(np.maximum(values, len(size) * np.finfo(float).eps * values.max()))
    return root[:, None] * vectors.T * size, vectors.T @ (right / size) / root


def calc_error(unknowns: MechanismUnknowns, runs: Sequence[RunEquations], theta: np.ndarray) -> float:
    """Error of the forces predicted by unknowns (n,), as `calc_prediction_error`.

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
    """(f,) whether the terms of each equation balance without a force, for θ (n,) with its units (n,)."""
    balanced: np.ndarray = _rms(w @ theta) < _BALANCED * _calc_size(w, units)
    return balanced


def _rms(values: np.ndarray) -> np.ndarray:
    """(f,) root mean square of (N, f)."""
    found: np.ndarray = np.sqrt(np.mean(values**2, axis=0))
    return found


def _calc_size(w: np.ndarray, units: np.ndarray) -> np.ndarray:
    """(f,) root mean square of the terms of each equation, at least the rounding of the largest one.

    Each unknown is taken at its unit (n,), as the first moments of a body are zero about its centre of mass.
    """
    size: np.ndarray = np.sqrt(np.mean(np.sum((w * units) ** 2, axis=2), axis=0))
    return np.maximum(size, _ROUNDING * size.max()) if size.any() else np.ones_like(size)


def _calc_covariance(
    units: np.ndarray, fits: Sequence[MotionFit], theta: np.ndarray, noise: np.ndarray, basis: np.ndarray
) -> np.ndarray:
    """Covariance (n, n) in units, of an estimate along `basis` (n, s).

    It is larger if gradients are correlated in time, for example by friction that is missing in the file.

    H⁻¹ along the basis with the information H, including P of the prior; or H⁻¹ (Ω + P) H⁻¹ with the
    covariance Ω of the gradients by Bartlett's weights (Newey and West 1987) over 1.3 √N samples (Lazarus,
    Lewis, Stock and Watson, "HAC inference", 2018). The latter is smaller by chance as often as not, and is
    then not used. Unknowns with the file's value have the file's standard deviation, and pass it on to the
    others (Schmidt 1966).
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
