"""Signs and time offsets between sensors that measure the same motion, by cross-correlation."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np

from vehicled.log_check.expected import Pair
from vehicled.log_check.grid import STEP

_MOST = 25
"""Steps of the grid by which signals are shifted to either side."""
_OFFSETS = np.arange(-_MOST, _MOST + 1) * STEP
"""s"""
SAME = 0.9
"""Correlation from which on a time offset is known."""
_RESOLUTION = 0.01
"""s: of a grid on which signals are interpolated, and of averages."""
_MODELLED = 3.0
"""Standard deviations of the car's dynamics by which an offset may be off and usual."""
_LEAST_SAMPLES = 250


@dataclass(frozen=True)
class Lag:
    """How a channel follows another one that measures the same motion."""

    channel: str
    reference: str
    offset: float
    """s by which the channel is later than what the reference and the car's dynamics make of it."""
    sigma: float
    """s, standard deviation of that; NaN where they correlate too little for a time offset."""
    correlation: float
    """Coefficient at that offset, from −1 to 1."""
    ratio: float
    """Standard deviation of the channel over that of the reference."""
    seconds: float
    """Of motion that this was found from."""
    excess: float
    """By how much an offset that is usual for such a channel fits worse: twice the logarithm of the ratio of the
    likelihoods; chi-squared with one degree of freedom where the offset is a usual one."""
    evidence: float
    """Likewise, by how much no correlation at all fits worse."""


class LagFinder:
    """Sums of products over the windows of a log; memory does not grow."""

    def __init__(self, find_least: Callable[[str], float], moving: Collection[str] = ()) -> None:
        """`find_least`: root mean square of the reference below which a channel has no motion to compare.

        `moving`: channels whose own motion is enough, too.
        """
        self._find_least, self._moving = find_least, moving
        self._sums: dict[tuple[str, str], np.ndarray] = {}
        self._samples: dict[tuple[str, str], int] = {}
        self._varied: dict[tuple[str, str], list[np.ndarray]] = {}
        """As `_sums`, by what was varied."""
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
            # How far the dynamics of the car may move the offset.
            moved = [_find_peak(_correlate(v))[0] - offset for v in self._varied[key]]
            modelled = math.hypot(*moved)
            low, high = find_usual(channel, reference)
            low, high = low - _MODELLED * modelled, high + _MODELLED * modelled
            seconds = self._samples[key] * STEP
            # As many samples are independent as its bandwidth has room for in that time.
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
            # Of the largest likelihood, by the variance that the correlation leaves and the reference's changes.
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
    """Offset, s, and coefficient where it is largest in magnitude, between the steps of the grid."""
    k = int(np.argmax(np.abs(rho)))
    if not 0 < k < len(rho) - 1:
        return float(_OFFSETS[k]), float(rho[k])
    before, here, after = np.abs(rho[k - 1 : k + 2]).tolist()
    curvature = before - 2.0 * here + after
    between = 0.5 * (before - after) / curvature if curvature < 0.0 else 0.0
    return float(_OFFSETS[k]) + between * STEP, float(rho[k])
