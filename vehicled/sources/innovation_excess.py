"""Errors of the model that change within seconds, as innovations show them."""

from __future__ import annotations

from vehicled.sources.noise_floor import MEMORY, SPIKE

_MOST = 25.0
"""Densities grow by no more than this factor, so that a sensor that fails is not followed at once: noise by five."""


class ExcessVariance:
    """Variance by which innovations exceed what the filter expects of them (Mehra 1970): E[ν²] − H P Hᵀ − R.

    White, as the filter takes it to be. It follows what changes within seconds, such as the roughness of a road.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all innovations."""
        self._found = 0.0
        self.variance = 0.0
        """To be added to R."""

    def take(self, innovation: float, expected: float) -> None:
        """An innovation and its variance, S, to which `variance` had been added."""
        square = min(innovation * innovation, SPIKE * expected)
        self._found += (square - (expected - self.variance) - self._found) / MEMORY
        self.variance = max(self._found, 0.0)


class ExcessDensity:
    """Density of white noise on the rate of a state, by the innovations of a sensor that measures the state.

    Consecutive innovations are not correlated where process and sensor are as noisy as expected. A noisier process
    makes their product positive, by (1 − K) times the variance that the state has in excess; a noisier sensor, such
    as one that vibrates, makes it negative (Mehra, 1970). What an innovation corrects, K ν, weighs it.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all innovations."""
        self._before = 0.0
        """The last innovation."""
        self.density = 0.0
        """By how much the process has more noise than it is expected to have at least, unit²/s."""

    def take(self, innovation: float, expected: float, noise: float, interval: float, least: float) -> None:
        """An innovation, its variance S and the part of it that is the sensor's noise; s since the one before.

        `least`: density that the process has in any case.
        """
        gain = max(expected - noise, 0.0) / expected
        product, self._before = innovation * self._before, innovation
        product = min(max(product, -SPIKE * expected), SPIKE * expected)
        more = self.density + gain * gain * product / interval / MEMORY
        self.density = min(max(more, 0.0), _MOST * least)
