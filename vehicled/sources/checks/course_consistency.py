"""Jumps of the gyroscope's bias: its angle compared with the course over ground, which differs by sideslip only.

Without a skid, the sideslip depends on the yaw rate, and so do errors of latency; a high antenna sways as the
body rolls; an error of the gyroscope's scale is a share of the angle, and the error of its bias is within the
filter's σ. A larger difference within seconds is a bias that has jumped or drifts. It shows soonest against a
course at which the car turned as fast as now. The gyroscope stays in use: its bias is estimated anew.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from vehicled.maths.angles import wrap
from vehicled.messages import Measurement
from vehicled.sources.checks.bias_jump import BiasJump
from vehicled.sources.checks.course_latency import CourseLatency
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import GYROSCOPES, Imu
from vehicled.vehicle.sideslip import SteadySideslip

WATCHED = frozenset(("gnss.course", GYROSCOPES[2]))
"""Channels that it reads."""
_NO_RATES = (0.0, 0.0, 0.0)
_WINDOW, _COMPARED_EVERY = 6.0, 0.1
"""s: longest time between courses that are compared, and shortest time between those that are kept."""
_SKID = 2.0
"""Time after a skid, s, for which no jump is reported."""
_BOUND, _SHARE = 0.03, 0.03
"""Usual difference: rad, and share of the angle."""
_LARGE = 2.0
"""Multiple of that difference from which it is large."""
_AGREEING = 0.5
"""Share of the bound up to which gyroscope and course agree."""
_SIGMAS, _DOUBTED_SIGMAS = 4.0, 3.0
"""Standard deviations by which the difference of two courses may be wrong, and by which the largest of many
differences usually is."""
_BIAS_SIGMAS = 3.0
"""Standard deviations by which the bias may be wrong."""
_OTHER_SLIP = 0.5
"""Share of the sideslip of a steady turn, by distance of the rear axle or by slip, by which it may be otherwise."""
_EVERY, _MEMORY = 0.02, 0.6
"""s: spacing of the angles that are kept for late courses, and how long they are kept."""
_SLOWEST = 6.0
"""m/s"""
_LARGEST_LATERAL = 8.0
"""m/s²: lateral acceleration above which a car may skid."""
_SETTLING = 0.5
"""Time after such an acceleration, s, for which the car may still slide, or late courses may be those of the
skid."""
_LONGEST = 0.2
"""s: after a longer gap the angle turned meanwhile is unknown."""
_SLACK = 0.001
"""s: unevenness of the times of courses."""
_SILENT = 0.1
"""s: longest age of the gyroscope's sample that a course is compared with."""


class _Place(NamedTuple):
    """What belongs to one course."""

    t: float
    """s"""
    apart: float
    """rad: angle of the gyroscope less that of the course, and less the usual sideslip."""
    free: float
    """rad: the same, with the gyroscope's angle less the estimated bias."""
    angle: float
    """rad: angle of the gyroscope."""
    rate: float
    """rad/s"""
    slip: float
    """s: sideslip per yaw rate at that speed."""
    bias: float
    """rad/s"""
    sigma: float
    """1 σ of the bias, rad/s."""
    noise: float
    """1 σ of the course, rad: the slower the car, the larger."""
    late: float
    """s: latency that the course was taken to have."""


