"""How two measurements of the yaw rate usually differ, by recursive least squares."""

from __future__ import annotations

import math
from typing import NamedTuple

_CORRELATED = 6.0
"""Factor on the variance of the scatter, as compared means overlap and their errors last."""
_FIRST, _MEMORY = 10, 100
"""Number of differences that the scatter to begin with counts for, and over which it is averaged."""
_PLACES = range(3)


class DifferenceErrors(NamedTuple):
    """Of the difference of two yaw rates: of bias, rad/s; of scale; and of time, s."""

    bias: float
    scale: float
    time: float


class UsualDifference:
    """d = b + s ω + τ ω̇ of two yaw rates, rad/s, with estimates of b, s and τ, which may change slowly.

    Offsets, understeer and lags of sensors and tyres are of this form.
    """

    def __init__(self, known: DifferenceErrors, walk: DifferenceErrors, least: float, scatter: float) -> None:
        """`known`: how well b, s, τ are known before any comparison, 1 σ; `walk`: their changes from one to the next.

        `least`, `scatter`: standard deviation of the rest, at least and to begin with, rad/s.
        """
        self._x = [0.0, 0.0, 0.0]
        self._p = [[known[i] ** 2 if i == j else 0.0 for j in _PLACES] for i in _PLACES]
        self._walk = [w * w for w in walk]
        self._least, self._variance, self._count = least, scatter**2, _FIRST

    def expect(self, rate: float, change: float) -> tuple[float, float]:
        """Expected difference, rad/s, at a yaw rate, rad/s, that changes, rad/s²; and its standard deviation."""
        h, p, x = (1.0, rate, change), self._p, self._x
        variance = sum(h[i] * p[i][j] * h[j] for i in _PLACES for j in _PLACES)
        expected = x[0] + x[1] * rate + x[2] * change
        return expected, math.sqrt(max(variance, 0.0) + max(self._variance, self._least**2))

    def go_on(self) -> None:
        """Allow for what may have changed since the last comparison; once for each, whether it is used or not."""
        for i in _PLACES:
            self._p[i][i] += self._walk[i]

    def take(self, difference: float, rate: float, change: float) -> None:
        """Take a usual difference, rad/s."""
        h, p = (1.0, rate, change), self._p
        ph = [p[i][0] + p[i][1] * rate + p[i][2] * change for i in _PLACES]
        s = ph[0] + ph[1] * rate + ph[2] * change
        innovation = difference - sum(a * b for a, b in zip(h, self._x, strict=True))
        self._count = min(self._count + 1, _MEMORY)
        self._variance += (max(innovation * innovation - s, 0.0) - self._variance) / self._count
        s += _CORRELATED * max(self._variance, self._least**2)
        for i in _PLACES:
            self._x[i] += ph[i] / s * innovation
        self._p = [[p[i][j] - ph[i] * ph[j] / s for j in _PLACES] for i in _PLACES]

    def shift(self, by: float) -> None:
        """The difference of the biases has changed by so much, rad/s."""
        self._x[0] += by
