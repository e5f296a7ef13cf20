"""Rates and accelerations of a coordinate that was sampled with noise: least-squares splines.

Splines of degree five; generalised cross-validation determines the distance of their knots (Craven and Wahba,
"Smoothing noisy data with spline functions", 1979): neither a cut-off frequency nor the noise need be known.
Knots are evenly spaced, except where samples are missing: each interval between knots has a sample, so that
the samples determine all coefficients (Schoenberg and Whitney, 1953).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.interpolate import BSpline, make_lsq_spline

from vehicled.errors import UsageError

_DEGREE = 5
_FEWEST = 20
"""Least number of samples in a piece without a pause."""
_PAUSE = 20.0
"""Number of usual sample intervals that make a pause: one spline would say little of the motion in it."""
_DENSER = 1.3
"""Ratio of successive numbers of intervals that are compared."""
_ENDS = 2
"""Number of intervals at either end whose accelerations are too uncertain to be used."""
_FINER = 2
"""Ratio of the number of intervals of a spline that equations of motion also correct, to that of the samples
alone."""


@dataclass(frozen=True)
class SplineErrors:
    """Uncertainty of a motion: C coefficients of splines with closer knots than those of the motion.

    Samples alone would give these splines no smooth accelerations; equations of motion do. f independent
    coordinates.
    """

    on_motion: list[sp.csr_array]
    """3 f matrices (N, C): changes of z, ż and z̈ of all coordinates per coefficient, at the used samples."""
    on_samples: sp.csr_array
    """(f M, C) changes of z per coefficient, coordinate by coordinate, at all samples, in units of their
    noise."""
    misfit: np.ndarray
    """(f M,) samples less the motion, in units of their noise."""
    places: np.ndarray
    """(N,) places of the used samples among all M."""


@dataclass(frozen=True)
class SmoothMotion:
    """Independent coordinates at the usable samples of a run."""

    used: np.ndarray
    """(N,) indices of these samples in the run."""
    z: np.ndarray
    """(N, f)"""
    zd: np.ndarray
    zdd: np.ndarray
    errors: SplineErrors


def smooth(t: np.ndarray, z: np.ndarray) -> SmoothMotion:
    """Smooth coordinates z (N, f) that were sampled at times t (N,), s, with their rates and accelerations.

    The pieces between pauses are smoothed separately; pieces of too few samples are left out. Raises
    UsageError for too few samples, and for times that do not increase.
    """
    steps = np.diff(t)
    if np.any(steps <= 0.0):
        k = int(np.argmax(steps <= 0.0))
        raise UsageError(f"t: expected increasing times, got {t[k + 1]:.6g} s after {t[k]:.6g} s")
    pauses = np.flatnonzero(steps > _PAUSE * np.median(steps)) + 1 if len(steps) else np.zeros(0, dtype=int)
    pieces = np.split(np.arange(len(t)), pauses)
    fitted = [(p, [_fit(t[p], column) for column in z[p].T]) for p in pieces if len(p) >= _FEWEST]
    if not fitted:
        raise UsageError(
            f"expected at least {_FEWEST} samples in one piece, got {max(len(p) for p in pieces)}"
        )
    inside = [(p[_find_inside(t[p], splines)], splines) for p, splines in fitted]
    # Pieces that consist of ends only are used if there is nothing else.
    kept = [(p, splines) for p, splines in inside if len(p) >= _FEWEST] or fitted
    z_now, zd, zdd = (
        np.concatenate([np.column_stack([spline(t[p], nu=nu) for spline in splines]) for p, splines in kept])
        for nu in range(3)
    )
    used = np.concatenate([p for p, _ in kept])
    return SmoothMotion(used, z_now, zd, zdd, _find_errors(t, z, used, kept))


def _find_inside(t: np.ndarray, splines: list[BSpline]) -> slice:
    """The samples that are not at the ends."""
    margin = max(_ENDS * (spline.t[_DEGREE + 1] - spline.t[_DEGREE]) for spline in splines)
    first, last = np.searchsorted(t, (t[0] + margin, t[-1] - margin), side="left")
    return slice(int(first), int(last) + 1)


def _fit(t: np.ndarray, values: np.ndarray) -> BSpline:
    """The spline of least RSS / N / (1 − p/N)², p its number of coefficients."""
    n = len(t)
    span = float(np.ptp(values))
    if span == 0.0:
        return _spline(t, values, 1)
    rounding = (np.finfo(float).eps * np.abs(values).max()) ** 2
    best, least, intervals = None, np.inf, 1
    while intervals + _DEGREE <= 0.5 * n:
        spline = _spline(t, values, intervals)
        left = float(np.mean((values - spline(t)) ** 2))
        score = (left + rounding) / (1.0 - len(spline.c) / n) ** 2
        if score < least:
            best, least = spline, score
        intervals = max(intervals + 1, int(_DENSER * intervals))
    assert best is not None
    return best


def _spline(t: np.ndarray, values: np.ndarray, intervals: int) -> BSpline:
    knots = np.linspace(t[0], t[-1], intervals + 1)
    before = np.searchsorted(t, knots[:-1])
    apart = np.diff(before, prepend=-1) > 0
    inside = knots[:-1][apart & (before < len(t) - 1)]
    return make_lsq_spline(t, values, _repeat_ends(np.append(inside, knots[-1])), k=_DEGREE)


def _repeat_ends(knots: np.ndarray) -> np.ndarray:
    """Knots with repeated ends, for a spline that ends there."""
    return np.concatenate([[knots[0]] * _DEGREE, knots, [knots[-1]] * _DEGREE])


def _find_errors(
    t: np.ndarray, z: np.ndarray, used: np.ndarray, kept: list[tuple[np.ndarray, list[BSpline]]]
) -> SplineErrors:
    """Uncertainty of a motion. `kept`: used samples of each piece, and the splines of its coordinates."""
    f = z.shape[1]
    on_motion: list[list[sp.csr_array]] = [[] for _ in range(3 * f)]
    on_samples: list[list[sp.csr_array]] = [[] for _ in range(f)]
    misfit: list[list[np.ndarray]] = [[] for _ in range(f)]
    everything = []
    for inside, splines in kept:
        first, last = splines[0].t[0], splines[0].t[-1]
        samples = np.flatnonzero((t >= first) & (t <= last))
        everything.append(samples)
        finer = [_refine(t[samples], spline) for spline in splines]
        widths = [len(knots) - _DEGREE - 1 for knots in finer]
        for i, (spline, knots) in enumerate(zip(splines, finer, strict=True)):
            left = z[samples, i] - spline(t[samples])
            spare = len(samples) - (len(spline.t) - _DEGREE - 1)
            rounding = np.finfo(float).eps * max(float(np.abs(z[samples, i]).max()), 1.0)
            noise = max(float(np.sqrt(left @ left / spare)), rounding)
            sides = sum(widths[:i]), sum(widths[i + 1 :])
            for nu in range(3):
                on_motion[nu * f + i].append(_pad(_calc_basis(knots, t[inside], nu), sides))
            on_samples[i].append(_pad(_calc_basis(knots, t[samples], 0) * (1.0 / noise), sides))
            misfit[i].append(left / noise)
    return SplineErrors(
        [sp.csr_array(sp.block_diag(parts)) for parts in on_motion],
        sp.csr_array(sp.vstack([sp.block_diag(parts) for parts in on_samples])),
        np.concatenate([np.concatenate(parts) for parts in misfit]),
        np.searchsorted(np.concatenate(everything), used),
    )


def _refine(t: np.ndarray, spline: BSpline) -> np.ndarray:
    """Closer knots: those of the spline, and between them where there are samples on both sides."""
    inner = spline.t[_DEGREE:-_DEGREE]
    finer = np.linspace(inner[:-1], inner[1:], _FINER, endpoint=False, axis=1)
    counts = np.diff(np.searchsorted(t, np.append(finer, inner[-1]))).reshape(finer.shape)
    filled = np.all(counts > 0, axis=1)
    added = finer[filled, 1:].ravel()
    return _repeat_ends(np.sort(np.concatenate([inner, added])))


def _pad(matrix: sp.csr_array, sides: tuple[int, int]) -> sp.csr_array:
    """Add columns of zeros on both sides, for the coefficients of other coordinates."""
    before, after = (sp.csr_array((matrix.shape[0], n)) for n in sides)
    return sp.csr_array(sp.hstack([before, matrix, after]))


def _calc_basis(knots: np.ndarray, t: np.ndarray, nu: int) -> sp.csr_array:
    """(len(t), coefficients) derivatives of order nu at times t (s) by the coefficients of a spline."""
    count = len(knots) - _DEGREE - 1
    by_coefficients = sp.csr_array(sp.eye_array(count))
    degree = _DEGREE
    for _ in range(nu):
        # A derivative is a spline of one degree less (de Boor, A Practical Guide to Splines, chapter X).
        share = degree / (knots[degree + 1 : -1] - knots[1 : -degree - 1])
        size = len(share)
        difference = sp.diags_array([-share, share], offsets=[0, 1], shape=(size, size + 1))
        by_coefficients = sp.csr_array(difference @ by_coefficients)
        knots, degree = knots[1:-1], degree - 1
    return sp.csr_array(BSpline.design_matrix(t, knots, degree) @ by_coefficients)
