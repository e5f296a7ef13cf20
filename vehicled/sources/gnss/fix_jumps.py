"""Fixes that move otherwise than the car, or otherwise than the receiver's velocity.

Which place is right is unknown: a receiver jumps to a false fix, and back from it. Dead reckoning from the
last fixes is right for a while, so the estimate ignores the jump for that long, and follows only if the
receiver stays at the new place.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from vehicled.messages import Innovation
from vehicled.sources.gnss.fix_drift import FixDrift

_LEAST, _PER_WAY = 0.5, 0.5
"""m, and share of the way since the fix before: largest error of the estimated motion."""
_PER_WAY_EXPECTED, _EXPECTED_SIGMAS = 0.005, 10.0
"""Share of the way, and number of standard deviations expected of the fix: after a pause, the error is also
no larger than their sum."""
_SIGMAS = 7.0
"""Standard deviations of a fix by which the difference of two fixes may exceed the bound."""
_DRIFT, _DRIFT_PER_WAY = 0.2, 0.01
"""m, and share of the way: largest difference between the integral of a receiver's velocities and its
positions."""
_WINDOW_NS = 2_000_000_000
_LONGEST_NS = 400_000_000
"""Longest time between two velocities that are integrated."""
_AGREEING_NS = 2_000_000_000
"""Time for which fixes must have been accepted: an estimate that begins with a false fix is not better than
the next one."""
_DOUBTED, _FARTHEST_DOUBT = 0.3, 5.0
"""The σ of the place while a receiver is in doubt, as a share of the distance of its fix from the estimate;
and the largest such distance, m: beyond it, the receiver itself has jumped."""
_DOUBT_NS = 10_000_000_000
"""Time for which a receiver that has jumped is not followed."""
LONGEST_DOUBT_NS = 60_000_000_000
"""Longest time for which a receiver is not followed if it jumps repeatedly, or has drifted and not come back,
or if its velocity has jumped (`velocity_jumps`)."""


class PlacedFix(NamedTuple):
    """A fix and its difference from the estimate. East + i north, m."""

    place: complex
    apart: complex
    """Difference from the estimate."""
    sigma: float
    """m."""
    speed: float
    """m/s; the highest possible speed if it is unknown."""
    velocity: complex | None
    """Velocity of the receiver, m/s; None if unknown."""
    velocity_agrees: bool = True
    """Whether it agrees with the estimated velocity: if not, the velocity is wrong, not the position."""
    lag: float = 0.0
    """s: by how much the velocity is older than the fix, as far as known."""
    expected: float = math.inf
    """m: standard deviation per axis that the filter expects of the difference from the estimate."""
    estimated: complex | None = None
    """Estimated velocity of the antenna, m/s."""

    @classmethod
    def of(
        cls,
        record: Innovation,
        sigma: float,
        speed: float,
        velocity: complex | None,
        agrees: bool,
        lag: float,
        estimated: complex,
    ) -> PlacedFix:
        """The fix of an observation that has been evaluated."""
        place, apart = complex(*record.value[:2]), complex(*record.innovation[:2])
        expected = math.sqrt(max(record.variance[:2]))
        return cls(place, apart, sigma, speed, velocity, agrees, lag, expected, estimated)


def is_within(record: Innovation, sigmas: float) -> bool:
    """Whether the innovation of a fix is within that many standard deviations in both horizontal axes."""
    both = zip(record.innovation, record.variance[:2], strict=False)
    return all(i * i <= sigmas**2 * s for i, s in both)


class _Way(NamedTuple):
    """A fix compared with the receiver's velocity, m."""

    t_ns: int
    beyond: complex
    """Place of the fix less the integral of the velocity."""
    apart: complex
    """Difference from the estimate."""
    way: float
    """Integral of the speed."""
    velocity: complex
    """m/s"""
    sigma: float
    """σ of a fix, m."""


