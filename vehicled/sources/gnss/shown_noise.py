"""White noise of a receiver's velocities beyond its claim, from their deviations from the estimate."""

from __future__ import annotations

from vehicled.sources.sample_noise import SampleNoise

_SAMPLES = 48
"""Number of samples after which the noise is compared."""
_CLEARLY = 2.25
"""Factor of the variance: a smaller difference may be chance, as so few samples give it to a third."""
_MOST = 20.0
"""Largest factor of the standard deviation."""
_OUTLIER = 5.0
"""Number of σ above which a deviation counts as this many. A velocity that jumps is not noisy for that
reason."""
_LONGEST = 0.45
"""Longest time, s, between successive velocities: the error of the estimate changes no faster."""


class ShownNoise:
    """Compares the noise that a receiver claims with that of its velocities, repeatedly."""

    def __init__(self) -> None:
        self.factor = 1.0
        """Ratio of the standard deviation to the receiver's claim."""
        self._axes = SampleNoise(_OUTLIER, _LONGEST), SampleNoise(_OUTLIER, _LONGEST)
        self._count = 0

    def take(self, t: float, deviation: complex, sigma: float) -> None:
        """Take a velocity at t (s): its deviation, and the standard deviation per axis assumed for it, m/s."""
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
