"""Page's test: the cumulative sum of deviations finds one that lasts the sooner, the larger it is.

Gates take each observation by itself, for an outlier if need be, and use those of a few standard deviations with less
weight. A hundred of them per second, all to one side, lead the estimate away within seconds.
"""

from __future__ import annotations

_TOLERATED = 1.0
"""Standard deviations of one observation: shifts up to that are not found, and do little harm."""
_BOUND = 10.0
"""Of the sum, standard deviations. White noise reaches it once in exp(2 · 1 · 10) = 5·10⁸ observations."""
_MOST = 4.0
"""Standard deviations that one counts at most: four in a row show a shift, one outlier in four does not."""
_LONGEST_NS = 1_200_000_000
"""Longest time between two that are compared; the slowest receivers measure once a second."""


class _Side:
    """Sum of the deviations to one side."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._sum, self._whole, self._count = 0.0, 0.0, 0

    def take(self, deviation: float, sigma: float) -> float:
        """Take a deviation, positive to this side: the mean since it lasts if it is a shift, else 0."""
        self._sum += min(deviation / sigma, _MOST) - _TOLERATED
        if self._sum <= 0.0:
            self.clear()
            return 0.0
        self._whole += deviation
        self._count += 1
        return self._whole / self._count if self._sum > _BOUND else 0.0


class Shifts:
    """Compares one quantity of a sensor with the estimate."""

    def __init__(self) -> None:
        self._sides = _Side(), _Side()
        self._last_ns = 0

    def reset(self) -> None:
        """Restart with the filter."""
        for side in self._sides:
            side.clear()

    def take(self, t_ns: int, deviation: float, sigma: float) -> float:
        """Take the deviation of an observation from the estimate, and the σ expected of it.

        Returns the shift, without sign, if this observation is the one that shows it; else 0.
        """
        if not 0 < t_ns - self._last_ns < _LONGEST_NS:
            self.reset()
        self._last_ns = t_ns
        left, right = self._sides
        shift = max(left.take(deviation, sigma), right.take(-deviation, sigma))
        if shift:
            self.reset()
        return shift
