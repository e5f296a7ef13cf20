"""Angular velocity as the gyroscopes have measured it lately."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

_KEPT = 1024
"""Samples: a second of fast gyroscopes."""
_GAP = 0.05
"""s: what is further from a sample is not measured."""
_MISTIMED = 0.01
"""s: clocks of gyroscopes and receivers, which average over a while, agree no better than to that."""


class MeasuredRates:
    """Samples of whole gyroscopes, and what they were in between."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Sequence[float]]] = deque(maxlen=_KEPT)
        self.sigma = 0.0
        """Standard deviation of a sample, rad/s."""

    def reset(self) -> None:
        """Forget all samples."""
        self._samples.clear()

    def take(self, t: float, rates: Sequence[float], sigma: float) -> None:
        """A sample at t (s), rad/s in axes of the IMU, and its standard deviation."""
        samples = self._samples
        if samples and t <= samples[-1][0]:
            return
        samples.append((t, rates))
        self.sigma = sigma

    def find_change(self, t: float) -> float:
        """By how much they differ at t (s) and `_MISTIMED` before, rad/s; 0 if that is not measured."""
        now, before = self.find(t), self.find(t - _MISTIMED)
        return 0.0 if now is None or before is None else math.dist(now, before)

    def find(self, t: float) -> Sequence[float] | None:
        """At t (s), linear between samples; the last one for a time just behind it; None where there is none near."""
        later: tuple[float, Sequence[float]] | None = None
        for sample in reversed(self._samples):
            at, rates = sample
            if at <= t:
                if t - at > _GAP:
                    return None
                if later is None or later[0] - at > _GAP:
                    return rates
                share = (t - at) / (later[0] - at)
                return [a + share * (b - a) for a, b in zip(rates, later[1], strict=True)]
            later = sample
        return None

    def write(self, t: float, target: np.ndarray) -> None:
        """Those at t (s), as `ObservedFilter.measured_rates` takes them."""
        rates = self.find(t)
        target[:] = (0.0, 0.0, 0.0, 0.0) if rates is None else (1.0, *rates)
