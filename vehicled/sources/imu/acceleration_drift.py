"""A drifting bias of an accelerometer: its integral, compared with the change of the estimated velocity.

In complex numbers, forward real and left imaginary, the velocity v of a car with yaw rate ω changes by v̇ = a
− g − i ω v, where a is the specific force and g the component of gravity. The filter may explain a bias by a
rising or banked road. So the bias also has to show with two other values of g: by the attitude from
integrated gyroscopes, and by a road that continues unchanged. The accelerometer stays in use: its bias is
estimated anew.
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
"""Least and longest time between compared velocities, s: over shorter times, filters correct their
velocity."""
_EVERY, _SLACK = 0.1, 0.001
"""Time between kept velocities, s, and its unevenness, s."""
_BOUND, _PER_SECOND = 0.2, 0.1
"""m/s, and m/s²: pitch and roll of bodies in addition to the model's cause half of it."""
_SHARE, _TURNED_SHARE = 0.03, 0.01
"""Share of the change of velocity, and share of that due to turning: errors of scale."""
_SIGMAS = 3.0
"""Number of standard deviations: of the bias at the beginning, and of the filter's corrections of the
velocity meanwhile."""
_SLOWEST, _FASTEST_TURN = 4.0, 1.0
"""m/s, and rad/s: in a faster turn, the place of the IMU matters."""
_LONGEST = 0.1
"""s: after a longer gap the change of velocity is unknown."""
_SET = 0.3
"""m/s²: a bias that changes by more from one time to the next has been reset."""
_GOES_ON = 5.0
"""Time, s, after a drift was found for which the bias may go on changing at that rate."""
_NAMED = 0.75
"""m/s²: change of a bias that no sound sensor has."""
_DIRECTIONS = attrgetter("real"), attrgetter("imag")


class CarMotion(NamedTuple):
    """Estimate of the filter at a time."""

    velocity: complex
    """m/s"""
    heading: float
    """rad"""
    normal: complex
    """Horizontal components of the road's normal, world axes."""
    lean: complex
    """rad: additional rise of the car's axes by the gyroscopes."""
    bias: complex
    """m/s²"""


class Spread(NamedTuple):
    """Uncertainty of that estimate."""

    velocity: Pair
    """Variances, m²/s²."""
    bias: Pair
    """Standard deviations, m/s²."""


class _Sums(NamedTuple):
    """Integrals up to a time of all that changes the velocity, m/s."""

    gained: complex = 0j
    """Accelerations, less gravity by the filter's attitude."""
    turned: complex = 0j
    """Turning."""
    lifted: complex = 0j
    """Gravity due to the lean."""
    by_road: complex = 0j
    """Gravity along the road,"""
    per_normal: complex = 0j
    """and the same per horizontal component of its normal."""


class _Place(NamedTuple):
    """Values at a time."""

    t: float
    """s"""
    apart: complex
    """m/s: integrals less the estimated velocity."""
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
        """Whether the last comparison exceeded the usual difference: a single such one is noise."""
        self._until = [-math.inf, -math.inf]
        """Time, s, until which the bias may go on changing;"""
        self._density = [0.0, 0.0]
        """m²/s⁵: growth of its variance until then;"""
        self._before = 0j
        """and its value before, m/s²."""

    def interrupt(self) -> None:
        """Forget earlier velocities: later ones are not compared with them."""
        self._places.clear()

    def take(self, means: Sequence[float], motion: CarMotion) -> bool:
        """Take means of time (s), yaw rate (rad/s), forward and lateral acceleration (m/s²).

        Gravity by the filter's attitude is subtracted from the accelerations. Returns whether a comparison is
        due.
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
        """Compare the present velocity with earlier ones. Returns variances to be added to the biases, m²/s⁴."""
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
            self.note(k, rate, within, motion.bias)
        if is_new:  # it counts once
            kept.clear()
        kept.append(now)
        while t - kept[0].t > _WINDOW:
            kept.popleft()
        return added[0], added[1]

    def note(self, axis: int, rate: float, within: float, bias: complex) -> None:
        """Note that the bias of an axis (0: ahead) has changed by `rate`, m/s², in `within` s; `bias`: estimated."""
        if not self.is_changing:
            self._before = bias
        self._until[axis], self._density[axis] = self._t + _GOES_ON, rate * rate / within

    @property
    def is_changing(self) -> bool:
        """Whether a bias is assumed to be changing."""
        return self._t < max(self._until)

    def has_changed(self, bias: complex) -> bool:
        """Whether a bias is changing, and has changed by more than that of a sound sensor."""
        return self.is_changing and abs(bias - self._before) > _NAMED

    def _find(self, now: _Place, k: int) -> Pair:
        """Apparent change of a bias, m/s², and its duration, s; zeros if the difference is usual."""
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
