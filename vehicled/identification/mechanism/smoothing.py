"""Rates and accelerations of a coordinate that was sampled with noise: least-squares splines.

Splines of degree five, with evenly spaced knots as far apart as generalised cross-validation has it (Craven and
Wahba, "Smoothing noisy data with spline functions", 1979): neither a cut-off frequency nor the noise need be known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import BSpline, make_lsq_spline

from vehicled.errors import UsageError

_DEGREE = 5
_FEWEST = 20
"""Samples of a piece without a pause."""
_PAUSE = 20.0
"""Usual intervals between samples that make a pause: with knots as close as elsewhere there would be none in it."""
_DENSER = 1.3
"""Ratio of the numbers of intervals that are compared."""
_ENDS = 2
"""Intervals at either end whose accelerations are too uncertain to be used."""


@dataclass(frozen=True)
class SmoothMotion:
    """Independent coordinates at those samples of a run that can be used."""

    used: np.ndarray
    """(N,) which of the run's samples."""
    z: np.ndarray
    """(N, f)"""
    zd: np.ndarray
    zdd: np.ndarray


def smooth(t: np.ndarray, z: np.ndarray) -> SmoothMotion:
    """Smooth coordinates z (N, f) that were sampled at times t (N,), s, with their rates and accelerations.

    What is before and after a pause is smoothed by itself; pieces of too few samples are left out. Raises
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
    # Pieces that consist of ends are better than nothing only.
    kept = [(p, splines) for p, splines in inside if len(p) >= _FEWEST] or fitted
    motion = [
        np.concatenate([np.column_stack([spline(t[p], nu=nu) for spline in splines]) for p, splines in kept])
        for nu in range(3)
    ]
    return SmoothMotion(np.concatenate([p for p, _ in kept]), *motion)


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
        try:
            spline = _spline(t, values, intervals)
        except ValueError:  # an interval without samples
            break
        left = float(np.mean((values - spline(t)) ** 2))
        score = (left + rounding) / (1.0 - (intervals + _DEGREE) / n) ** 2
        if score < least:
            best, least = spline, score
        intervals = max(intervals + 1, int(_DENSER * intervals))
    assert best is not None
    return best


def _spline(t: np.ndarray, values: np.ndarray, intervals: int) -> BSpline:
    inner = np.linspace(t[0], t[-1], intervals + 1)
    knots = np.concatenate([[t[0]] * _DEGREE, inner, [t[-1]] * _DEGREE])
    return make_lsq_spline(t, values, knots, k=_DEGREE)
