"""Fixes that go another way than the car: by more than it can have driven, or than the receiver's velocity gives.

Which place is right is not known: a receiver jumps to a false fix, and back from it. The estimate's way from the last
fixes is right for a while, so it stays where it is for that long, and follows only if the receiver stays.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from vehicled.messages import Innovation
from vehicled.sources.gnss.fix_drift import FixDrift

_LEAST, _PER_WAY = 0.5, 0.5
"""m, and share of the way since the fix before: more of an estimate's motion is not wrong."""
_PER_WAY_EXPECTED, _EXPECTED_SIGMAS = 0.005, 10.0
"""Share of the way, and standard deviations that are expected of the fix: nor is more than both, after a pause."""
_SIGMAS = 7.0
"""Of a fix: beyond the difference of two."""
_DRIFT, _DRIFT_PER_WAY = 0.2, 0.01
"""m, and share of the way: velocities of a receiver add up to its positions within that."""
_WINDOW_NS = 2_000_000_000
_LONGEST_NS = 400_000_000
"""Between two velocities that are added up."""
_AGREEING_NS = 2_000_000_000
"""For so long fixes must have been accepted: an estimate that begins with a false fix is not better than the next."""
_DOUBTED, _FARTHEST_DOUBT = 0.3, 5.0
"""Share of the distance of a receiver in doubt that is a standard deviation of the place; and m: one that is further
away has jumped itself."""
_DOUBT_NS = 10_000_000_000
"""For so long a receiver that has jumped is not followed."""
LONGEST_DOUBT_NS = 60_000_000_000
"""For so long one that jumps again and again is not followed, nor one that has drifted and not come back, nor one of
which a velocity has jumped (`velocity_jumps`)."""


class PlacedFix(NamedTuple):
    """A fix beside the estimate. East and north, m."""

    place: complex
    apart: complex
    """From the estimate."""
    sigma: float
    """m."""
    speed: float
    """m/s, or as fast as it can be."""
    velocity: complex | None
    """Of the receiver, m/s; None where it is not known."""
    velocity_agrees: bool = True
    """With the estimate's: else it is the velocity that is wrong, not the position."""
    lag: float = 0.0
    """s: by how much that velocity is older than the fix, as far as that is known."""
    expected: float = math.inf
    """m: standard deviation of its distance from the estimate, per axis, that the filter expects."""

    @classmethod
    def of(
        cls,
        record: Innovation,
        sigma: float,
        speed: float,
        velocity: complex | None,
        agrees: bool,
        lag: float,
    ) -> PlacedFix:
        """The fix of an observation that has been evaluated."""
        place, apart = complex(*record.value[:2]), complex(*record.innovation[:2])
        expected = math.sqrt(max(record.variance[:2]))
        return cls(place, apart, sigma, speed, velocity, agrees, lag, expected)


def is_within(record: Innovation, sigmas: float) -> bool:
    """Whether the innovation of a fix is within so many standard deviations in both horizontal axes."""
    both = zip(record.innovation, record.variance[:2], strict=False)
    return all(i * i <= sigmas**2 * s for i, s in both)


class _Way(NamedTuple):
    """A fix beside the receiver's velocity, m."""

    t_ns: int
    beyond: complex
    """Its place less what the velocity adds up to."""
    apart: complex
    """From the estimate."""
    way: float
    """That the velocity adds up to."""
    velocity: complex
    """m/s"""
    sigma: float
    """m, of a fix."""


