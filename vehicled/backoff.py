"""Waiting times before something that fails repeatedly is started again."""

from __future__ import annotations

from collections import deque

_MINUTE_NS = 60_000_000_000
_AT_ONCE = 2
"""Number of starts within a minute without a wait."""
_FIRST_WAIT_NS = 2_000_000_000
_MOST = 7
"""Number of starts that are remembered: after this many the wait is a minute."""


class Backoff:
    """Two starts within a minute are immediate; further ones wait 2 s, 4 s, 8 s, … up to a minute."""

    def __init__(self) -> None:
        self._starts: deque[int] = deque(maxlen=_MOST)

    def schedule(self, t_ns: int) -> int:
        """Time (ns) of the start that is requested at `t_ns`; the start is counted."""
        while self._starts and t_ns - self._starts[0] > _MINUTE_NS:
            self._starts.popleft()
        more = len(self._starts) - _AT_ONCE
        wait = 0 if more < 0 else min(_FIRST_WAIT_NS << more, _MINUTE_NS)
        self._starts.append(t_ns + wait)
        return t_ns + wait

    def clear(self) -> None:
        """Forget past starts, as after a start that the user requested."""
        self._starts.clear()
