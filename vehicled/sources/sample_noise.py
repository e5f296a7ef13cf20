"""White noise of a sensor whose samples the model takes as they are, from the samples alone."""

from __future__ import annotations

_MEMORY = 32.0
"""Samples over which the variance is averaged."""
_LONGEST = 0.2
"""s: samples that are further apart do not follow each other, by default."""


class SampleNoise:
    """Variance from second differences d = x₀ − 2 x₁ + x₂ of samples that follow each other.

    Of white noise E[d_k d_{k-1}] = −4 σ², while second differences of a signal that is smooth over four samples have
    the same sign: neither its acceleration nor, unlike with squares of differences, a low rate seems to be noise.
    """

    def __init__(self, largest: float, longest: float = _LONGEST) -> None:
        """`largest`: a standard deviation; more at once, as of an outlier, counts as that.

        `longest`: s between two samples that follow each other.
        """
        self._most, self._longest = 4.0 * largest**2, longest
        self.restart()

    def restart(self) -> None:
        """Forget all."""
        self._last = self._before = self._second = 0.0
        self._at, self._count, self._mean = 0.0, 0, 0.0

    @property
    def variance(self) -> float:
        """σ²; 0 until enough samples have followed each other."""
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
