"""Speed and course over ground by the fixes of a receiver that gives positions alone.

Such a receiver sends neither: NMEA with GGA only, or a log of positions. Without other sensors the filter would start
standing, and in any direction.
"""

from __future__ import annotations

import cmath
import math
from collections import deque
from dataclasses import dataclass

from vehicled.maths.geodesy import WorldOrigin
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
        self._places: deque[tuple[int, complex]] = deque(maxlen=_MOST)
        self.reset()

    def reset(self) -> None:
        """Forget all fixes."""
        self._places.clear()
        self._first: tuple[int, WorldOrigin] | None = None
        """Time of the first fix, ns, and its place, from which those of the others are measured."""
        self.unseen = 0.0
        """Highest speed that the fixes may not have shown, m/s."""

    def take(self, t_ns: int, fix: Fix, sigma: float) -> MotionBetweenFixes | None:
        """Take a fix of that time, with its horizontal σ in m.

        Returns:
            None for a car that stands or is too slow for its fixes, and in the first second.
        """
        if self._first is None:
            self._first = t_ns, WorldOrigin(*fix[:2], 0.0)
        begin_ns, origin = self._first
        east, north, _ = origin.to_world(*fix[:2], 0.0).tolist()
        place, places, motion = complex(east, north), self._places, None
        while places and not 0 <= t_ns - places[0][0] <= _LONGEST_NS:
            places.popleft()
        if t_ns - begin_ns >= _WAIT_NS:
            latest_ns, least = t_ns - _SHORTEST_NS, _CERTAIN * sigma
            far = (b for b in reversed(places) if b[0] <= latest_ns and abs(place - b[1]) > least)
            if (before := next(far, None)) is not None:
                way, span = place - before[1], (t_ns - before[0]) * 1e-9
                course = 0.5 * math.pi - cmath.phase(way)
                motion = MotionBetweenFixes(abs(way) / span, course, math.sqrt(2.0) * sigma / span)
        self.unseen = _CERTAIN * sigma / (_LONGEST_NS * 1e-9)
        places.append((t_ns, place))
        return motion
