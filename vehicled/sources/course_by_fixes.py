"""The first course of a receiver that gives none: by two fixes that are far enough apart."""

from __future__ import annotations

import math

from vehicled.angles import wrap

_LEAST_WAY, _SIGMAS = 3.0, 10.0
"""m, and standard deviations of a fix, between the two."""
_LONGEST_NS = 10_000_000_000
"""Slower, the noise of fixes is no way."""
_LARGEST_TURN = 0.5
"""rad between the two: in it, the way is an arc, whose chord has the mean of its directions."""


class CourseByFixes:
    """Compares fixes with the one from which the way began."""

    def __init__(self) -> None:
        self._begin: tuple[int, complex, float] | None = None
        """Time, ns; east and north, m; and yaw, rad."""

    def take(self, t_ns: int, place: complex, sigma: float, yaw: float) -> tuple[float, float] | None:
        """Course, rad clockwise from north, at a fix, and its σ; None while it is not known.

        `place`: east + north i, m; `sigma`: of it, m; `yaw`: of the estimate, of which only changes are used, rad.
        """
        if self._begin is None:
            self._begin = t_ns, place, yaw
            return None
        begun_ns, before, yaw_before = self._begin
        way, turned = place - before, wrap(yaw - yaw_before)
        if not 0 <= t_ns - begun_ns < _LONGEST_NS or abs(turned) > _LARGEST_TURN:
            self._begin = t_ns, place, yaw
            return None
        if abs(way) < max(_LEAST_WAY, _SIGMAS * sigma):
            return None
        self._begin = None
        course = 0.5 * math.pi - math.atan2(way.imag, way.real) - 0.5 * turned
        return course % (2.0 * math.pi), math.sqrt(2.0) * sigma / abs(way)
