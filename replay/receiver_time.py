"""The time by which a receiver's file goes on: that of its messages, which begins anew each day or week."""

from replay.problems import Problems
from replay.times import format_seconds

_OUT_OF_ORDER_NS = 1_000_000_000
"""A step back by so much at most is a message out of order; after a larger one the receiver's clock is another."""


class ReceiverTime:
    """Times within a period, as one time that goes on from the first of them and never goes back.

    A receiver sets its clock at its first fix, often back: the time then stays where it was, and goes on by the new
    clock. That is a problem of kind `clock set back`.
    """

    def __init__(self, period_ns: int, problems: Problems) -> None:
        self._period_ns = period_ns
        self._problems = problems
        self._now: int | None = None
        self._set_back = 0
        """ns, by all steps of the clock."""

    def advance(self, within_ns: int) -> int:
        """The time, ns, with a message that is stamped `within_ns` in its period."""
        if self._now is None:
            self._now = within_ns
        # The nearest such time, to get over the end of the period.
        half = self._period_ns // 2
        ahead = (within_ns + self._set_back - self._now + half) % self._period_ns - half
        if ahead < -_OUT_OF_ORDER_NS:
            where = f"t = {format_seconds(self._now)} s"
            self._problems.add("clock set back", where, f"by {format_seconds(-ahead)} s")
            self._set_back -= ahead
        self._now += max(ahead, 0)
        return self._now
