"""Roll and pitch acceleration missing in the model, by the gyroscopes: expressions of the car's program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vehicled.sources.imu.noise_floor import MEMORY, SPIKE
from vehicled.sources.imu.rate_differences import Differences

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

_LONGEST = 0.021
"""s: samples further apart do not show such an acceleration, and earlier results expire."""


class Shaking:
    """Error of the model's angular acceleration about two axes, from the innovations of angular rates.

    An uneven road shakes the car, and an accelerometer away from the centre of mass measures this through its
    lever arm. The error has variance Q; a difference of innovations measures it with noise N = 2 σ²/Δt². The
    best estimate is Q/(Q + N) of the difference, with variance Q N/(Q + N). On an even road Q, and so the
    estimate, is zero.
    """

    def __init__(self, program: Program, name: str) -> None:
        """Array `name` (7,): zero means that nothing has been measured."""
        self._g = program.graph
        state = program.array(name, 7)
        self._found, self._value, self._variance, self._t = state[:2], state[2:4], state[4:6], state[6]

    def expire(self, t: Atom) -> tuple[list[Atom], list[Atom], Stores]:
        """Results at t (s), which expire when samples stop.

        Returns acceleration, rad/s², and variance of its error, each for roll and pitch.
        """
        now = [self._g.where_less(t - self._t, _LONGEST, old, 0.0) for old in (*self._value, *self._variance)]
        return now[:2], now[2:], list(zip((*self._value, *self._variance), now, strict=True))

    def take(self, t: Atom, by: Differences, variance: Atom) -> tuple[list[Atom], list[Atom], Stores]:
        """Take differences of innovations at t (s), and a sample's noise variance. Returns as `expire`."""
        g, span = self._g, by.span
        is_known = g.where_less(span, _LONGEST, by.is_new, 0.0)
        noise = 2.0 * variance / (span * span)
        stores: Stores = [(self._t, g.where_less(0.5, by.is_new, t, self._t))]
        values, variances = [], []
        for difference, before, value, of in zip(
            by.innovations, self._found, self._value, self._variance, strict=True
        ):
            square = g.min(difference * difference, SPIKE * (g.max(before, 0.0) + noise))
            found = g.where_less(0.5, is_known, before + (square - noise - before) * (1.0 / MEMORY), before)
            share = g.where_less(0.0, found, is_known * found / (found + noise), 0.0)
            values.append(g.where_less(0.5, by.is_new, share * difference, value))
            variances.append(g.where_less(0.5, by.is_new, share * noise, of))
            stores += [(before, found), (value, values[-1]), (of, variances[-1])]
        return values, variances, stores
