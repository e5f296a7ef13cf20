"""Signs and time offsets between sensors that measure the same motion, by cross-correlation."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np

from vehicled.log_check.expected import Pair
from vehicled.log_check.grid import STEP

_MOST = 25
"""Largest shift of signals to either side, steps of the grid."""
_OFFSETS = np.arange(-_MOST, _MOST + 1) * STEP
"""s"""
SAME = 0.9
"""Least correlation at which a time offset counts as known."""
_RESOLUTION = 0.01
"""Standard deviation, s, due to interpolation on the grid and averaging."""
_MODELLED = 3.0
"""Range of usual offsets is widened by this many standard deviations due to the car's dynamics."""
_LEAST_SAMPLES = 250


@dataclass(frozen=True)
class Lag:
    """How a channel follows another one that measures the same motion."""

    channel: str
    reference: str
    offset: float
    """Time, s, by which the channel is later than its prediction from the reference and the car's
    dynamics."""
    sigma: float
    """Standard deviation of the offset, s; NaN if the correlation is too low for a time offset."""
    correlation: float
    """Coefficient at that offset, from −1 to 1."""
    ratio: float
    """Standard deviation of the channel over that of the reference."""
    seconds: float
    """Duration of the motion used, s."""
    excess: float
    """How much worse any usual offset fits: twice the logarithm of the likelihood ratio, which is chi-squared
    distributed with one degree of freedom if the true offset is usual."""
    evidence: float
    """How much worse no correlation at all fits, likewise."""


class LagFinder:
    """Sums of products over the windows of a log; memory does not grow."""

    def __init__(self, find_least: Callable[[str], float], moving: Collection[str] = ()) -> None:
        """`find_least`: least root mean square of the reference, by channel, for a comparison.

        `moving`: channels for which their own motion is sufficient, too.
        """
        self._find_least, self._moving = find_least, moving
        self._sums: dict[tuple[str, str], np.ndarray] = {}
        self._samples: dict[tuple[str, str], int] = {}
        self._varied: dict[tuple[str, str], list[np.ndarray]] = {}
        """Like `_sums`, for each variation of the car's properties."""
        self._changes: dict[tuple[str, str], float] = {}
        """Sums of the squared changes of the reference from step to step."""

    def take(self, pairs: Iterable[Pair]) -> None:
        """Take the signals of a window; NaN is no sample."""
        for pair in pairs:
            self._add(pair)

    def _add(self, pair: Pair) -> None:
        a, b, channel = pair.expected, pair.measured, pair.channel
        inner = slice(_MOST, len(a) - _MOST)
        shifted = range(-_MOST, _MOST + 1)
        if len(a) < _LEAST_SAMPLES:
            return
        later = np.array([b[_MOST + k : len(b) - _MOST + k] for k in shifted])
        known = np.isfinite(a[inner]) & np.isfinite(later).all(axis=0)
        if known.sum() < _LEAST_SAMPLES:
            return
        later = later[:, known]
        later = later - later.mean(axis=1, keepdims=True)
        core = a[inner][known] - a[inner][known].mean()
        moved = max(core.std(), later[_MOST].std() if channel in self._moving else 0.0)
        if moved < self._find_least(channel):
            return
        key = pair.reference, channel
        sums = _calc_products(core, later)
        self._sums[key] = self._sums.get(key, np.zeros_like(sums)) + sums
        varied = [_calc_products(v[inner][known] - v[inner][known].mean(), later) for v in pair.varied]
        known_so_far = self._varied.get(key, [np.zeros_like(sums)] * len(varied))
        self._varied[key] = [old + new for old, new in zip(known_so_far, varied, strict=True)]
        self._samples[key] = self._samples.get(key, 0) + int(known.sum())
        self._changes[key] = self._changes.get(key, 0.0) + float(np.nansum(np.diff(a[inner]) ** 2))

    def find(self, find_usual: Callable[[str, str], tuple[float, float]]) -> list[Lag]:
        """One per channel that could be compared. `find_usual`: offsets, s, from a channel and its reference."""
        found = []
        for key, sums in self._sums.items():
            _, own, others = sums
            reference, channel = key
            rho = _correlate(sums)
            offset, correlation = _find_peak(rho)
            # Shift of the offset for each variation of the car's dynamics.
            moved = [_find_peak(_correlate(v))[0] - offset for v in self._varied[key]]
            modelled = math.hypot(*moved)
            low, high = find_usual(channel, reference)
            low, high = low - _MODELLED * modelled, high + _MODELLED * modelled
            seconds = self._samples[key] * STEP
            # The number of independent samples follows from bandwidth and duration.
            bandwidth = math.sqrt(self._changes[key] / max(float(own[0]), 1e-300)) / STEP
            independent = seconds * bandwidth / math.pi
            usual = float(np.interp(np.clip(offset, low, high), _OFFSETS, np.abs(rho)))
            within = np.abs(rho[(low <= _OFFSETS) & (high >= _OFFSETS)])
            best = max(usual, float(within.max(initial=0.0)))
            fits = math.log(
                max(1.0 - min(best, abs(correlation)) ** 2, 1e-9) / max(1.0 - correlation**2, 1e-9)
            )
            excess = 0.0 if low <= offset <= high else independent * fits
            evidence = -independent * math.log(max(1.0 - correlation**2, 1e-9))
            # Standard deviation of the maximum-likelihood offset, from the unexplained variance and the
            # reference's bandwidth.
            spread = math.sqrt(max(1.0 - correlation**2, 1e-9) / independent) / bandwidth
            sigma = math.hypot(spread, modelled, _RESOLUTION) if abs(correlation) >= SAME else math.nan
            ratio = math.sqrt(float(others[_MOST]) / max(float(own[_MOST]), 1e-300))
            found.append(
                Lag(channel, reference, offset, sigma, correlation, ratio, seconds, excess, evidence)
            )
        return found


def _calc_products(a: np.ndarray, later: np.ndarray) -> np.ndarray:
    """(3, shifts): sums of products of a (n,) with the shifted signals (shifts, n), of a's squares, of theirs."""
    return np.stack([later @ a, np.full(len(later), a @ a), (later**2).sum(axis=1)])


def _correlate(sums: np.ndarray) -> np.ndarray:
    """(shifts,) coefficients of `_calc_products`."""
    products, own, others = sums
    squares = own * others
    found: np.ndarray = np.divide(
        products, np.sqrt(squares), out=np.zeros_like(products), where=squares > 0.0
    )
    return found


def _find_peak(rho: np.ndarray) -> tuple[float, float]:
    """Offset, s, and coefficient at the largest magnitude, interpolated between the steps of the grid."""
    k = int(np.argmax(np.abs(rho)))
    if not 0 < k < len(rho) - 1:
        return float(_OFFSETS[k]), float(rho[k])
    before, here, after = np.abs(rho[k - 1 : k + 2]).tolist()
    curvature = before - 2.0 * here + after
    between = 0.5 * (before - after) / curvature if curvature < 0.0 else 0.0
    return float(_OFFSETS[k]) + between * STEP, float(rho[k])