class FixJumps:
    """Compares each fix with earlier ones, by the estimated motion and by the receiver's velocity."""

    def __init__(self) -> None:
        self._drift = FixDrift()
        self.reset()

    def reset(self) -> None:
        """Restart with the filter."""
        self._drift.forget()
        self._before: tuple[int, PlacedFix] | None = None
        """The last fix and its time, ns."""
        self._kept: deque[_Way] = deque()
        """Comparisons of the fixes within the window."""
        self._doubtful_ns: int | None = None
        """Time since which the receiver is in doubt."""
        self._last_ns = -_WINDOW_NS
        """Time of the last jump or drift of a fix."""
        self._agreed_ns: int | None = None
        """Time when the first fix was accepted."""
        self._followed = 0j
        """How far the estimate has moved in addition to the receiver's velocity in this doubt, m, without
        what has been returned already."""
        self._drifted_ns: int | None = None
        """Time when a fix last contradicted the receiver's own velocity while that was right."""
        self._false_ns = -_WINDOW_NS
        """Time when the velocity was last false."""
        self.denies_velocity = False
        """Whether fixes contradict the receiver's own velocity: then it does not show where the car heads."""

    def take(self, t_ns: int, fix: PlacedFix, accepted: bool) -> complex:
        """Take a fix, and whether the gate accepted it.

        If the fix ends a doubt, or is the first that must not be used, returns how far the estimate has
        followed earlier false fixes, east + i north, m; else zero.
        """
        jumps = self._jumps(t_ns, fix)
        if jumps:  # earlier fixes tell nothing of those after the jump
            self._kept.clear()
            self._drift.forget()
            self._drifted_ns = None
        followed = self._add_way(t_ns, fix)
        if not fix.velocity_agrees:
            self._false_ns, self._drifted_ns = t_ns, None
            self._drift.forget()
        self.denies_velocity = contradicts = self._drift.lasts or self._drifts_from_velocity(fix)
        if jumps or contradicts or (not accepted and self._drifts_from_estimate()):
            self._last_ns = t_ns
            if self._agreed_ns is not None and t_ns - self._agreed_ns > _AGREEING_NS:
                self._doubtful_ns = t_ns if self._doubtful_ns is None else self._doubtful_ns
                if not self.is_contradicting(t_ns):  # so that it was used
                    drift = self._find_estimates_drift() if followed is None else followed
                    before = self._followed
                    self._followed = complex(
                        max(before.real, abs(drift.real)), max(before.imag, abs(drift.imag))
                    )
                if contradicts and t_ns - self._false_ns > _WINDOW_NS:
                    self._drifted_ns = t_ns
                    return self._take_followed()
        elif accepted and t_ns - self._last_ns > _WINDOW_NS:
            self._doubtful_ns = None
            self._agreed_ns = t_ns if self._agreed_ns is None else self._agreed_ns
            return self._take_followed()
        return 0j

    def _take_followed(self) -> complex:
        followed, self._followed = self._followed, 0j
        return followed

    def is_contradicting(self, t_ns: int) -> bool:
        """Whether positions have recently drifted from the receiver's own velocity: then do not use them."""
        return (
            self._drifted_ns is not None and t_ns - self._drifted_ns < _WINDOW_NS and self.is_in_doubt(t_ns)
        )

    def is_in_doubt(self, t_ns: int) -> bool:
        """Whether the receiver has jumped recently, or still jumps, or has drifted and not come back."""
        if self._doubtful_ns is None:
            return False
        lasting = t_ns - self._doubtful_ns
        return lasting < _DOUBT_NS or (t_ns - self._last_ns < _WINDOW_NS and lasting < LONGEST_DOUBT_NS)

    def calc_doubt(self, t_ns: int) -> float:
        """σ of the place, m, while the receiver is in doubt, as it may be right after all; else 0."""
        if self._before is None or not self.is_in_doubt(t_ns):
            return 0.0
        return _DOUBTED * min(abs(self._before[1].apart), _FARTHEST_DOUBT)

    def _jumps(self, t_ns: int, fix: PlacedFix) -> bool:
        """Whether a fix is farther from the last one than the estimated motion allows."""
        before, self._before = self._before, (t_ns, fix)
        if before is None:
            return False
        t, last = before
        way = fix.speed * (t_ns - t) * 1e-9
        moved = min(_PER_WAY * way, _PER_WAY_EXPECTED * way + _EXPECTED_SIGMAS * fix.expected)
        bound = _LEAST + moved + _SIGMAS * max(fix.sigma, last.sigma)
        return abs(fix.apart - last.apart) > bound

    def _add_way(self, t_ns: int, fix: PlacedFix) -> complex | None:
        """How far the estimate has followed a slow drift, m, if this fix shows one; else None."""
        kept, velocity = self._kept, fix.velocity
        if velocity is None or (kept and not 0 < t_ns - kept[-1].t_ns < _LONGEST_NS):
            kept.clear()
        if velocity is None:
            if self._drift.lasts and fix.estimated is not None:
                # At standstill most receivers give no course. A drift that began before ends there, too.
                self._drift.take(t_ns, fix.place, fix.apart, fix.estimated, fix.sigma, fix.lag)
            return None
        followed = self._drift.take(t_ns, fix.place, fix.apart, velocity, fix.sigma, fix.lag)
        kept.append(_Way(t_ns, self._drift.beyond, fix.apart, self._drift.way, velocity, fix.sigma))
        while t_ns - kept[0].t_ns > _WINDOW_NS:
            kept.popleft()
        return followed

    def _drifts_from_velocity(self, fix: PlacedFix) -> bool:
        """Whether fixes deviate from the integral of the receiver's velocity by more than both errors.

        The bound takes the larger σ: the first fixes may be worse if the receiver has become precise since.
        """
        if not self._kept:
            return False
        first, last = self._kept[0], self._kept[-1]
        bound = _DRIFT + _DRIFT_PER_WAY * (last.way - first.way) + _SIGMAS * max(first.sigma, last.sigma)
        return abs(last.beyond - first.beyond - fix.lag * (last.velocity - first.velocity)) > bound

    def _drifts_from_estimate(self) -> bool:
        """Whether the last fix left the estimate only now, and fixes left the velocity by more than it did.

        An error of that velocity affects both deviations equally.
        """
        if not self._kept:
            return False
        first, last = self._kept[0], self._kept[-1]
        drift = abs(last.beyond - first.beyond)
        return drift > max(0.5 * abs(last.apart), abs(self._find_estimates_drift()))

    def _find_estimates_drift(self) -> complex:
        """How far the estimate has deviated from the integral of the receiver's own velocity, m."""
        if not self._kept:
            return 0j
        first, last = self._kept[0], self._kept[-1]
        return (last.beyond - first.beyond) - (last.apart - first.apart)
