"""Resampling: N particles drawn so that each is expected N times its weight.

Douc, Cappé and Moulines (2005), Comparison of resampling schemes for particle filtering. All take (N,) weights that
sum to one and a generator, and give (N,) indices in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Resampler = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def _pick(weights: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Index of the particle whose part of [0, 1) each position lies in; positions in ascending order."""
    ends = np.cumsum(weights)
    # Due to rounding the last end may be below 1, and a particle of weight zero must not be chosen.
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(ends / ends[-1], positions, side="right"), last)


def systematic(weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(N,) indices of the chosen: N equidistant positions with one random offset, of least variance."""
    n = len(weights)
    return _pick(weights, (np.arange(n) + random.random()) / n)


def stratified(weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(N,) indices of the chosen: one position at random in each of N equal strata."""
    n = len(weights)
    return _pick(weights, (np.arange(n) + random.random(n)) / n)


def multinomial(weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(N,) indices of the chosen: N independent draws."""
    return _pick(weights, np.sort(random.random(len(weights))))


def residual(weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(N,) indices of the chosen: ⌊N w⌋ copies of each for certain, the rest by draws from what remains."""
    n = len(weights)
    copies = np.floor(n * weights).astype(int)
    left = n - int(copies.sum())
    if left > 0:
        remainder = np.maximum(n * weights - copies, 0.0)
        copies += random.multinomial(left, remainder / remainder.sum())
    return np.repeat(np.arange(n), copies)


RESAMPLERS: dict[str, Resampler] = {
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
    "multinomial": multinomial,
}
