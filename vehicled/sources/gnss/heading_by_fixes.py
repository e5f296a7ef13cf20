"""The heading by fixes alone, where a receiver gives no course or the car is too slow for one.

The way by fixes is compared with the same way by dead reckoning in a frame of unknown direction, so the car may turn
and reverse meanwhile.
"""

from __future__ import annotations

import cmath
import math

_LEAST_WAY, _SIGMAS = 3.0, 10.0
"""m, and standard deviations of a fix, between the first and the last."""
_SHORT_WAY, _PATIENCE = 1.0, 2.5
"""m that are enough once the car has moved for these seconds: robots, and cars in a yard, are slow."""
_STANDING = 0.1
"""m of way up to which it counts as standing."""
_LONGEST = 30.0
"""s: over a longer time, dead reckoning is less certain than a new beginning."""
_LONGEST_PAUSE = 1.5
"""s between fixes, in which the car is taken to move regularly."""
_DRIFT = 0.005
"""rad/s: σ of a yaw rate whose bias is not known yet."""
_STRETCH = 0.3
"""By how much, as a share, the two ways may differ in length."""


class HeadingByFixes:
    """Compares fixes with dead reckoning since the first of them."""

    def __init__(self) -> None:
        self._begin: tuple[float, complex] | None = None
        """Time, s, and place of the first."""
        self._last = 0.0, 0j
        """Time of the last, and velocity then."""
        self._way, self._moved_at = 0j, 0.0
        """By dead reckoning, m; and when it began to be one, s."""

    def take(self, t: float, place: complex, sigma: float, velocity: complex) -> tuple[float, float] | None:
        """By which angle the frame of `velocity` has to be turned at a fix, and its σ, rad; None while not known.

        `t`, s; `place`: east + north i, m; `sigma`: of it per axis, m; `velocity`: of the antenna as the car reckons
        it, in its own frame, m/s.
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
