"""Speed and course over ground by the fixes of a receiver that gives positions alone.

Such a receiver sends neither: NMEA with GGA only, or a log of positions. Without other sensors the filter would start
standing, and in any direction.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from vehicled.maths.geodesy import MEAN_RADIUS
from vehicled.sources.world import Fix

_WAIT_NS = 1_000_000_000
"""Shortest time from the first fix: messages with the speed, if there are any, come within it."""
_SHORTEST_NS, _LONGEST_NS = 300_000_000, 2_500_000_000
"""Between two fixes that are compared. A car that turns or accelerates changes its motion within the longer."""
_CERTAIN = 7.0
"""Shortest distance between them, in σ of a fix: the course is then known to 0.2 rad."""
_MOST = 100
"""Most fixes that are kept."""


@dataclass(frozen=True)
class MotionBetweenFixes:
    """Motion from one fix to another."""

    way: float
    """m."""
    speed: float
    """Mean speed, m/s."""
    course: float
    """rad clockwise from north."""
    speed_sigma: float
    """m/s, 1 σ."""

    @property
    def course_sigma(self) -> float:
        """rad, 1 σ."""
        return self.speed_sigma / self.speed


class FixTravel:
    """Compares each fix with the latest one that is far enough away."""

    def __init__(self) -> None:
        self._fixes: deque[tuple[int, Fix]] = deque(maxlen=_MOST)
        self.reset()

    def reset(self) -> None:
        """Forget all fixes."""
        self._fixes.clear()
        self._first_ns: int | None = None
        self.unseen = 0.0
        """Highest speed that the fixes may not have shown, m/s."""

    def take(self, t_ns: int, fix: Fix, sigma: float) -> MotionBetweenFixes | None:
        """Take a fix of that time, with its horizontal σ in m.

        Returns:
            None for a car that stands or is too slow for its fixes, and in the first second.
        """
        fixes, travel = self._fixes, None
        if self._first_ns is None:
            self._first_ns = t_ns
        while fixes and not 0 <= t_ns - fixes[0][0] <= _LONGEST_NS:
            fixes.popleft()
        if t_ns - self._first_ns >= _WAIT_NS:
            found = (_compare(*b, t_ns, fix, sigma) for b in reversed(fixes) if t_ns - b[0] >= _SHORTEST_NS)
            travel = next((each for each in found if each.way > _CERTAIN * sigma), None)
        self.unseen = _CERTAIN * sigma / (_LONGEST_NS * 1e-9)
        fixes.append((t_ns, fix))
        return travel


def _compare(begin_ns: int, begin: Fix, end_ns: int, end: Fix, sigma: float) -> MotionBetweenFixes:
    north = MEAN_RADIUS * math.radians(end[0] - begin[0])
    turned = math.radians(math.remainder(end[1] - begin[1], 360.0))
    east = MEAN_RADIUS * turned * math.cos(math.radians(end[0]))
    way, span = math.hypot(north, east), (end_ns - begin_ns) * 1e-9
    return MotionBetweenFixes(way, way / span, math.atan2(east, north), math.sqrt(2.0) * sigma / span)