class CourseConsistency:
    """Compares the gyroscope with the course over ground."""

    def __init__(self, imu: Imu | None, gnss: Gnss | None, steady: SteadySideslip) -> None:
        self._steady = steady
        self.configure(imu, gnss)
        self.reset()

    def configure(self, imu: Imu | None, gnss: Gnss | None) -> None:
        """Take settings, also while running."""
        self._gnss = gnss or Gnss()
        self._at_antenna = self._steady._replace(rear=self._steady.rear + self._gnss.antenna[0])
        self._axes = None if imu is None else imu.R_imu_vehicle[:, ::2].T.tolist()
        """The car's forward and upward axis, IMU axes."""

    def reset(self) -> None:
        """Restart, as the filter does."""
        self._t, self._angle, self._biased = -math.inf, 0.0, 0.0
        self.latency = CourseLatency()
        self.bias, self._sigma = 0.0, math.inf
        """The filter's bias about the vertical axis, rad/s, and its standard deviation, infinite until given."""
        self._angles: deque[tuple[float, float, float, float, float]] = deque()
        """Time, s; angle of the gyroscope, rad; the part of it due to the bias, rad; yaw and roll rate, rad/s."""
        self._places: deque[_Place] = deque()
        self._skidded = -math.inf
        """Time, s, at which the car last may have skidded."""
        self._again = -math.inf
        """No jump is reported before this time, s."""
        self.agrees = True
        """Whether the gyroscope agreed with the last course so well that its bias has not changed."""
        self.apart = 0.0
        """rad: difference of gyroscope and course beyond what is usual and what noise explains."""
        self._is_beyond = False
        """Whether the gyroscope differed from the last course by more than the bound: a single such
        difference is noise."""

    def begin_anew(self) -> None:
        """Forget courses, so that what has been found counts only once."""
        self._forget_places()
        self._is_beyond = False

    def _forget_places(self) -> None:
        self._places.clear()
        self.apart = 0.0

    def forget(self) -> None:
        """Forget courses for a while: in a skid they do not show how the car turns."""
        self.begin_anew()
        self._again = self._t + _SKID

    def set_bias(self, bias: Sequence[float], sigma: float) -> None:
        """`bias`: the filter's, of the gyroscopes (3,), IMU axes; `sigma`: of the last one's; rad/s."""
        if self._axes is not None:
            self.bias, self._sigma = sum(map(mul, self._axes[1], bias)), sigma

    def take(
        self, m: Measurement, ahead: float, excess: float = 0.0, slides: bool = False
    ) -> BiasJump | None:
        """Find the jump that a measurement shows; None without one.

        `ahead`: speed, m/s; `excess`: error of the gyroscope's yaw rate as shown by other sensors than the
        course, rad/s; `slides`: whether tyres slide, as they do on snow at much less lateral acceleration.
        """
        t, values = m.t * 1e-9, m.values
        if self._axes is None:
            return None
        if GYROSCOPES[2] in values:
            rates = tuple(map(values.get, GYROSCOPES, _NO_RATES))
            self._turn(t, rates, self._axes, ahead, excess, slides)
        if "gnss.course" not in values or ahead < _SLOWEST:
            return None
        kind = self._gnss.find_noise(values.get("gnss.quality", 1.0), values.get("gnss.hdop", 1.0))
        noise = values.get("gnss.s_acc") or kind.velocity
        return self._compare(t, values["gnss.course"], noise, ahead)

    def _turn(
        self,
        t: float,
        rates: Sequence[float],
        axes: Sequence[Sequence[float]],
        ahead: float,
        excess: float,
        slides: bool,
    ) -> None:
        forward, upward = axes
        rate = sum(map(mul, upward, rates))
        dt, self._t = t - self._t, t
        if slides or abs(ahead * (rate - excess)) > _LARGEST_LATERAL:
            self._skidded = t
        if ahead < _SLOWEST or t - self._skidded < _SETTLING or not 0.0 < dt < _LONGEST:
            self._angles.clear()
            self._forget_places()
            return
        self._angle += dt * rate
        self._biased += dt * self.bias
        kept = self._angles
        if not kept or t - kept[-1][0] >= _EVERY:
            kept.append((t, self._angle, self._biased, rate, sum(map(mul, forward, rates))))
            if t - kept[0][0] > _MEMORY:
                kept.popleft()

    def _compare(self, t: float, course: float, noise: float, ahead: float) -> BiasJump | None:
        """`noise` of the receiver's velocity, m/s."""
        kept = self._places
        late = self._gnss.latency + self.latency.late
        t -= late
        if kept and t - kept[-1].t < _COMPARED_EVERY - _SLACK:
            return None
        at = next((place for place in reversed(self._angles) if place[0] <= t), None)
        if at is None:
            return None
        measured, angle, biased, rate, rolling = at
        if t - measured > _SILENT:
            self._forget_places()
            return None
        slip = self._at_antenna.calc_per_rate(ahead)
        # A roll to the right moves the antenna to the right.
        apart = angle + course + slip * rate - self._gnss.antenna[2] * rolling / ahead
        if kept:
            apart = kept[-1].apart + float(wrap(apart - kept[-1].apart))
        now = _Place(t, apart, apart - biased, angle, rate, slip, self.bias, self._sigma, noise / ahead, late)
        per_rate = self.latency.unknown + _OTHER_SLIP * self._at_antenna.calc_largest_part(ahead)
        most, since, steepest = -math.inf, now, 0.0
        for place in kept:
            dt = t - place.t
            gained = apart - place.apart - place.bias * dt
            usual = _SHARE * abs(angle - place.angle) + per_rate * abs(rate - place.rate)
            usual += (_OTHER_SLIP * abs(slip - place.slip) + abs(late - place.late)) * abs(place.rate)
            beyond = abs(gained) - usual - _BIAS_SIGMAS * place.sigma * dt
            bound = _calc_bound(now, place)
            if beyond > most * bound:
                most, since = beyond / bound, place
            if beyond > _AGREEING * bound and beyond > steepest * dt:
                steepest = beyond / dt
        kept.append(now)
        while t - kept[0].t > _WINDOW:
            kept.popleft()
        lasts, self._is_beyond = self._is_beyond, most > 1.0
        self.agrees = most < _AGREEING
        followed, bound = now.free - since.free, _calc_bound(now, since)
        by_noise = _DOUBTED_SIGMAS * math.hypot(now.noise, since.noise)
        self.apart = max(0.0, min(most * bound, abs(followed)) - by_noise)
        if not (lasts and self._is_beyond and t > self._again):
            return None
        dt = t - since.t
        angle = apart - since.apart - since.bias * dt
        rate = math.copysign(max(abs(angle) / dt, steepest), angle)
        return BiasJump(angle, dt, followed, rate, abs(followed) > _LARGE * bound)


def _calc_bound(one: _Place, other: _Place) -> float:
    """rad: usual difference of what two places have of gyroscope and course."""
    return max(_BOUND, _SIGMAS * math.hypot(one.noise, other.noise))
