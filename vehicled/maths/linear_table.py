"""A function of one variable, linear between points."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class LinearTable:
    """Linear between points and constant outside.

    Values are those of `numpy.interp`, which takes several times as long for one of them.
    """

    def __init__(self, x: Iterable[float], y: Iterable[float]) -> None:
        """Points in the order of x, which rises."""
        self._x, self._y = list(map(float, x)), list(map(float, y))

    def __call__(self, x: float) -> float:
        """The value at x; NaN for NaN."""
        given, values = self._x, self._y
        if not x < given[-1]:
            return values[-1] if x >= given[-1] else x
        i = bisect_right(given, x) - 1
        if i < 0:
            return values[0]
        slope = (values[i + 1] - values[i]) / (given[i + 1] - given[i])
        return slope * (x - given[i]) + values[i]
