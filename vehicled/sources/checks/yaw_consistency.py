"""Health of the gyroscope: its angle compared with those of wheels and steering, without the filter's model.

Three values of the angle that the car has turned over the last second are compared: the integral of the
gyroscope, that of the difference of two wheels' ways, and that of the steering angle along the way. Radii,
steering offset and understeer cause errors of the last two that are proportional to the way; they are
estimated as offsets. If both contradict the gyroscope, in the same direction, it is implausible; if only one
does, that one may be wrong. Without steering, the lateral acceleration (see below) takes its place.

The comparison is at the latest time for which wheels are known: late wheels are compared late, with the
gyroscope of that time.

Wheels and steering are right only while tyres roll. In a turn under hard braking the inner wheel slips, and
the car understeers. So the lateral acceleration over speed, if measured, has to contradict the gyroscope as
well: it is the rate of the course whatever the tyres do. While wheels lock nothing is compared: the car then
may turn in any way.

Brakes slow wheels down, and the engine speeds them up: both wheels of an axle slip in the same sense. If an
axle has slipped by a mean way d, its wheels seem to have turned the car by at most 2 d over the track. This
is added to the bound of the wheels: with ABS or wheel spin on snow it is half a radian within a second.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from vehicled.messages import Measurement
from vehicled.sources.by_channels import ByChannels
from vehicled.sources.checks.bias_jump import BiasJump
from vehicled.sources.checks.yaw_channels import YawChannels
from vehicled.sources.imu.imu import GYROSCOPES, Imu
from vehicled.vehicle.parameters import TMeasyTyre, Vehicle

_WINDOW = 1.0
"""s"""
_EVERY, _SLACK = 0.02, 0.001
"""Spacing of the kept places, s, and tolerance of that, s: samples at such a rate are not evenly spaced."""
_FEWEST = 2
"""Number of others that have to contradict the gyroscope: of one alone it may be the other that is wrong."""
_BOUND = 0.1
"""rad: teeth of counters, slip and loads cause smaller differences."""
_SHARES = 0.1, 0.25, 0.25
"""Share of the angle by which wheels, steering and course may differ more. The course is affected by the
body's roll."""
_BANK = 0.5
"""m/s²: constant error of the lateral acceleration by gravity on a bank and by bias."""
_LOCKED = 0.2
"""Share of the way that an axle's wheels have slipped above which they lock: no error of a radius is as
large, and no ABS allows as much slip."""
_ROLLING = 0.005
"""Share of the way within which rolling wheels agree with it, once their radius is known."""
_LARGEST_SCALE = 0.03
"""Largest relative deviation of that radius from the configured one."""
_RECOVERY = 0.4
"""Time, s, of agreement within half of one bound after which the gyroscope is used again."""
_UNKNOWN = 2.0
"""Time, s, without steering or wheels, or of a slow car, after which nothing contradicts the gyroscope any
more."""
_DOUBTFUL = 0.4
"""Share of all bounds above which the gyroscope is doubtful: it then cannot show that an estimate is
wrong."""
_OFFSET_TIME = 5.0
"""s: time constant of the average of the offsets."""
_SHOWN, _DENIED, _DENIED_BY = 0.75, 0.25, 0.05
"""Shares of the gyroscope's excess over the course. If the wheels show more than the first share, its bias
has jumped or drifted; if they show less than the second, and the rest exceeds the third value (rad), the car
skids."""
_LEAST_SHOWN = 0.025
"""rad: less is shown by wheels whose counters have teeth, also of a healthy gyroscope."""
_LARGEST_SLIP = 0.15
"""rad: without wheels, angle by which a car may slip sideways below the limit of grip."""
_SLOWEST = 4.0
"""m/s"""
_JUMP = 0.5
"""rad/s: largest difference between samples due to noise."""
_LARGEST_ACCELERATION = 20.0
"""rad/s²: no car's yaw rate changes faster. Samples that jump are not used, but are part of the integrated
angle."""
_LONGEST = 0.2
"""s: after a longer gap the angle turned meanwhile is unknown."""
_LATEST = 1.0
"""s: largest delay of the wheels."""


