"""Angular velocity as the gyroscopes have measured it lately."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

_KEPT = 1024
"""Number of samples: one second of fast gyroscopes."""
_GAP = 0.05
"""s: no rate is given for times further from a sample."""
_MISTIMED = 0.01
"""s: the clocks of gyroscopes and of receivers, which average over a while, agree no better than this."""


class MeasuredRates:
    """Keeps samples of all three gyroscopes, and interpolates between them."""

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
        """Difference of the rates at t (s) and `_MISTIMED` before, rad/s; 0 if not measured."""
        now, before = self.find(t), self.find(t - _MISTIMED)
        return 0.0 if now is None or before is None else math.dist(now, before)

    def find(self, t: float) -> Sequence[float] | None:
        """Rates at t (s), interpolated linearly; the last ones shortly after it; None if no sample is near."""
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
        """Write the rates at t (s) as `ObservedFilter.measured_rates` takes them."""
        rates = self.find(t)
        target[:] = (0.0, 0.0, 0.0, 0.0) if rates is None else (1.0, *rates)
