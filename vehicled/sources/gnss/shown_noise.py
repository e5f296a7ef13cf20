"""White noise of a receiver's velocities beside what it claims, by what they deviate from the estimate."""

from __future__ import annotations

from vehicled.sources.sample_noise import SampleNoise

_SAMPLES = 48
"""After which the noise is compared."""
_CLEARLY = 2.25
"""Factor of the variance: what differs by less may be by chance, as so few samples show it to a third."""
_MOST = 20.0
"""Largest factor of the standard deviation."""
_OUTLIER = 5.0
"""σ: more at once counts as that. A velocity that jumps is not noisy for that."""
_LONGEST = 0.45
"""s between velocities that follow each other: what the estimate is wrong by changes no faster."""


class ShownNoise:
    """Compares a receiver's claim with the noise of its velocities, again and again."""

    def __init__(self) -> None:
        self.factor = 1.0
        """By which the standard deviation is larger than the receiver claims."""
        self._axes = SampleNoise(_OUTLIER, _LONGEST), SampleNoise(_OUTLIER, _LONGEST)
        self._count = 0

    def take(self, t: float, deviation: complex, sigma: float) -> None:
        """A velocity at t (s) by its deviation, and the standard deviation per axis that it was given, m/s."""
        east, north = self._axes
        east.take(t, deviation.real / sigma)
        north.take(t, deviation.imag / sigma)
        self._count += 1
        if self._count < _SAMPLES:
            return
        ratio = 0.5 * (east.variance + north.variance)
        if not 1.0 / _CLEARLY < ratio < _CLEARLY:
            self.factor = min(max(self.factor * ratio**0.5, 1.0), _MOST)
        self._count = 0
        for axis in self._axes:
            axis.restart()
