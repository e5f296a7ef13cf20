"""Fixes that drift from the receiver's own velocity within seconds, by less than single fixes show.

Velocities are found from Doppler shifts: where buildings reflect signals, they stay right to centimetres per
second while positions become wrong by metres. Fixes averaged over seconds are compared with the integral of
the velocity.
"""

from __future__ import annotations

import cmath
import math
from collections import deque
from dataclasses import dataclass

_BLOCK_NS = 1_000_000_000
"""Time over which fixes are averaged."""
_MEAN, _KEPT = 2, 8
"""Number of averages that make a place, and number of averages kept."""
_LONGEST_NS = 1_200_000_000
"""Longest time between two velocities that are integrated: enough for receivers with a fix per second."""
_DRIFT, _PER_WAY, _PER_CHANGE = 0.3, 0.003, 0.05
"""m, share of the way, and s times the change of velocity (velocities may be smoothed by that much more than
fixes): error bound of the integral of velocities."""
_PER_BEND = 1.0 / 6.0
"""Share of the way between two fixes, times the change of the angle turned between fixes: uncertainty of that
way if a bend begins between them."""
_SLOWEST = 0.5
"""m/s: above it, velocities are interpolated as turning and growing evenly; below, along a line."""
_STRAIGHT = 1e-3
"""Size of a turn (rad) and of a relative change of speed below which rounding errors would matter."""
_SIGMAS, _SIGMAS_BACK, _LEAST_WHITE = 5.0, 2.5, 0.25
"""Standard deviations of an average above which it has drifted, and up to which it is back; and the least σ
of an average as a share of that of a fix, because part of the noise wanders slowly."""
_BETTER = 1.0 / 3.0
"""Share of the earlier fixes' σ: if the σ is now below it, the earlier fixes were wrong. A receiver that has
just fixed its ambiguities leaves the place that it had without them."""


@dataclass
class _Block:
    """Sums over the fixes of a second, east and north; means once it is complete."""

    begun_ns: int
    way: float
    """m: integral of the speed up to the end of the second."""
    unknown: float
    """m²: variance of that way, as velocities change between fixes."""
    velocity: complex = 0j
    """m/s"""
    beyond: complex = 0j
    """Places less the integral of the velocity, m."""
    apart: complex = 0j
    """Differences of places from the estimate, m."""
    sigma: float = 0.0
    count: int = 0


class _Place:
    """Mean of some blocks."""

    def __init__(self, blocks: list[_Block]) -> None:
        count = sum(b.count for b in blocks)
        self.beyond = sum(b.beyond for b in blocks) / count
        self.apart = sum(b.apart for b in blocks) / count
        self.velocity = sum(b.velocity for b in blocks) / count
        self.way, self.unknown = blocks[-1].way, blocks[-1].unknown
        self.sigma = max(1.0 / math.sqrt(count), _LEAST_WHITE) * sum(b.sigma for b in blocks) / count

    def differs_from(self, before: _Place, lag: float, sigmas: float) -> bool:
        """Whether this place has drifted from an earlier one; velocities are older than fixes by `lag`, s."""
        change = self.velocity - before.velocity
        bound = _DRIFT + _PER_WAY * (self.way - before.way) + _PER_CHANGE * abs(change)
        bound += math.sqrt(self.unknown - before.unknown)
        drift = self.beyond - before.beyond - lag * change
        return abs(drift) > bound + sigmas * math.hypot(self.sigma, before.sigma)


class FixDrift:
    """Compares averaged fixes with the velocity of their receiver."""

    def __init__(self) -> None:
        self._blocks: deque[_Block] = deque(maxlen=_KEPT)
        self._reference: _Place | None = None
        """The place before the lasting drift."""
        self._present: _Block | None = None
        self._t_ns, self._velocity, self._turned, self._moved = 0, 0j, 0j, 0j
        self.way = 0.0
        """m: integral of the speed."""
        self._unknown = 0.0
        """m²: variance of that way, as velocities change between fixes."""
        self.beyond = 0j
        """Place of the last fix less the integral of the velocity, east + i north, m."""

    def forget(self) -> None:
        """Forget all earlier fixes."""
        self._blocks.clear()
        self._reference = self._present = None

    @property
    def lasts(self) -> bool:
        """Whether the receiver has drifted and not yet come back."""
        return self._reference is not None

    def take(
        self, t_ns: int, place: complex, apart: complex, velocity: complex, sigma: float, lag: float
    ) -> complex | None:
        """Take a fix (m, with its σ per axis), its difference from the estimate (m), and its velocity (m/s).

        `lag`: by how much the velocity is older than the fix, as far as known, s. If a drift is found,
        returns how far the estimate has followed it, east + i north, m. After a pause the comparison
        restarts.
        """
        dt, found = t_ns - self._t_ns, None
        if 0 < dt < _LONGEST_NS:
            mean, turned = _find_mean(self._velocity, velocity)
            moved = mean * dt * 1e-9
            self._unknown += (_PER_BEND * abs(moved) * abs(turned - self._turned)) ** 2
            self._moved, self._turned = self._moved + moved, turned
            self.way += abs(moved)
        else:
            self.forget()
            self._turned = 0j
        self._t_ns, self._velocity, self.beyond = t_ns, velocity, place - self._moved
        if self._present is not None and t_ns - self._present.begun_ns >= _BLOCK_NS:
            self._blocks.append(self._present)
            self._present, found = None, self._compare(lag)
        block = self._present = self._present or _Block(t_ns, self.way, self._unknown)
        block.beyond += self.beyond
        block.apart += apart
        block.sigma += sigma
        block.count += 1
        block.velocity += velocity
        block.way, block.unknown = self.way, self._unknown
        return found

    def _compare(self, lag: float) -> complex | None:
        blocks = list(self._blocks)
        if len(blocks) < 2 * _MEAN:
            return None
        now, before = _Place(blocks[-_MEAN:]), self._reference or _Place(blocks[:_MEAN])
        if now.sigma < _BETTER * before.sigma:
            self.forget()
            return None
        if not now.differs_from(before, lag, _SIGMAS_BACK if self.lasts else _SIGMAS):
            if self.lasts:
                self._reference = None
                self._blocks.clear()
            return None
        if self.lasts:
            return None
        if abs(now.apart) < abs(before.apart):
            self._blocks.clear()  # the receiver comes back from a drift that was too slow to be noticed
            return None
        self._reference = before
        return (now.beyond - before.beyond) - (now.apart - before.apart)


def _find_mean(before: complex, after: complex) -> tuple[complex, complex]:
    """Mean of a velocity that turns and grows evenly from `before` to `after`, as in a bend.

    Also returns the complex rate of that: relative growth + i times the angle, rad.
    """
    mean = 0.5 * (before + after)
    if min(abs(before), abs(after)) < _SLOWEST:
        return mean, (after - before) / max(abs(mean), _SLOWEST)
    turned = cmath.log(after / before)
    return (mean if abs(turned) < _STRAIGHT else (after - before) / turned), turned
