"""Continuous time in a receiver's file, from the times of its messages, which start again each day or week."""

from replay.problems import Problems
from replay.times import format_seconds

_OUT_OF_ORDER_NS = 1_000_000_000
"""A step back of at most this is a message out of order; after a larger one the receiver's clock has been
set."""

_LEAP_NS = 1_000_000_000


class ReceiverTime:
    """Converts times within a period to one time that continues from the first of them and never goes back.

    A receiver sets its clock at its first fix, often back: the continuous time then stays, and goes on with
    the new clock. This is a problem of kind `clock set back`.
    """

    def __init__(self, period_ns: int, problems: Problems) -> None:
        self._period_ns = period_ns
        self._problems = problems
        self._now: int | None = None
        self._set_back = 0
        """Sum of all backward steps of the clock, ns."""
        self._longer_ns = 0
        """By how much the present period is longer than others: a day by the leap second at its end."""

    def advance(self, within_ns: int) -> int:
        """Time, ns, of a message stamped `within_ns` in its period."""
        if self._now is None:
            self._now = within_ns
        # Take the nearest such time, to handle the end of the period.
        half = self._period_ns // 2
        if within_ns >= self._period_ns:
            self._longer_ns = _LEAP_NS
        elif within_ns < half:
            self._set_back += self._longer_ns
            self._longer_ns = 0
        ahead = (within_ns + self._set_back - self._now + half) % self._period_ns - half
        if ahead < -_OUT_OF_ORDER_NS:
            where = f"t = {format_seconds(self._now)} s"
            self._problems.add("clock set back", where, f"by {format_seconds(-ahead)} s")
            self._set_back -= ahead
        self._now += max(ahead, 0)
        return self._now
