"""Signs and time offsets between sensors that measure the same motion, by cross-correlation."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from vehicled.log_check.grid import STEP

_MOST = 25
"""Steps of the grid by which signals are shifted to either side."""
_OFFSETS = np.arange(-_MOST, _MOST + 1) * STEP
"""s"""
_LEAST_SAMPLES = 250


@dataclass(frozen=True)
class Lag:
    """How a channel follows another one that measures the same motion."""

    channel: str
    reference: str
    offset: float
    """s by which the channel is later than the reference."""
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
        self._changes: dict[tuple[str, str], float] = {}
        """Sums of the squared changes of the reference from step to step."""

    def take(self, signals: Mapping[str, np.ndarray]) -> None:
        """Take the signals (n,) of a window, the reference first; NaN is no sample."""
        (reference, a), *others = signals.items() or [("", np.zeros(0))]
        for channel, b in others:
            self._add(reference, a, channel, b)

    def _add(self, reference: str, a: np.ndarray, channel: str, b: np.ndarray) -> None:
        inner = slice(_MOST, len(a) - _MOST)
        shifted = range(-_MOST, _MOST + 1)
        if len(a) < _LEAST_SAMPLES:
            return
        later = np.array([b[_MOST + k : len(b) - _MOST + k] for k in shifted])
        known = np.isfinite(a[inner]) & np.isfinite(later).all(axis=0)
        if known.sum() < _LEAST_SAMPLES:
            return
        core = a[inner][known] - a[inner][known].mean()
        later = later[:, known]
        later = later - later.mean(axis=1, keepdims=True)
        moved = max(core.std(), later[_MOST].std() if channel in self._moving else 0.0)
        if moved < self._find_least(channel):
            return
        key = reference, channel
        sums = np.stack([later @ core, np.full(len(later), core @ core), (later**2).sum(axis=1)])
        self._sums[key] = self._sums.get(key, np.zeros_like(sums)) + sums
        self._samples[key] = self._samples.get(key, 0) + int(known.sum())
        self._changes[key] = self._changes.get(key, 0.0) + float(np.nansum(np.diff(a[inner]) ** 2))

    def find(self, find_usual: Callable[[str, str], tuple[float, float]]) -> list[Lag]:
        """One per channel that could be compared. `find_usual`: offsets, s, from a channel and its reference."""
        found = []
        for key, (products, own, others) in self._sums.items():
            reference, channel = key
            squares = own * others
            rho = np.divide(products, np.sqrt(squares), out=np.zeros_like(products), where=squares > 0.0)
            offset, correlation = _find_peak(rho)
            low, high = find_usual(channel, reference)
            seconds = self._samples[key] * STEP
            # As many samples are independent as its bandwidth has room for in that time.
            bandwidth = math.sqrt(self._changes[key] / max(float(own[0]), 1e-300)) / STEP
            usual = float(np.interp(np.clip(offset, low, high), _OFFSETS, np.abs(rho)))
            within = np.abs(rho[(low <= _OFFSETS) & (high >= _OFFSETS)])
            best = max(usual, float(within.max(initial=0.0)))
            fits = math.log(
                max(1.0 - min(best, abs(correlation)) ** 2, 1e-9) / max(1.0 - correlation**2, 1e-9)
            )
            independent = seconds * bandwidth / math.pi
            excess = 0.0 if low <= offset <= high else independent * fits
            evidence = -independent * math.log(max(1.0 - correlation**2, 1e-9))
            ratio = math.sqrt(float(others[_MOST]) / max(float(own[_MOST]), 1e-300))
            found.append(Lag(channel, reference, offset, correlation, ratio, seconds, excess, evidence))
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