class FixJumps:
    """Compares each fix with those before, beside the estimated motion and beside the receiver's velocity."""

    def __init__(self) -> None:
        self._drift = FixDrift()
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._drift.forget()
        self._before: tuple[int, PlacedFix] | None = None
        """The last fix and its time, ns."""
        self._kept: deque[_Way] = deque()
        """Of the fixes within the window."""
        self._doubtful_ns: int | None = None
        """Since when the receiver is in doubt."""
        self._last_ns = -_WINDOW_NS
        """When a fix jumped or drifted last."""
        self._agreed_ns: int | None = None
        """When the first fix was accepted."""
        self._followed = 0j
        """How far the estimate has moved beside the receiver's velocity in this doubt, m; what has been returned is
        not in it."""
        self._drifted_ns: int | None = None
        """When a fix last contradicted the receiver's own velocity, where that was right."""
        self._false_ns = -_WINDOW_NS
        """When the velocity was false last."""

    def take(self, t_ns: int, fix: PlacedFix, accepted: bool) -> complex:
        """A fix, and whether it was accepted by the gate.

        Where it ends a doubt, or is the first that is not to be used: how far the estimate has followed the false
        fixes before, east and north, m; else zero.
        """
        jumps = self._jumps(t_ns, fix)
        if jumps:  # whatever it has done before, it no longer does
            self._kept.clear()
            self._drift.forget()
            self._drifted_ns = None
        followed = self._add_way(t_ns, fix)
        if not fix.velocity_agrees:
            self._false_ns, self._drifted_ns = t_ns, None
            self._drift.forget()
        contradicts = self._drift.lasts or self._drifts_from_velocity(fix)
        if jumps or contradicts or (not accepted and self._drifts_from_estimate()):
            self._last_ns = t_ns
            if self._agreed_ns is not None and t_ns - self._agreed_ns > _AGREEING_NS:
                self._doubtful_ns = self._doubtful_ns or t_ns
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
        """Whether positions have drifted from the receiver's own velocity a short while ago: do not use them."""
        return (
            self._drifted_ns is not None and t_ns - self._drifted_ns < _WINDOW_NS and self.is_in_doubt(t_ns)
        )

    def is_in_doubt(self, t_ns: int) -> bool:
        """Whether the receiver has jumped a short while ago, or jumps on, or has drifted and not come back."""
        if self._doubtful_ns is None:
            return False
        lasting = t_ns - self._doubtful_ns
        return lasting < _DOUBT_NS or (t_ns - self._last_ns < _WINDOW_NS and lasting < LONGEST_DOUBT_NS)

    def calc_doubt(self, t_ns: int) -> float:
        """σ of the place, m, by a receiver in doubt, as it may be right after all; else 0."""
        if self._before is None or not self.is_in_doubt(t_ns):
            return 0.0
        return _DOUBTED * min(abs(self._before[1].apart), _FARTHEST_DOUBT)

    def _jumps(self, t_ns: int, fix: PlacedFix) -> bool:
        """Whether a fix is further from the last one than the estimated motion allows."""
        before, self._before = self._before, (t_ns, fix)
        if before is None:
            return False
        t, last = before
        way = fix.speed * (t_ns - t) * 1e-9
        moved = min(_PER_WAY * way, _PER_WAY_EXPECTED * way + _EXPECTED_SIGMAS * fix.expected)
        bound = _LEAST + moved + _SIGMAS * max(fix.sigma, last.sigma)
        return abs(fix.apart - last.apart) > bound

    def _add_way(self, t_ns: int, fix: PlacedFix) -> complex | None:
        """Where the fix shows a slow drift: how far the estimate has followed it, m."""
        kept, velocity = self._kept, fix.velocity
        if velocity is None or (kept and not 0 < t_ns - kept[-1].t_ns < _LONGEST_NS):
            kept.clear()
        if velocity is None:
            return None
        followed = self._drift.take(t_ns, fix.place, fix.apart, velocity, fix.sigma, fix.lag)
        kept.append(_Way(t_ns, self._drift.beyond, fix.apart, self._drift.way, velocity, fix.sigma))
        while t_ns - kept[0].t_ns > _WINDOW_NS:
            kept.popleft()
        return followed

    def _drifts_from_velocity(self, fix: PlacedFix) -> bool:
        """Whether fixes have moved otherwise than by the receiver's own velocity, by more than both may differ.

        The first ones may be worse, of a receiver that has become precise since.
        """
        if not self._kept:
            return False
        first, last = self._kept[0], self._kept[-1]
        bound = _DRIFT + _DRIFT_PER_WAY * (last.way - first.way) + _SIGMAS * max(first.sigma, last.sigma)
        return abs(last.beyond - first.beyond - fix.lag * (last.velocity - first.velocity)) > bound

    def _drifts_from_estimate(self) -> bool:
        """Whether the last fix has only now left the estimate, and fixes have left the velocity more than it has.

        What is wrong with that velocity is so by as much for both.
        """
        if not self._kept:
            return False
        first, last = self._kept[0], self._kept[-1]
        drift = abs(last.beyond - first.beyond)
        return drift > max(0.5 * abs(last.apart), abs(self._find_estimates_drift()))

    def _find_estimates_drift(self) -> complex:
        """How far the estimate has moved otherwise than by the receiver's own velocity, m."""
        if not self._kept:
            return 0j
        first, last = self._kept[0], self._kept[-1]
        return (last.beyond - first.beyond) - (last.apart - first.apart)
