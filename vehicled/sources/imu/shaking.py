"""Roll and pitch acceleration that the model lacks, as the gyroscopes show it: expressions of the car's program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vehicled.sources.imu.noise_floor import MEMORY, SPIKE
from vehicled.sources.imu.rate_differences import Differences

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

_LONGEST = 0.021
"""s: samples further apart show no such acceleration, and what was found holds no longer."""


class Shaking:
    """Error of the model's angular acceleration about two axes, from the innovations of angular rates.

    An uneven road shakes the car, and an accelerometer beside the centre of mass measures that with its lever arm.
    Of the error, with variance Q, a difference of innovations has noise N = 2 σ²/Δt²: its best estimate by that is
    Q/(Q + N) of the difference, with variance Q N/(Q + N). On an even road Q, and so the estimate, is zero.
    """

    def __init__(self, program: Program, name: str) -> None:
        """Array `name` (7,): zero, nothing has been measured."""
        self._g = program.graph
        state = program.array(name, 7)
        self._found, self._value, self._variance, self._t = state[:2], state[2:4], state[4:6], state[6]

    def expire(self, t: Atom) -> tuple[list[Atom], list[Atom], Stores]:
        """At t (s), what was found holds only while samples come.

        Returns by roll and pitch the acceleration, rad/s², and the variance of its error.
        """
        now = [self._g.where_less(t - self._t, _LONGEST, old, 0.0) for old in (*self._value, *self._variance)]
        return now[:2], now[2:], list(zip((*self._value, *self._variance), now, strict=True))

    def take(self, t: Atom, by: Differences, variance: Atom) -> tuple[list[Atom], list[Atom], Stores]:
        """Innovations at t (s) beside those before, and the variance of a sample's noise. Returns as `expire`."""
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
