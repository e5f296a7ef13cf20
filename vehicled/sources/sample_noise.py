"""White noise of a sensor whose samples are inputs of the model, estimated from the samples alone."""

from __future__ import annotations

_MEMORY = 32.0
"""Samples over which the variance is averaged."""
_LONGEST = 0.2
"""s: default of the longest time between consecutive samples."""


class SampleNoise:
    """Variance from second differences d = x₀ − 2 x₁ + x₂ of samples that follow each other.

    For white noise E[d_k d_{k-1}] = −4 σ². A signal that is smooth over four samples has consecutive second
    differences of equal sign. So its acceleration does not look like noise; nor does a low sample rate, as it
    would with squared differences.
    """

    def __init__(self, largest: float, longest: float = _LONGEST) -> None:
        """`largest`: standard deviation as which a larger deviation, such as an outlier, counts.

        `longest`: s, longest time between consecutive samples.
        """
        self._most, self._longest = 4.0 * largest**2, longest
        self.restart()

    def restart(self) -> None:
        """Forget all."""
        self._last = self._before = self._second = 0.0
        self._at, self._count, self._mean = 0.0, 0, 0.0

    @property
    def variance(self) -> float:
        """σ²; 0 until there have been enough consecutive samples."""
        return max(-0.25 * self._mean, 0.0)

    def take(self, t: float, value: float) -> None:
        """A sample at t, s."""
        if not 0.0 < t - self._at < self._longest:
            self._count = 0
        second = value - 2.0 * self._last + self._before
        if self._count >= 3:
            product = min(max(second * self._second, -self._most), self._most)
            self._mean += (product - self._mean) / _MEMORY
        self._at, self._count = t, self._count + 1
        self._before, self._last, self._second = self._last, value, second
