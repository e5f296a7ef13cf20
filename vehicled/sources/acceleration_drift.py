"""A bias of an accelerometer that drifts: what it adds up to beside the change of the estimated velocity.

v̇_x = a_x − g_x + ω_z v_y and v̇_y = a_y − g_y − ω_z v_x, where a is the specific force and g the share of gravity.
The filter may explain a bias by a slope or a bank; with g by the attitude that gyroscopes add up to, it has to show
as well. The accelerometer goes on being used: its bias is estimated anew.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

Pair = tuple[float, float]
"""Ahead and to the left."""
_SHORTEST, _WINDOW = 0.5, 3.0
"""s between velocities that are compared, at least and at most: within less, filters correct theirs."""
_EVERY, _SLACK = 0.1, 0.001
"""s between those that are kept, and by which they are not even."""
_BOUND = 0.3
"""m/s: bodies that pitch and roll beside the model make half of it."""
_SHARE, _TURNED_SHARE = 0.03, 0.01
"""Of the change of velocity, and of what turning makes of it: errors of scale."""
_SIGMAS = 3.0
"""Of the bias at the beginning, and of what the filter has found of the velocity meanwhile."""
_SLOWEST, _FASTEST_TURN = 4.0, 1.0
"""m/s, and rad/s: where a car spins, the place of the IMU counts."""
_LONGEST = 0.1
"""s: after a longer gap nothing is known of the velocity meanwhile."""
_GOES_ON = 5.0
"""s after it was found, for which the bias may go on changing by as much."""
_NAMED = 0.75
"""m/s²: a bias that has changed by as much is that of no sound sensor."""


class Motion(NamedTuple):
    """What the filter says at a time."""

    velocity: Pair
    """m/s"""
    lean: Pair
    """rad, by how much more the axes have risen by the gyroscopes."""
    bias: Pair
    """m/s²"""


class Spread(NamedTuple):
    """How well the filter knows it."""

    velocity: Pair
    """Variances, m²/s²."""
    bias: Pair
    """Standard deviations, m/s²."""


class _Place(NamedTuple):
    """At a time."""

    t: float
    """s"""
    apart: Pair
    """m/s, by how much the integral is ahead of the velocity,"""
    apart_by_gyroscopes: Pair
    """and by the attitude that gyroscopes add up to."""
    turned: Pair
    """m/s, what turning has added."""
    motion: Motion
    spread: Spread


class AccelerationDrift:
    """Compares the accelerations ahead and to the left with the estimated velocity."""

    def __init__(self, gravity: float) -> None:
        """`gravity`: m/s²."""
        self._gravity = gravity
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._t = -math.inf
        self._gained = self._lifted = self._turned = 0.0, 0.0
        """m/s, sums of accelerations, of gravity by the lean, and of what turning adds."""
        self._places: deque[_Place] = deque()
        self._is_beyond = [False, False]
        """Whether the last comparison was beyond what is usual: once alone is noise."""
        self._until = [-math.inf, -math.inf]
        """s, until when the bias may go on changing;"""
        self._density = [0.0, 0.0]
        """m²/s⁵, by which its variance grows meanwhile,"""
        self._before = [0.0, 0.0]
        """and what it was before, m/s²."""

    def take(self, means: Sequence[float], motion: Motion) -> bool:
        """Time (s), yaw rate (rad/s), accelerations ahead and to the left (m/s²), as means of a moment.

        These are less the gravity by the filter's attitude. Returns whether a comparison is due.
        """
        t, yaw_rate, ahead, left = means
        dt, self._t = t - self._t, t
        vx, vy = motion.velocity
        if abs(vx) < _SLOWEST or abs(yaw_rate) > _FASTEST_TURN or not 0.0 < dt < _LONGEST:
            self._places.clear()
            return False
        (x, y), (slope, bank) = self._gained, motion.lean
        self._gained = x + dt * ahead, y + dt * left
        x, y = self._lifted
        self._lifted = x + dt * self._gravity * slope, y + dt * self._gravity * bank
        x, y = self._turned
        self._turned = x + dt * yaw_rate * vy, y - dt * yaw_rate * vx
        return not self._places or t - self._places[-1].t > _EVERY - _SLACK

    def compare(self, motion: Motion, spread: Spread) -> Pair:
        """Compare the velocity at that time with those before: variances to be added to the biases, m²/s⁴."""
        kept, t = self._places, self._t
        since = t - kept[-1].t if kept else 0.0
        apart = [a + b - v for a, b, v in zip(self._gained, self._turned, motion.velocity, strict=True)]
        by_gyroscopes = apart[0] - self._lifted[0], apart[1] - self._lifted[1]
        now = _Place(t, (apart[0], apart[1]), by_gyroscopes, self._turned, motion, spread)
        added = [since * d if t < until else 0.0 for d, until in zip(self._density, self._until, strict=True)]
        is_new = False
        for k in (0, 1):
            rate, within = self._find(now, k)
            is_beyond, self._is_beyond[k] = self._is_beyond[k], rate != 0.0
            if not (is_beyond and rate):
                continue
            is_new = True
            added[k] += rate * rate
            if t > self._until[k]:
                self._before[k] = motion.bias[k]
            self._until[k], self._density[k] = t + _GOES_ON, rate * rate / within
        if is_new:  # it counts once
            kept.clear()
        kept.append(now)
        while t - kept[0].t > _WINDOW:
            kept.popleft()
        return added[0], added[1]

    def has_changed(self, bias: Pair) -> bool:
        """Whether one of the biases is taken to be changing, and has done so by more than a sound sensor's."""
        return any(
            self._t < until and abs(b - before) > _NAMED
            for b, before, until in zip(bias, self._before, self._until, strict=True)
        )

    def _find(self, now: _Place, k: int) -> Pair:
        """By how much a bias seems to have changed, m/s², and within which time, s; zeros where that is usual."""
        most, found = 0.0, (0.0, 0.0)
        for place in self._places:
            dt = now.t - place.t
            by_bias = place.motion.bias[k] * dt
            gained = now.apart[k] - place.apart[k] - by_bias
            if dt < _SHORTEST or abs(gained) < _BOUND:
                continue
            other = now.apart_by_gyroscopes[k] - place.apart_by_gyroscopes[k] - by_bias
            least = min(abs(gained), abs(other)) if gained * other > 0.0 else 0.0
            corrected = max(place.spread.velocity[k] - now.spread.velocity[k], 0.0)
            usual = (
                _BOUND
                + _SHARE * abs(now.motion.velocity[k] - place.motion.velocity[k])
                + _TURNED_SHARE * abs(now.turned[k] - place.turned[k])
                + _SIGMAS * (place.spread.bias[k] * dt + math.sqrt(corrected))
            )
            if least - usual > most:
                most, found = least - usual, (math.copysign(least, gained) / dt, dt)
        return found
