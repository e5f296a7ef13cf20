"""Fixes that go another way than the car: by more than it can have driven, or than the receiver's velocity gives.

The car's model has no part in it. Which place is right is not known: a receiver jumps to a false fix, and back from
it. The estimate knows its way from the last fixes well for a while, so it stays where it is for that long, and
follows only if the receiver stays.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

_LEAST, _PER_WAY = 0.5, 0.5
"""m, and share of the way since the fix before: more of an estimate's motion is not wrong."""
_SIGMAS = 7.0
"""Of a fix: beyond the difference of two."""
_DRIFT, _DRIFT_PER_WAY = 0.2, 0.01
"""m, and share of the way: velocities of a receiver add up to its positions within that."""
_WINDOW_NS = 1_000_000_000
_LONGEST_NS = 400_000_000
"""Between two velocities that are added up."""
_AGREEING_NS = 2_000_000_000
"""For so long fixes must have been accepted: an estimate that begins with a false fix is not better than the next."""
_DOUBT_NS = 10_000_000_000
"""For so long a receiver that has jumped is not followed."""


class PlacedFix(NamedTuple):
    """A fix beside the estimate. East and north, m."""

    place: tuple[float, float]
    apart: tuple[float, float]
    """From the estimate."""
    sigma: float
    """m."""
    speed: float
    """m/s."""
    course: float | None
    """rad, clockwise from north."""


class FixJumps:
    """Compares each fix with those before, beside the estimated motion and beside the receiver's velocity."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._before: tuple[int, PlacedFix] | None = None
        """The last fix and its time, ns."""
        self._kept: deque[tuple[int, tuple[float, float], float]] = deque()
        """Of the fixes within the window: time, ns; place less what the velocity adds up to, m; and the way, m."""
        self._moved = [0.0, 0.0, 0.0]
        """What the velocity adds up to, east and north, and the way, m."""
        self._doubtful_ns: int | None = None
        self._agreed_ns: int | None = None
        """When the first fix was accepted."""

    def take(self, t_ns: int, fix: PlacedFix, accepted: bool) -> None:
        """A fix, and whether it was accepted by the gate."""
        jumps = self._jumps(t_ns, fix)
        drifts = self._drifts_away(t_ns, fix)
        if accepted and not (jumps or drifts):
            self._doubtful_ns = None
            self._agreed_ns = t_ns if self._agreed_ns is None else self._agreed_ns
        elif (jumps or drifts) and self._agreed_ns is not None and t_ns - self._agreed_ns > _AGREEING_NS:
            self._doubtful_ns = self._doubtful_ns or t_ns

    def is_in_doubt(self, t_ns: int) -> bool:
        """Whether the receiver has jumped or drifted a short while ago and not come back."""
        return self._doubtful_ns is not None and t_ns - self._doubtful_ns < _DOUBT_NS

    def _jumps(self, t_ns: int, fix: PlacedFix) -> bool:
        """Beside the estimated motion."""
        before, self._before = self._before, (t_ns, fix)
        if before is None:
            return False
        t, last = before
        bound = _LEAST + _PER_WAY * fix.speed * (t_ns - t) * 1e-9 + _SIGMAS * max(fix.sigma, last.sigma)
        return math.dist(fix.apart, last.apart) > bound

    def _drifts_away(self, t_ns: int, fix: PlacedFix) -> bool:
        """Beside the receiver's own velocity."""
        kept = self._kept
        if fix.course is None or (kept and not 0 < t_ns - kept[-1][0] < _LONGEST_NS):
            kept.clear()
        if fix.course is None:
            return False
        if kept:
            dt = (t_ns - kept[-1][0]) * 1e-9
            self._moved[0] += dt * fix.speed * math.sin(fix.course)
            self._moved[1] += dt * fix.speed * math.cos(fix.course)
            self._moved[2] += dt * fix.speed
        east, north, way = self._moved
        kept.append((t_ns, (fix.place[0] - east, fix.place[1] - north), way))
        while t_ns - kept[0][0] > _WINDOW_NS:
            kept.popleft()
        bound = _DRIFT + _DRIFT_PER_WAY * (way - kept[0][2]) + _SIGMAS * fix.sigma
        return math.dist(kept[-1][1], kept[0][1]) > bound
