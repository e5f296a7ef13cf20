"""Fixes that drift from the receiver's own velocity within seconds, by less than single ones show.

Velocities are by Doppler shifts: where buildings reflect signals, they stay right to centimetres per second while
positions go off by metres. Averages over seconds are compared with what the velocity adds up to.
"""

from __future__ import annotations

import cmath
import math
from collections import deque
from dataclasses import dataclass

_BLOCK_NS = 1_000_000_000
"""Over which fixes are averaged."""
_MEAN, _KEPT = 2, 8
"""Averages that make a place, and those that are kept."""
_LONGEST_NS = 1_200_000_000
"""Between two velocities that are added up: those of receivers with a fix per second are."""
_DRIFT, _PER_WAY, _PER_CHANGE = 0.3, 0.003, 0.05
"""m, share of the way, and s, times the change of velocity (velocities may be smoothed by so much more than fixes):
what velocities add up to is right within that."""
_PER_BEND = 1.0 / 6.0
"""Of the way between two fixes, times the change of the angle that it turns by: it is known within that, where a bend
begins between them."""
_SLOWEST = 0.5
"""m/s: faster, velocities turn from one to the next; slower, they change along a line."""
_STRAIGHT = 1e-3
"""Of a turn and a relative change of speed, below which rounding would show."""
_SIGMAS, _SIGMAS_BACK, _LEAST_WHITE = 5.0, 2.5, 0.25
"""Of an average: from which on it has drifted, and up to which it is back. And its least σ as a share of that of a
fix: part of that wanders slowly."""
_BETTER = 1.0 / 3.0
"""Share of the σ of fixes before, from which down on it is they that were off: a receiver that has just fixed its
ambiguities leaves a place that it had without them."""


@dataclass
class _Block:
    """Sums over the fixes of a second, east and north; means once it is complete."""

    begun_ns: int
    way: float
    """m: that the velocity adds up to by its end."""
    unknown: float
    """m²: variance of that, as velocities change between fixes."""
    velocity: complex = 0j
    """m/s"""
    beyond: complex = 0j
    """Places less what the velocity adds up to, m."""
    apart: complex = 0j
    """Of places from the estimate, m."""
    sigma: float = 0.0
    count: int = 0


class _Place:
    """Of some blocks."""

    def __init__(self, blocks: list[_Block]) -> None:
        count = sum(b.count for b in blocks)
        self.beyond = sum(b.beyond for b in blocks) / count
        self.apart = sum(b.apart for b in blocks) / count
        self.velocity = sum(b.velocity for b in blocks) / count
        self.way, self.unknown = blocks[-1].way, blocks[-1].unknown
        self.sigma = max(1.0 / math.sqrt(count), _LEAST_WHITE) * sum(b.sigma for b in blocks) / count

    def differs_from(self, before: _Place, lag: float, sigmas: float) -> bool:
        """Whether the place has drifted since, beside velocities that are older than fixes by `lag`, s."""
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
        """Before the drift that lasts."""
        self._present: _Block | None = None
        self._t_ns, self._velocity, self._turned, self._moved = 0, 0j, 0j, 0j
        self.way = 0.0
        """m: that the velocity adds up to."""
        self._unknown = 0.0
        """m²: variance of that, as velocities change between fixes."""
        self.beyond = 0j
        """Place of the last fix less what the velocity adds up to, east and north, m."""

    def forget(self) -> None:
        """Nothing is known of the fixes before."""
        self._blocks.clear()
        self._reference = self._present = None

    @property
    def lasts(self) -> bool:
        """Whether the receiver has drifted, and not come back."""
        return self._reference is not None

    def take(
        self, t_ns: int, place: complex, apart: complex, velocity: complex, sigma: float, lag: float
    ) -> complex | None:
        """A fix (m, 1 σ per axis), its distance from the estimate, and the velocity that came with it, m/s.

        `lag`: by how much that velocity is older than the fix, as far as that is known, s.
        Where a drift shows: how far the estimate has followed it, east and north, m. After a pause all begins anew.
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
            self._blocks.clear()  # it comes back from a drift that was too slow to be noticed
            return None
        self._reference = before
        return (now.beyond - before.beyond) - (now.apart - before.apart)


def _find_mean(before: complex, after: complex) -> tuple[complex, complex]:
    """Of a velocity that turns and grows evenly from one to the other, as in a bend.

    And by what: i times the angle, rad, and the relative growth.
    """
    mean = 0.5 * (before + after)
    if min(abs(before), abs(after)) < _SLOWEST:
        return mean, (after - before) / max(abs(mean), _SLOWEST)
    turned = cmath.log(after / before)
    return (mean if abs(turned) < _STRAIGHT else (after - before) / turned), turned
