"""The heading from fixes alone, if a receiver gives no course or the car is too slow for one.

The way between fixes is compared with the same way by dead reckoning in a frame of unknown direction, so the
car may turn and reverse in between.
"""

from __future__ import annotations

import cmath
import math

_LEAST_WAY, _SIGMAS = 3.0, 10.0
"""Least way between the first and the last fix, m, and in standard deviations of a fix."""
_SHORT_WAY, _PATIENCE = 1.0, 2.5
"""Way, m, that is enough after the car has moved for this time, s: robots, and cars in a yard, are slow."""
_STANDING = 0.1
"""m: up to this way the car counts as standing."""
_LONGEST = 30.0
"""s: over a longer time, dead reckoning is less certain than a restart of the comparison."""
_LONGEST_PAUSE = 1.5
"""Longest time between fixes, s, during which the motion is taken to be regular."""
_DRIFT = 0.005
"""rad/s: σ of a yaw rate whose bias is not known yet."""
_STRETCH = 0.3
"""Largest relative difference in length of the two ways."""


class HeadingByFixes:
    """Compares fixes with dead reckoning since the first fix."""

    def __init__(self) -> None:
        self._begin: tuple[float, complex] | None = None
        """Time, s, and place of the first fix."""
        self._last = 0.0, 0j
        """Time of the last fix, s, and velocity at that time."""
        self._way, self._moved_at = 0j, 0.0
        """Way by dead reckoning, m; and the time when the car began to move, s."""

    def take(self, t: float, place: complex, sigma: float, velocity: complex) -> tuple[float, float] | None:
        """Take a fix. Returns the turn of the frame of `velocity`, and its σ, rad; None while unknown.

        `t`: s; `place`: east + i north, m; `sigma`: of the place per axis, m; `velocity`: of the antenna by
        dead reckoning, in the car's own frame, m/s.
        """
        since, before = self._last
        pause = t - since
        self._last = t, velocity
        if self._begin is None or not 0.0 < pause < _LONGEST_PAUSE or t - self._begin[0] > _LONGEST:
            self._begin, self._way, self._moved_at = (t, place), 0j, t
            return None
        self._way += 0.5 * pause * (before + velocity)
        if abs(self._way) < _STANDING:
            self._moved_at = t
        begun, origin = self._begin
        way, own = place - origin, self._way
        least = _LEAST_WAY if t - self._moved_at < _PATIENCE else _SHORT_WAY
        if min(abs(way), abs(own)) < max(least, _SIGMAS * sigma):
            return None
        self._begin = None
        if abs(abs(way) - abs(own)) > _STRETCH * abs(way):
            return None
        return cmath.phase(way / own), math.hypot(
            math.sqrt(2.0) * sigma / abs(way), 0.5 * _DRIFT * (t - begun)
        )
