"""Single samples of a coordinate that its neighbours contradict, as from a lost bit or a bad contact.

Least squares would follow such a sample: one of 801 that was off by 0.5 rad put a mass off by three standard
deviations.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import maximum_filter1d, median_filter

_BEYOND = 10.0
"""Multiple of the usual misfit above which a sample contradicts its neighbours."""
_AGREE = 0.2
"""Share of its misfit that its neighbours may have without it: a blow or a stop leaves 0.3 or more."""
_LOCAL = 51
"""Number of samples whose misfits are the usual ones at a place."""
_REACH = 4
"""Number of samples on both sides that are compared."""
_SPAN = 1.5
"""Length of a sample's surroundings, in usual ones, above which samples are missing there."""
_MAD = 1.4826
"""Standard deviation of normal noise per median of its magnitudes."""


def find_spikes(t: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Indices of the samples (N,) at times t (s) that do not fit their neighbours, which fit each other."""
    if len(t) < _LOCAL or np.any(np.diff(t) <= 0.0):
        return np.zeros(0, dtype=int)
    inside = np.arange(_REACH, len(t) - _REACH)
    missed = np.abs(_miss(t, values, inside, (-2, -1, 1, 2)))
    changes = np.abs(np.diff(values))
    digit = changes[changes > 0.0].min(initial=np.inf)
    usual = _MAD * np.maximum(median_filter(missed, _LOCAL), np.median(missed))
    span = t[inside + _REACH] - t[inside - _REACH]
    stands_out = (missed > _BEYOND * np.maximum(usual, digit)) & (missed == maximum_filter1d(missed, 5))
    chosen = np.flatnonzero(stands_out & (span < _SPAN * np.median(span)))
    k = inside[chosen]
    without = np.maximum(
        np.abs(_miss(t, values, k - 1, (-2, -1, 2, 3))), np.abs(_miss(t, values, k + 1, (-3, -2, 1, 2)))
    )
    found: np.ndarray = k[without < _AGREE * missed[chosen]]
    return found


def _miss(t: np.ndarray, values: np.ndarray, at: np.ndarray, others: tuple[int, ...]) -> np.ndarray:
    """Samples `at` less the cubic through `others`, by their distances."""
    total = values[at].astype(float)
    for i in others:
        weight = np.ones(len(at))
        for j in others:
            if j != i:
                weight *= (t[at] - t[at + j]) / (t[at + i] - t[at + j])
        total -= weight * values[at + i]
    return np.asarray(total)