class _Sums(NamedTuple):
    """Integrals up to a time."""

    t: float
    """s"""
    gyro: float
    steering: float
    course: float
    """rad; the last by the lateral acceleration."""
    refused: float
    """rad: the part of the gyroscope's that samples which jumped have added."""
    way: float
    """m"""
    slowness: float
    """s²/m: time over speed."""


class _Place(NamedTuple):
    """The sums at a time for which wheels are known, and the wheels' values."""

    t: float
    """s"""
    sums: _Sums
    wheels: float
    """rad"""
    rolled: float
    """m"""


class YawConsistency:
    """Compares the gyroscope with the wheels of an axle, the steering and the lateral acceleration."""

    def __init__(self, imu: Imu | None, vehicle: Vehicle, instead: str | None = None) -> None:
        """`instead`: channel of a yaw rate, rad/s, that is compared in place of the gyroscope."""
        self._instead = instead
        self._channels = YawChannels(vehicle)
        self.configure(imu)
        place = vehicle.axle(self._channels.wheel)
        self._radius, self._track = place.tyre.radius, 2.0 * place.hard_points.wheel_center[1]
        self._by_load = _calc_load_effect(vehicle, self._channels.wheel)
        turning = GYROSCOPES if instead is None else (instead,)
        self.watched = frozenset((*turning, *self._channels.others))
        """Channels that are compared, or that are implausible if the comparison fails."""
        self._offsets = [0.0, 0.0]
        """rad/m: offsets of wheels and steering from the gyroscope."""
        self._scale: float | None = None
        """Relative excess of the wheels' way over the car's, as their radius differs from the configured
        one."""
        self.reset()

    def configure(self, imu: Imu | None) -> None:
        """Take settings, also while running."""
        self._parts = ByChannels(partial(self._channels.find, imu, instead=self._instead))
        """By the channels of a measurement."""

    def reset(self) -> None:
        """Restart with the filter; the offsets are kept."""
        self.is_plausible, self._agreeing_since = True, math.inf
        self._alone_since = math.inf
        """Time, s, since which there has been nothing to compare the gyroscope with."""
        self.is_doubtful = False
        """Whether all others contradict it, though perhaps not yet enough to make it implausible."""
        self._beside_wheels: float | None = None
        """rad: excess of the gyroscope's angle over that of the wheels."""
        self._refused_beside = 0.0
        """rad: the part of this excess that has not been used, as samples jumped."""
        self._slides = False
        """Whether these wheels have lately locked."""
        self.by_slip = 0.0
        """rad: error of the wheels' angle that their slip may have caused."""
        self._slipped = 0.0, -math.inf
        """The largest such error lately, rad, and its time, s."""
        self._kept: deque[_Place] = deque()
        self._past: deque[_Sums] = deque()
        """Sums until now, at the spacing of places."""
        self._t, self._gyro, self._steering, self._way, self._refused = -math.inf, 0.0, 0.0, 0.0, 0.0
        self._left, self._left_at = 0.0, -math.inf
        """Lateral acceleration, m/s², and when it was measured, s."""
        self._course, self._slowness = 0.0, 0.0
        """Angle by the lateral acceleration, rad; integral of time over speed, s²/m."""
        self._steering_since = self._course_since = math.inf
        """Times since which steering and lateral acceleration have been measured without gaps, s."""
        self._smooth, self._has_jumped = (-math.inf, 0.0), False
        """Time, s, and yaw rate, rad/s, of the last sample that did not jump; whether one has jumped since."""
        self._wheels = [0.0, 0.0]
        self._wheels_at = [-math.inf, -math.inf]
        """Times, s, when they were measured."""
        self._wheels_came = [-math.inf, -math.inf]
        """Times, s, when they arrived."""
        self._known_at = self._came_at = -math.inf
        """The earlier of both wheels' times of measurement, and of arrival."""

    def take(self, m: Measurement, ahead: float, steering: float | None, course_agrees: bool = True) -> bool:
        """Take a measurement; returns whether the gyroscopes in it are plausible.

        `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s, None where that is not
        measured; `course_agrees`: whether the course over ground agrees with the gyroscope, and the car does
        not slide. If not, the difference of wheels and steering may be due to a drifting bias or to a slide,
        and the offsets are not updated.
        """
        t, values = m.t * 1e-9, m.values
        wheels, lateral, turn = self._parts[tuple(values)]
        if wheels:
            self._take_wheels(t, m, wheels)
        if lateral:
            self._left, self._left_at = 0.0, t
            for channel, share in lateral:
                self._left += share * values[channel]
        if not turn:
            return self.is_plausible
        rate = 0.0
        for channel, share in turn:
            rate += share * values[channel]
        dt, self._t = t - self._t, t
        jumps = self._jumps(t, rate)
        has_wheels = m.arrival * 1e-9 - self._came_at < _LONGEST and t - self._known_at < _LATEST
        has_other = steering is not None or t - self._left_at < _LONGEST
        if has_wheels and has_other and ahead >= _SLOWEST:
            self._alone_since = math.inf
        else:
            self._note_alone(t)
        if not has_other or ahead < _SLOWEST or not 0.0 < dt < _LONGEST:
            self._kept.clear()
            self._past.clear()
            self._beside_wheels = None
            self._steering_since = self._course_since = math.inf
            return self.is_plausible and not jumps
        self._integrate(dt, rate, steering, ahead)
        if jumps:
            self._refused += dt * (rate - self._smooth[1])
        if has_wheels:
            self._compare_at(min(t, self._known_at), course_agrees)
        else:
            self._kept.clear()
            self._beside_wheels = None
        past = self._past
        if not past or t - past[-1].t > _EVERY - _SLACK:
            past.append(self._sum_up())
            while t - past[0].t > _LATEST + _EVERY:
                past.popleft()
        return self.is_plausible and not jumps

    def refuse(self) -> None:
        """Take the gyroscope as implausible, as others have shown, until it agrees again."""
        self.is_plausible, self._agreeing_since = False, math.inf

    def _jumps(self, t: float, rate: float) -> bool:
        """Whether a yaw rate (rad/s) differs from the last sound one by more than a car's can change.

        A rate that has jumped and stays far away is not sound because time has passed: others must confirm it.
        """
        before, smooth = self._smooth
        apart = abs(rate - smooth)
        # A late sample may be older than the previous one.
        jumps = apart > _JUMP + _LARGEST_ACCELERATION * abs(t - before)
        if not jumps:
            if self._has_jumped and apart > _JUMP:
                self.refuse()
            self._smooth = t, rate
        self._has_jumped = jumps
        return jumps

    def _note_alone(self, t: float) -> None:
        """Note that nothing can be compared at t (s); after a while the gyroscope counts as plausible."""
        self._alone_since = min(self._alone_since, t)
        if t - self._alone_since > _UNKNOWN:
            self.is_plausible, self.is_doubtful, self._agreeing_since = True, False, math.inf

    def _integrate(self, dt: float, rate: float, steering: float | None, ahead: float) -> None:
        """Integrate over dt (s) until now: yaw rates by gyroscope and steering, rad/s; speed, m/s."""
        self._gyro += dt * rate
        self._steering += dt * (steering or 0.0)
        self._way += dt * ahead
        self._course += dt * self._left / ahead
        self._slowness += dt / ahead
        is_measured = self._t - self._left_at < _LONGEST
        self._course_since = min(self._course_since, self._t) if is_measured else math.inf
        self._steering_since = math.inf if steering is None else min(self._steering_since, self._t)

    def _compare_at(self, t: float, course_agrees: bool) -> None:
        """Compare at t (s), up to which the wheels are known, unless this was done shortly before."""
        if self._kept and t - self._kept[-1].t <= _EVERY - _SLACK:
            return
        sums = self._find_sums(t)
        if sums is not None:
            left, right = (self._radius * angle for angle in self._wheels)
            place = _Place(t, sums, (right - left) / self._track, 0.5 * (right + left))
            self._compare(place, course_agrees)

    def _take_wheels(self, t: float, m: Measurement, wheels: Sequence[tuple[int, str]]) -> None:
        for n, channel in wheels:
            if channel == self._channels.wheels[n][0]:
                self._wheels[n] = m.values[channel]
            else:
                dt = t - self._wheels_at[n]
                self._wheels[n] += m.values[channel] * dt if 0.0 < dt < _LONGEST else 0.0
            self._wheels_at[n], self._wheels_came[n] = t, m.arrival * 1e-9
        self._known_at, self._came_at = min(self._wheels_at), min(self._wheels_came)

    def _sum_up(self) -> _Sums:
        turned = self._gyro, self._steering, self._course, self._refused
        return _Sums(self._t, *turned, self._way, self._slowness)

    def confirm(self, angle: float, within: float) -> bool | None:
        """Whether the wheels confirm an angle (rad) that the gyroscope seems to have turned more than the car.

        `within`: time of that gain, s; of a gain over more than the window of comparison, the wheels show a
        part. False if the car skids: the course then differs but the wheels do not, or the wheels lock. None
        if undecided: brakes make wheels slip, and without wheels a skid is possible up to `_LARGEST_SLIP`.
        """
        shown = self._beside_wheels
        if self._slides:
            return False
        if shown is None:
            return abs(angle) > _LARGEST_SLIP or None
        expected = angle * min(1.0, _WINDOW / within)
        share, doubt = shown / expected, self._calc_fading_slip() / abs(expected)
        if share - doubt > _SHOWN and abs(shown) > _LEAST_SHOWN:
            return True
        denied = share + doubt < _DENIED and abs(expected - shown) > _DENIED_BY
        return False if denied else None

    def _calc_fading_slip(self) -> float:
        """rad: error by the largest slip of lately, which fades."""
        by, at = self._slipped
        return by * math.exp((at - self._t) / _WINDOW)

    @property
    def jump(self) -> BiasJump:
        """The jump of the gyroscope's bias that the wheels seem to show, as far as its samples have been used."""
        angle = (self._beside_wheels or 0.0) - self._refused_beside
        return BiasJump(angle, _WINDOW, angle, angle / _WINDOW)

    @property
    def excess(self) -> float:
        """rad/s: how much faster than the wheels the gyroscope has lately turned; 0 without wheels."""
        return (self._beside_wheels or 0.0) / _WINDOW

    def _find_sums(self, t: float) -> _Sums | None:
        """Sums at a time up to now; None if it is before those that are kept."""
        now = after = self._sum_up()
        for before in reversed(self._past):
            if before.t <= t:
                share = (t - before.t) / (after.t - before.t)
                return _Sums(*[a + share * (b - a) for a, b in zip(before, after, strict=True)])
            after = before
        return now if t >= now.t else None

    def _compare(self, place: _Place, course_agrees: bool) -> None:
        kept, t = self._kept, place.t
        kept.append(place)
        self._beside_wheels, self._slides = None, False
        if t - kept[0].t < _WINDOW:
            return
        # As times are uneven, the first one is kept until the next is old enough.
        while t - kept[1].t >= _WINDOW:
            kept.popleft()
        first = kept[0]
        now, begin = place.sums, first.sums
        gyro, way = now.gyro - begin.gyro, now.way - begin.way
        speed, course = way / (now.t - begin.t), None
        by_load, wheels = self._by_load * speed * speed, place.wheels - first.wheels
        if first.t >= self._course_since:
            course = now.course - begin.course
            wheels -= by_load * course
        else:
            wheels /= 1.0 + by_load
        self._slides = abs(place.rolled - first.rolled) < (1.0 - _LOCKED) * way
        if self._slides:
            self.is_doubtful = False
            return
        self._beside_wheels = gyro - wheels - self._offsets[0] * way
        self._refused_beside = now.refused - begin.refused
        rolled, since = place.rolled - first.rolled, t - kept[-2].t
        by_slip = self._note_slip(rolled / way - 1.0, way, since)
        # What is compared: its angle, rad; offset, rad/m; bound, rad; and the share of the angle by which it may
        # differ in addition to the bound.
        others = [(wheels, self._offsets[0], _BOUND, _SHARES[0])]
        is_steered = first.t >= self._steering_since
        if is_steered:
            others.append((now.steering - begin.steering, self._offsets[1], _BOUND, _SHARES[1]))
        if course is not None:
            bound = _BOUND + _BANK * (now.slowness - begin.slowness)
            others.append((course, 0.0, bound, _SHARES[2]))
        if len(others) < _FEWEST:
            return
        residuals, ratios = list[float](), list[float]()
        for angle, offset, bound, share in others:
            residuals.append(gyro - angle - offset * way)
            ratios.append(residuals[-1] / (bound + share * min(abs(gyro), abs(angle))))
        # The bound of rolling wheels holds here: slip of the wheels must not make the gyroscope plausible
        # again.
        agrees = min(map(abs, ratios)) < 0.5
        self._agreeing_since = min(self._agreeing_since, t) if agrees else math.inf
        bound = _BOUND + _SHARES[0] * min(abs(gyro), abs(wheels))
        ratios[0] *= bound / (bound + by_slip)
        least = min(map(abs, ratios))
        contradict = min(ratios) > 0.0 or max(ratios) < 0.0
        self.is_doubtful = contradict and least > _DOUBTFUL
        if contradict and least > 1.0:
            self.is_plausible = False
        elif t - self._agreeing_since > _RECOVERY:
            self.is_plausible = True
        if self.is_plausible and course_agrees:
            for n, (residual, ratio) in enumerate(zip(residuals[: 1 + is_steered], ratios, strict=False)):
                # Limited, as a counter that rolls over is no offset.
                self._offsets[n] += residual / max(1.0, abs(ratio)) / way * since / _OFFSET_TIME

    def _note_slip(self, further: float, way: float, since: float) -> float:
        """Angle (rad) by which wheels may be wrong that have rolled further than the way (m), by a share of it.

        `since`: time since the last call, s.
        """
        if self._scale is None:
            self._scale = min(max(further, -_LARGEST_SCALE), _LARGEST_SCALE)
        apart = further - self._scale
        # Slipping or spinning wheels do not show their radius.
        scale = self._scale + apart / max(1.0, abs(apart) / _ROLLING) * since / _OFFSET_TIME
        self._scale = min(max(scale, -_LARGEST_SCALE), _LARGEST_SCALE)
        self.by_slip = 2.0 * way * abs(apart) / self._track if abs(apart) > _ROLLING else 0.0
        # Slip by brakes and slip by the engine may cancel in the sum of a window, but not between its wheels.
        if self.by_slip >= self._calc_fading_slip():
            self._slipped = self.by_slip, self._t
        return self.by_slip


def _calc_load_effect(vehicle: Vehicle, wheel: str) -> float:
    """Relative excess of the angle by an axle's wheels over the course's in a bend, per (m/s)² of speed.

    The load of the outer tyre increases by a m h/(2 b) with the lateral acceleration a, height h and track b, which
    reduces its rolling radius. In a spin, a is much less than speed times yaw rate.
    """
    place = vehicle.axle(wheel)
    tyre, track = place.tyre, 2.0 * place.hard_points.wheel_center[1]
    if not isinstance(tyre, TMeasyTyre):
        return 0.0
    smaller = tyre.rolling_share * vehicle.mass * float(vehicle.center_of_mass()[2]) / tyre.vertical_stiffness
    return smaller / (track * track * tyre.radius)
