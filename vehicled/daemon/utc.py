"""Time of day of the messages, from stamps and pulses of a GNSS receiver, or else from the host's clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

_EARLIEST, _LATEST = 1e9, 4.1e9
"""Valid stamps, s since 1970: receivers that do not know the time give zero, or the beginning of their calendar."""
_SECOND = 1_000_000_000
_ERA = 1024 * 7 * 86_400
"""s: GPS counts its weeks to 1024. Receivers that do not know in which such era they are give the time of another."""
_RIGHT = 7 * 86_400
"""s: largest error of a host's clock that has been set. A clock that was never set does not show the era."""
_STAMP_STEP, _PULSE_STEP = 0.1, 1e-3
"""s: two stamps, or pulses, whose offsets from the monotonic clock differ by more are of different clocks."""
_STAMP_LATENCY, _PULSE_LATENCY = 0.01, 5e-5
"""s, 1 σ: error of the host's time of a stamp's measurement, and of an interrupt."""
_AGREEING = 10
"""Consecutive stamps or pulses that must agree before they are used, at the beginning and after a step: a
receiver that does not know the leap seconds yet gives another time at first."""
_AGREEING_OF_LEAP = 2
"""The same number if they differ by one second from the known time: until then, a leap second makes messages
wrong."""
_MEMORY = 100
"""Stamps or pulses that are averaged."""
_DRIFT = 2e-5
"""Drift of the monotonic clock while there are no stamps or pulses."""
_LONGEST_NS, _LONGEST_PULSES_NS = 3600 * _SECOND, 10 * _SECOND
"""Without stamps for the first time, the host's clock is used; without pulses for the second time, the stamps
are used."""
_UNCERTAIN = 0.25
"""s: a pulse that differs by more from a full second of the stamps may belong to another second."""


def read_host_offset() -> int:
    """ns: the host's time of day less its monotonic clock."""
    return time.time_ns() - time.monotonic_ns()


class _Offset:
    """Time of day less monotonic clock, averaged over measurements that agree."""

    def __init__(self, step: float, latency: float) -> None:
        """`step`: largest difference of measurements of one clock, s; `latency`: their common error, 1 σ, s."""
        self._step_ns, self._latency = step * 1e9, latency
        self.known: tuple[int, int] | None = None
        """Offset, ns, and time of the last measurement, ns; replaced as a whole."""
        self._used = 0
        """Number of measurements in the average."""
        self._scatter = 0.0
        """s²: mean square of the measurements' differences from the average."""
        self._candidate: tuple[int, int] = (0, 0)
        """Offset that differs from it, ns, and number of consecutive measurements with it."""

    def take(self, t_ns: int, offset: int) -> bool:
        """Take an offset, ns, at a time on the monotonic clock; returns False if it differs from those before."""
        if self.known is None or abs(offset - self.known[0]) > self._step_ns:
            stepping = self.known is not None
            self._note_candidate(t_ns, offset)
            return not stepping
        self._candidate = (0, 0)
        self._used = min(self._used + 1, _MEMORY)
        apart = offset - self.known[0]
        self._scatter += ((apart * 1e-9) ** 2 - self._scatter) / self._used
        self.known = self.known[0] + round(apart / self._used), t_ns
        return True

    def _note_candidate(self, t_ns: int, offset: int) -> None:
        before, count = self._candidate
        count = count + 1 if count and abs(offset - before) <= self._step_ns else 1
        self._candidate = offset, count
        if count >= (_AGREEING_OF_LEAP if self._is_leap(offset) else _AGREEING):
            self.known, self._used, self._scatter, self._candidate = (offset, t_ns), 1, 0.0, (0, 0)

    def _is_leap(self, offset: int) -> bool:
        return self.known is not None and abs(abs(offset - self.known[0]) - _SECOND) <= self._step_ns

    def find(self, t_ns: int, longest_ns: int) -> int | None:
        """Average at a time; None if the last measurement is older than `longest_ns`."""
        known = self.known
        return None if known is None or t_ns - known[1] > longest_ns else known[0]

    def calc_sigma(self, t_ns: int) -> float:
        """Its standard deviation at a time, s."""
        assert self.known is not None
        mean = math.sqrt(self._scatter / max(self._used, 1))
        return math.hypot(self._latency, mean, _DRIFT * max(t_ns - self.known[1], 0) * 1e-9)


class UtcClock:
    """Offset of time of day from the monotonic clock. Stamps and pulses may come from their own threads."""

    def __init__(self, host_offset: Callable[[], int] = read_host_offset) -> None:
        self._read_host_offset = host_offset
        self._stamps = _Offset(_STAMP_STEP, _STAMP_LATENCY)
        self._pulses = _Offset(_PULSE_STEP, _PULSE_LATENCY)
        self._last = 0.0
        self._counters = {"used": 0, "zero": 0, "stale": 0, "stepping": 0, "pulses": 0}

    def take(self, t_ns: int, stamp: float) -> None:
        """Take a stamp, s since 1970 UTC, of a measurement made at `t_ns` on the monotonic clock."""
        if not _EARLIEST < stamp < _LATEST:
            self._counters["zero"] += 1
            return
        stamp += self._find_eras(t_ns, stamp) * _ERA
        repeats, self._last = stamp == self._last, stamp
        if repeats:
            self._counters["stale"] += 1
            return
        before = self._stamps.known
        agrees = self._stamps.take(t_ns, round(stamp * 1e9) - t_ns)
        if not agrees:
            self._counters["stepping"] += 1
        elif before is not None:
            self._counters["used"] += 1

    def _find_eras(self, t_ns: int, stamp: float) -> int:
        """By how many eras of GPS a stamp is earlier than the host's time of day."""
        late = (t_ns + self._read_host_offset()) * 1e-9 - stamp
        eras = round(late / _ERA)
        return eras if eras > 0 and abs(late - eras * _ERA) < _RIGHT else 0

    def take_pulse(self, t_ns: int) -> None:
        """Take a pulse: a second of UTC began at `t_ns` on the monotonic clock; stamps determine which one."""
        rough = self._stamps.find(t_ns, _LONGEST_NS)
        if rough is None:
            return
        second = (t_ns + rough + _SECOND // 2) // _SECOND * _SECOND
        offset = second - t_ns
        if abs(offset - rough) <= _UNCERTAIN * _SECOND and self._pulses.take(t_ns, offset):
            self._counters["pulses"] += 1

    def find_offset(self, t_ns: int) -> int:
        """Time of day less monotonic clock, ns, at a time on the latter."""
        return self._find(t_ns)[1]

    def _find(self, t_ns: int) -> tuple[str, int]:
        rough = self._stamps.find(t_ns, _LONGEST_NS)
        if rough is None:
            return "host", self._read_host_offset()
        precise = self._pulses.find(t_ns, _LONGEST_PULSES_NS)
        if precise is None or abs(precise - rough) > _UNCERTAIN * _SECOND:
            return "gnss", rough
        return "pps", precise

    def describe(self, t_ns: int) -> dict[str, Any]:
        """For `status`: `source` (`pps`, `gnss` or `host`), `offset` (s), its `sigma` (s, None: host), and counts."""
        source, offset = self._find(t_ns)
        by = {"pps": self._pulses, "gnss": self._stamps}.get(source)
        sigma = None if by is None else by.calc_sigma(t_ns)
        return {"source": source, "offset": offset * 1e-9, "sigma": sigma, **self._counters}
