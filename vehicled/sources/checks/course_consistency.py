"""A bias of the gyroscope that jumps: its angle against the course over ground, which differs by sideslip only.

Sideslip of a car that does not skid follows its yaw rate, and so do errors of latency; the scale of the gyroscope
errs by a share of the angle, and its bias by what the filter does not know of it. What is beyond that within seconds
is a bias that has jumped or drifts. It shows soonest beside a course at which the car turned as fast as now. The
gyroscope goes on being used: its bias is estimated anew.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from vehicled.maths.angles import wrap
from vehicled.messages import Measurement
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import GYROSCOPES, Imu

WATCHED = frozenset(("gnss.course", GYROSCOPES[2]))
"""Channels that it reads."""
_WINDOW, _COMPARED_EVERY = 6.0, 0.1
"""s until when courses are compared with those before, and between those that are."""
_SKID = 2.0
"""s after a skid in which nothing is found."""
_BOUND, _SHARE = 0.03, 0.03
"""rad, and of the angle."""
_AGREEING = 0.5
"""Share of these up to which both agree."""
_SIGMAS = 4.0 * math.sqrt(2.0)
"""Standard deviations of a course by which the difference of two of them may err."""
_BIAS_SIGMAS = 3.0
"""Likewise of the bias."""
_LATENCY, _REAR, _SLIP = 0.12, 1.5, 0.006
"""By how much course and heading differ per change of the yaw rate: s of latency between the two; m from the vehicle
origin to the rear axle, along which a car goes without slip; rad of slip there per m/s² of lateral acceleration."""
_EVERY, _MEMORY = 0.02, 0.6
"""s between the angles that are kept for courses, which come late, and for how long."""
_SLOWEST = 6.0
"""m/s"""
_LARGEST_LATERAL = 8.0
"""m/s²: of lateral acceleration; beyond it a car may skid."""
_SETTLING = 0.5
"""s after that in which it may still slide back, and courses that come late be those of the skid."""
_LONGEST = 0.2
"""s: after a longer gap nothing is known of the angle meanwhile."""
_SLACK = 0.001
"""s by which courses are not even."""
_SILENT = 0.1
"""s: a course is compared with a sample of the gyroscope that is at most so much older."""


class BiasJump(NamedTuple):
    """What the gyroscope has done."""

    angle: float
    """rad, by which it has turned more than the course, beyond what the bias at the beginning explains."""
    within: float
    """s, in which it has."""
    followed: float
    """rad, the part of that which the filter has followed: its bias, as estimated meanwhile, does not explain it."""

    @property
    def rate(self) -> float:
        """rad/s, by which its bias has changed, at least."""
        return self.angle / self.within


class _Place(NamedTuple):
    """Of a course."""

    t: float
    """s"""
    apart: float
    """rad, by how much the gyroscope is ahead of it."""
    free: float
    """rad, likewise less the biases meanwhile."""
    angle: float
    """rad, by the gyroscope."""
    rate: float
    """rad/s"""
    bias: float
    """rad/s"""
    sigma: float
    """Of the bias, rad/s."""


class CourseConsistency:
    """Compares the gyroscope with the course over ground."""

    def __init__(self, imu: Imu | None, gnss: Gnss | None) -> None:
        self.configure(imu, gnss)
        self.reset()

    def configure(self, imu: Imu | None, gnss: Gnss | None) -> None:
        """Other settings, also while running."""
        self._gnss = gnss or Gnss()
        self._axis = None if imu is None else imu.R_imu_vehicle[:, 2].tolist()

    def reset(self) -> None:
        """The filter begins anew."""
        self._t, self._angle, self._biased = -math.inf, 0.0, 0.0
        self._bias, self._sigma = 0.0, 0.0
        """Of the filter, about the vertical axis, rad/s; and its standard deviation."""
        self._angles: deque[tuple[float, float, float, float]] = deque()
        """Time, s; angle by the gyroscope, rad, and what the bias makes of it; and its rate, rad/s."""
        self._places: deque[_Place] = deque()
        self._skidded = -math.inf
        """Time of the last lateral acceleration beyond which a car may skid, s."""
        self._again = -math.inf
        """Before that time, s, nothing is found."""
        self.agrees = True
        """Whether the gyroscope differed from the last course by so little that its bias is what it was."""
        self._is_beyond = False
        """Whether the gyroscope differed from the last course by more than usual: once alone is noise."""

    def begin_anew(self) -> None:
        """What has been found counts once."""
        self._places.clear()
        self._is_beyond = False

    def forget(self) -> None:
        """The car skids: courses until now are no measure of the gyroscope."""
        self.begin_anew()
        self._again = self._t + _SKID

    def set_bias(self, bias: Sequence[float], sigma: float) -> None:
        """The filter's biases of the gyroscopes (3,), IMU axes, and the standard deviation of the last one, rad/s."""
        if self._axis is not None:
            self._bias, self._sigma = sum(map(mul, self._axis, bias)), sigma

    def take(
        self, m: Measurement, ahead: float, excess: float = 0.0, slides: bool = False
    ) -> BiasJump | None:
        """The jump that a measurement shows.

        `ahead`: speed, m/s; `excess`: by how much the gyroscope seems to turn faster than the car, by other sensors
        than the course, rad/s; `slides`: whether tyres slide, as they do on snow at much less lateral acceleration.
        """
        t, values = m.t * 1e-9, m.values
        if self._axis is None:
            return None
        if GYROSCOPES[2] in values:
            (a, b, c), (x, y, z) = self._axis, GYROSCOPES
            rate = a * values.get(x, 0.0) + b * values.get(y, 0.0) + c * values[z]
            self._turn(t, rate, ahead, excess, slides)
        if "gnss.course" not in values or ahead < _SLOWEST:
            return None
        noise = values.get("gnss.s_acc") or self._gnss.find_noise(values.get("gnss.quality", 1.0)).velocity
        return self._compare(t, values["gnss.course"], noise, ahead)

    def _turn(self, t: float, rate: float, ahead: float, excess: float, slides: bool) -> None:
        dt, self._t = t - self._t, t
        if slides or abs(ahead * (rate - excess)) > _LARGEST_LATERAL:
            self._skidded = t
        if ahead < _SLOWEST or t - self._skidded < _SETTLING or not 0.0 < dt < _LONGEST:
            self._angles.clear()
            self._places.clear()
            return
        self._angle += dt * rate
        self._biased += dt * self._bias
        kept = self._angles
        if not kept or t - kept[-1][0] >= _EVERY:
            kept.append((t, self._angle, self._biased, rate))
            if t - kept[0][0] > _MEMORY:
                kept.popleft()

    def _compare(self, t: float, course: float, noise: float, ahead: float) -> BiasJump | None:
        """`noise` of the receiver's velocity, m/s."""
        kept = self._places
        if kept and t - kept[-1].t < _COMPARED_EVERY - _SLACK:
            return None
        at = next((place for place in reversed(self._angles) if place[0] <= t), None)
        if at is None:
            return None
        measured, angle, biased, rate = at
        if t - measured > _SILENT:
            kept.clear()
            return None
        apart = angle + course
        if kept:
            apart = kept[-1].apart + float(wrap(apart - kept[-1].apart))
        now = _Place(t, apart, apart - biased, angle, rate, self._bias, self._sigma)
        bound = max(_BOUND, _SIGMAS * noise / ahead)
        per_rate, most, since = _LATENCY + max(_REAR / ahead, _SLIP * ahead), -math.inf, now
        for place in kept:
            dt = t - place.t
            gained = apart - place.apart - place.bias * dt
            usual = _SHARE * abs(angle - place.angle) + per_rate * abs(rate - place.rate)
            beyond = abs(gained) - usual - _BIAS_SIGMAS * place.sigma * dt
            if beyond > most:
                most, since = beyond, place
        kept.append(now)
        while t - kept[0].t > _WINDOW:
            kept.popleft()
        lasts, self._is_beyond = self._is_beyond, most > bound
        self.agrees = most < _AGREEING * bound
        if not (lasts and self._is_beyond and t > self._again):
            return None
        dt = t - since.t
        return BiasJump(apart - since.apart - since.bias * dt, dt, now.free - since.free)
