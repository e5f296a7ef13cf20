"""A bias of an accelerometer that drifts: what it adds up to beside the change of the estimated velocity.

With what is ahead as the real part, and what is to the left as the imaginary one, the velocity v of a car that turns
at ω changes by v̇ = a − g − i ω v, where a is the specific force and g the share of gravity along it. The filter may
explain a bias by a road that rises or banks. So it has to show with two other values of g as well: that of the
attitude which gyroscopes add up to, and that of a road which goes on as it was. The accelerometer goes on being used:
its bias is estimated anew.
"""

from __future__ import annotations

import cmath
import math
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from vehicled.sources.imu.inertial_attitude import CERTAIN

Pair = tuple[float, float]
"""Ahead and to the left."""
_SHORTEST, _WINDOW = 0.5, 3.0
"""s between velocities that are compared, at least and at most: within less, filters correct theirs."""
_EVERY, _SLACK = 0.1, 0.001
"""s between those that are kept, and by which they are not even."""
_BOUND, _PER_SECOND = 0.2, 0.1
"""m/s, and m/s²: bodies that pitch and roll beside the model make half of it."""
_SHARE, _TURNED_SHARE = 0.03, 0.01
"""Of the change of velocity, and of what turning makes of it: errors of scale."""
_SIGMAS = 3.0
"""Of the bias at the beginning, and of what the filter has found of the velocity meanwhile."""
_SLOWEST, _FASTEST_TURN = 4.0, 1.0
"""m/s, and rad/s: where a car spins, the place of the IMU counts."""
_LONGEST = 0.1
"""s: after a longer gap nothing is known of the velocity meanwhile."""
_SET = 0.3
"""m/s²: a bias that changes by more from one moment to the next has been set anew."""
_GOES_ON = 5.0
"""s after it was found, for which the bias may go on changing by as much."""
_NAMED = 0.75
"""m/s²: a bias that has changed by as much is that of no sound sensor."""
_DIRECTIONS = attrgetter("real"), attrgetter("imag")


class CarMotion(NamedTuple):
    """What the filter says at a time."""

    velocity: complex
    """m/s"""
    heading: float
    """rad"""
    normal: complex
    """Of the road, its horizontal components in the world's axes."""
    lean: complex
    """rad, by how much more the car's axes have risen by the gyroscopes."""
    bias: complex
    """m/s²"""


class Spread(NamedTuple):
    """How well the filter knows it."""

    velocity: Pair
    """Variances, m²/s²."""
    bias: Pair
    """Standard deviations, m/s²."""


class _Sums(NamedTuple):
    """Until a time, of all that changes the velocity, m/s."""

    gained: complex = 0j
    """By accelerations, without gravity by the filter's attitude."""
    turned: complex = 0j
    """By turning."""
    lifted: complex = 0j
    """By gravity along the lean."""
    by_road: complex = 0j
    """By gravity along the road,"""
    per_normal: complex = 0j
    """and per horizontal component of its normal."""


class _Place(NamedTuple):
    """At a time."""

    t: float
    """s"""
    apart: complex
    """m/s, by how much the sums are ahead of the velocity."""
    sums: _Sums
    motion: CarMotion
    spread: Spread


