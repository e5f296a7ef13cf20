"""Time of day of the messages: by stamps of a GNSS receiver, or else by the host's clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

_EARLIEST, _LATEST = 1e9, 4.1e9
"""s since 1970: receivers that do not know the time give zero, or the beginning of their calendar."""
_STEP = 0.1
"""s: two stamps that differ by more from the monotonic clock are of different clocks."""
_AGREEING = 10
"""Stamps in a row that agree with each other before they are used, at the beginning and after a step: a receiver
that does not yet know the leap seconds gives another time at first."""
_MEMORY = 100
"""Stamps that are averaged."""
_LATENCY = 0.01
"""s, 1 σ: of the time at which a stamp was measured, on the host's clock."""
_DRIFT = 2e-5
"""Of the monotonic clock, while there are no stamps."""
_LONGEST_NS = 3_600_000_000_000
"""After so long without stamps the host's clock is used."""


def _read_host_offset() -> int:
    """ns: the host's time of day less its monotonic clock."""
    return time.time_ns() - time.monotonic_ns()


class UtcClock:
    """The offset of time of day and monotonic clock. Stamps may come from another thread than the readers'."""

    def __init__(self, read_host_offset: Callable[[], int] = _read_host_offset) -> None:
        self._read_host_offset = read_host_offset
        self._known: tuple[int, int] | None = None
        """Offset by the receiver, ns, and time of its last stamp, ns; replaced as a whole."""
        self._used = 0
        """Stamps in the average."""
        self._scatter = 0.0
        """s²: mean square of the stamps' differences from the average."""
        self._candidate: tuple[int, int] = (0, 0)
        """Offset that differs from it, ns, and how many stamps in a row had that."""
        self._last = 0.0
        self._counters = {"used": 0, "zero": 0, "stale": 0, "stepping": 0}

    def take(self, t_ns: int, stamp: float) -> None:
        """A stamp, s since 1970 UTC, of a measurement made at `t_ns` on the monotonic clock."""
        if not _EARLIEST < stamp < _LATEST:
            self._counters["zero"] += 1
            return
        repeats, self._last = stamp == self._last, stamp
        if repeats:
            self._counters["stale"] += 1
            return
        offset = round(stamp * 1e9) - t_ns
        if self._known is None or abs(offset - self._known[0]) > _STEP * 1e9:
            self._note_candidate(t_ns, offset)
            return
        self._candidate = (0, 0)
        self._counters["used"] += 1
        self._used = min(self._used + 1, _MEMORY)
        apart = offset - self._known[0]
        self._scatter += ((apart * 1e-9) ** 2 - self._scatter) / self._used
        self._known = self._known[0] + round(apart / self._used), t_ns

    def _note_candidate(self, t_ns: int, offset: int) -> None:
        if self._known is not None:
            self._counters["stepping"] += 1
        before, count = self._candidate
        count = count + 1 if count and abs(offset - before) <= _STEP * 1e9 else 1
        self._candidate = offset, count
        if count >= _AGREEING:
            self._known, self._used, self._scatter, self._candidate = (offset, t_ns), 1, 0.0, (0, 0)

    def find_offset(self, t_ns: int) -> int:
        """ns: time of day less monotonic clock, at a time on that."""
        known = self._known
        if known is None or t_ns - known[1] > _LONGEST_NS:
            return self._read_host_offset()
        return known[0]

    def describe(self, t_ns: int) -> dict[str, Any]:
        """For `status`: `source` (`gnss` or `host`), `offset` (s), its `sigma` (s, None of the host), and counts."""
        known = self._known
        by_receiver = known is not None and t_ns - known[1] <= _LONGEST_NS
        sigma = None
        if known is not None and by_receiver:
            mean = math.sqrt(self._scatter / max(self._used, 1))
            sigma = math.hypot(_LATENCY, mean, _DRIFT * max(t_ns - known[1], 0) * 1e-9)
        return {
            "source": "gnss" if by_receiver else "host",
            "offset": self.find_offset(t_ns) * 1e-9,
            "sigma": sigma,
            **self._counters,
        }