class AccelerationDrift:
    """Compares the accelerations ahead and to the left with the estimated velocity."""

    def __init__(self, gravity: float) -> None:
        """`gravity`: m/s²."""
        self._gravity = gravity
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._t, self._bias = -math.inf, 0j
        self._sums = _Sums()
        self._places: deque[_Place] = deque()
        self._is_beyond = [False, False]
        """Whether the last comparison was beyond what is usual: once alone is noise."""
        self._until = [-math.inf, -math.inf]
        """s, until when the bias may go on changing;"""
        self._density = [0.0, 0.0]
        """m²/s⁵, by which its variance grows meanwhile,"""
        self._before = 0j
        """and what it was before, m/s²."""

    def interrupt(self) -> None:
        """What comes is not to be compared with what was before."""
        self._places.clear()

    def take(self, means: Sequence[float], motion: CarMotion) -> bool:
        """Time (s), yaw rate (rad/s), accelerations ahead and to the left (m/s²), as means of a moment.

        These are less the gravity by the filter's attitude. Returns whether a comparison is due.
        """
        t, yaw_rate, ahead, left = means
        dt, self._t = t - self._t, t
        is_set, self._bias = abs(motion.bias - self._bias) > _SET, motion.bias
        is_usual = motion.velocity.real > _SLOWEST and abs(yaw_rate) < _FASTEST_TURN and 0.0 < dt < _LONGEST
        if is_set or not is_usual:
            self.interrupt()
            return False
        gained, turned, lifted, by_road, per_normal = self._sums
        pull = dt * self._gravity
        along = pull * cmath.rect(1.0, -motion.heading)
        self._sums = _Sums(
            gained + dt * complex(ahead, left),
            turned - dt * yaw_rate * 1j * motion.velocity,
            lifted + pull * motion.lean,
            by_road - along * motion.normal,
            per_normal - along,
        )
        return not self._places or t - self._places[-1].t > _EVERY - _SLACK

    def compare(self, motion: CarMotion, spread: Spread) -> Pair:
        """Compare the velocity at that time with those before: variances to be added to the biases, m²/s⁴."""
        if max(spread.velocity) > CERTAIN * CERTAIN:
            self.interrupt()
        kept, t, sums = self._places, self._t, self._sums
        since = t - kept[-1].t if kept else 0.0
        now = _Place(t, sums.gained + sums.turned - motion.velocity, sums, motion, spread)
        added = [since * d if t < until else 0.0 for d, until in zip(self._density, self._until, strict=True)]
        found = [self._find(now, k) for k in (0, 1)]
        is_new = False
        for k, (rate, within) in enumerate(found):
            is_beyond, self._is_beyond[k] = self._is_beyond[k], rate != 0.0
            if not (is_beyond and rate):
                continue
            is_new = True
            added[k] += rate * rate
            if t > max(self._until):
                self._before = motion.bias
            self._until[k], self._density[k] = t + _GOES_ON, rate * rate / within
        if is_new:  # it counts once
            kept.clear()
        kept.append(now)
        while t - kept[0].t > _WINDOW:
            kept.popleft()
        return added[0], added[1]

    @property
    def is_changing(self) -> bool:
        """Whether a bias is taken to be changing."""
        return self._t < max(self._until)

    def has_changed(self, bias: complex) -> bool:
        """Whether one is, and has done so by more than that of a sound sensor."""
        return self.is_changing and abs(bias - self._before) > _NAMED

    def _find(self, now: _Place, k: int) -> Pair:
        """By how much a bias seems to have changed, m/s², and within which time, s; zeros where that is usual."""
        part = _DIRECTIONS[k]
        most, found = 0.0, (0.0, 0.0)
        for place in self._places:
            dt, sums, before = now.t - place.t, now.sums, place.sums
            gained = now.apart - place.apart - place.motion.bias * dt
            by_gyroscopes = part(gained - (sums.lifted - before.lifted))
            if dt < _SHORTEST or abs(by_gyroscopes) < _BOUND:
                continue
            by_road, per_normal = sums.by_road - before.by_road, sums.per_normal - before.per_normal
            on_old_road = part(gained + by_road - place.motion.normal * per_normal)
            if by_gyroscopes * on_old_road < 0.0:
                continue
            corrected = max(place.spread.velocity[k] - now.spread.velocity[k], 0.0)
            usual = (
                _BOUND
                + _PER_SECOND * dt
                + _SHARE * abs(part(now.motion.velocity - place.motion.velocity))
                + _TURNED_SHARE * abs(part(sums.turned - before.turned))
                + _SIGMAS * (place.spread.bias[k] * dt + math.sqrt(corrected))
            )
            least = min(abs(by_gyroscopes), abs(on_old_road))
            if least - usual > most:
                most, found = least - usual, (math.copysign(least, by_gyroscopes) / dt, dt)
        return found
