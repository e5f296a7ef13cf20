"""A lateral accelerometer that gyroscope and course over ground contradict together.

While the sideslip of a car stays as it is, its lateral acceleration is v ω, by speed and yaw rate, and v χ̇, by speed
and course. In a slide that begins or ends these two differ, and then neither shows what the accelerometer should
measure. If they agree, and the accelerometer differs from both, it is wrong, as one that has lost its scale. The
filter would follow it sideways, against all other sensors. One that measures nothing shows sooner, and so does such a
gyroscope (`SilentAxes`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from operator import itemgetter, mul
from typing import NamedTuple

from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.states import POSITION, UNMODELLED, VELOCITY
from vehicled.maths.angles import wrap
from vehicled.messages import Measurement
from vehicled.sources.checks.bias_jump import BiasJump
from vehicled.sources.checks.course_latency import CourseLatency
from vehicled.sources.checks.silent_axes import SilentAxes, SilentAxis
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES, Imu
from vehicled.sources.imu.model import ACCELEROMETER_BIAS
from vehicled.vehicle.arrays import V2Z, YAW

_CHANNELS = (*ACCELEROMETERS, *GYROSCOPES)
_ALL = frozenset(_CHANNELS)
_get_all = itemgetter(*_CHANNELS)
_EVERY, _MEMORY = 0.018, 0.6
"""s: least time over which samples are averaged, and how long integrals are kept for late courses."""
_SHORTEST, _LONGEST = 0.4, 1.05
"""s: least and largest time between courses that are compared; receivers may measure once per second."""
_APART = 1.5
"""m/s², mean over that time: a bank that begins, and biases, cause less."""
_SHARE = 0.15
"""Share of the lateral acceleration: roll of the body in addition to the model's, and errors of scale."""
_SIGMAS = 4.0 * math.sqrt(2.0)
"""Standard deviations of one velocity by which the difference of two may be wrong."""
_AGREEING = 0.5
"""Share of the accelerometer's deviation up to which gyroscope and course agree."""
_RIGHT_FOR, _BEND = 1.0, 1.5
"""Time in bends, s, for which an accelerometer has to agree until it is used again; and their least lateral
acceleration, m/s²."""
_SLOWEST = 6.0
"""m/s"""
_GAP = 0.1
"""s: a longer time between samples ends the integrals."""
_OF_AXIS, _WHOLE = 0.3, 0.95
"""Least share of a channel in the lateral axis for which it is not used if that is wrong; and from which on it alone
is an axis of the car."""


class _Integrals(NamedTuple):
    """Integrals up to a time."""

    t: float
    """s"""
    way: float
    """m"""
    by_force: float
    """m/s: of the lateral specific force, less gravity."""
    by_rate: float
    """m/s: of speed times yaw rate."""
    rate: float
    """rad/s, at that time."""


class _Course(NamedTuple):
    """A course over ground."""

    at: _Integrals
    """Up to its time."""
    angle: float
    """rad, clockwise from north."""
    late: float
    """s: latency that it was taken to have."""


class _Comparison(NamedTuple):
    """Of the time between two courses."""

    within: float
    """s"""
    apart: float
    """m/s: by how much the accelerometer exceeds gyroscope and course, the lesser of the two; 0 if these two do not
    agree."""
    usual: float
    """m/s: by how much it may do so."""
    by_rate: float
    """m/s, by the gyroscope."""


class SilentChannel(NamedTuple):
    """A channel that measures nothing."""

    channel: str
    jump: BiasJump | None
    """What a gyroscope has falsified meanwhile; None of an accelerometer, which `widen` makes known to the filter."""


class LateralVote:
    """Compares the lateral accelerometer with gyroscope and course."""

    def __init__(self, imu: Imu | None, gnss: Gnss | None, gravity: float) -> None:
        """`gravity`: m/s²."""
        self._gravity = gravity
        self.configure(imu, gnss)

    def configure(self, imu: Imu | None, gnss: Gnss | None) -> None:
        """Take settings, also while running. Earlier results are dropped, as they are of other axes."""
        self._gnss, self._axes, self._has_gravity = gnss or Gnss(), None, True
        self._channels: tuple[str, ...] = ()
        self._needed: tuple[str, ...] = ()
        """The accelerometers of the lateral axis, and with them the gyroscopes of the vertical one."""
        self._single: tuple[str | None, str | None] = None, None
        """The channels that alone are the lateral and the vertical axis, if any."""
        if imu is not None and imu.accelerometers is not None:
            self._axes = left, up = imu.R_imu_vehicle[:, 1:].T.tolist()
            self._has_gravity = not imu.accelerometers.gravity_removed
            self._channels = tuple(
                c for c, share in zip(ACCELEROMETERS, left, strict=True) if abs(share) > _OF_AXIS
            )
            self._needed = self._channels + tuple(
                c for c, share in zip(GYROSCOPES, up, strict=True) if abs(share) > _OF_AXIS
            )
            self._single = _find_single(ACCELEROMETERS, left), _find_single(GYROSCOPES, up)
        self.reset()

    def reset(self) -> None:
        """Restart with the filter."""
        self.wrong: tuple[str, ...] = ()
        """Channels that are not to be used."""
        self._latest = dict.fromkeys(_CHANNELS, 0.0)
        self._measured = dict.fromkeys(self._needed, -math.inf)
        """Times, s, of the latest values that have come separately."""
        self._samples: list[Sequence[float]] = []
        self._banked = 0.0
        self._right_for = 0.0
        self.silent: SilentChannel | None = None
        """What the latest sample has shown to measure nothing."""
        self._found: _Comparison | None = None
        """What the filter does not know yet."""
        self.latency = CourseLatency()
        self._forget()

    def _forget(self) -> None:
        self._now = _Integrals(-math.inf, 0.0, 0.0, 0.0, 0.0)
        self._kept: deque[_Integrals] = deque()
        self._courses: deque[_Course] = deque()
        self._is_beyond = False
        self._silence = SilentAxes()

    def take(self, m: Measurement, ahead: float, steering: float | None) -> None:
        """Take samples of the IMU, and courses; `ahead`: speed, m/s; `steering`: yaw rate by its angle, rad/s."""
        self.silent = None
        if self._axes is None:
            return
        values = m.values
        if values.keys() >= _ALL:
            self._gather(m.t * 1e-9, ahead, steering, _get_all(values), self._axes)
        elif not _ALL.isdisjoint(values):  # a device that sends its axes one after the other, or lacks some
            t = m.t * 1e-9
            self._latest.update((c, v) for c, v in values.items() if c in _ALL)
            self._measured.update((c, t) for c in values if c in self._measured)
            if self._channels[0] in values and t - min(self._measured.values()) < _GAP:
                self._gather(t, ahead, steering, _get_all(self._latest), self._axes)
        if "gnss.course" in values and ahead > _SLOWEST:
            kind = self._gnss.find_noise(values.get("gnss.quality", 1.0), values.get("gnss.hdop", 1.0))
            self._compare(m.t * 1e-9, values["gnss.course"], values.get("gnss.s_acc") or kind.velocity)

    def _gather(
        self,
        t: float,
        ahead: float,
        steering: float | None,
        sample: Sequence[float],
        axes: Sequence[Sequence[float]],
    ) -> None:
        """Keep a sample, and add the mean of some to the integrals. `axes`: left and upward one, IMU axes."""
        self._samples.append(sample)
        since = t - self._now.t
        if 0.0 < since < _EVERY:
            return
        means = [sum(axis) / len(axis) for axis in zip(*self._samples, strict=True)]
        self._samples.clear()
        if not 0.0 < since < _GAP or ahead < _SLOWEST:
            self._forget()
            since = 0.0
        left, up = axes
        force, rate = sum(map(mul, left, means)) - self._banked, sum(map(mul, up, means[3:]))
        _, way, by_force, by_rate, _ = self._now
        self._now = _Integrals(
            t, way + since * ahead, by_force + since * force, by_rate + since * ahead * rate, rate
        )
        self._kept.append(self._now)
        while t - self._kept[0].t > _MEMORY:
            self._kept.popleft()
        if steering is not None and not self.wrong:
            silent = self._silence.take(since, force, ahead * rate, ahead * steering)
            if silent is not None and (channel := self._single[silent.is_gyroscope]) is not None:
                self._report(channel, silent, ahead)

    def _report(self, channel: str, silent: SilentAxis, ahead: float) -> None:
        """Report a channel that measures nothing; `ahead`: speed, m/s."""
        by, within = silent.missing, silent.within
        if silent.is_gyroscope:
            angle = by / ahead
            self.silent = SilentChannel(channel, BiasJump(angle, within, angle, angle / within))
        else:
            self.silent, self._found = SilentChannel(channel, None), _Comparison(within, by, 0.0, 0.0)
        self._forget()

    def _compare(self, t: float, course: float, noise: float) -> None:
        late = self._gnss.latency + self.latency.late
        t -= late
        now = next((at for at in reversed(self._kept) if at.t <= t), None)
        if now is None or t - now.t > _GAP:
            return
        courses = self._courses
        since = now.t - courses[-1].at.t if courses else 0.0
        latest = _Course(now, course, late)
        courses.append(latest)
        while now.t - courses[0].at.t > _LONGEST:
            courses.popleft()
        # From both ends, as there are many between.
        first = next((c for c in courses if now.t - c.at.t > _SHORTEST), None)
        last = next((c for c in reversed(courses) if now.t - c.at.t > _SHORTEST), None)
        if first is None or last is None:
            return
        # Over the shortest time a large error shows soonest, over the longest a small one.
        found = [self._find(before, latest, noise) for before in (first, last)]
        lasts, most = self._is_beyond, max(found, key=lambda c: abs(c.apart) - c.usual)
        self._is_beyond = abs(most.apart) > most.usual
        if self.wrong:
            self._look_for_agreement(found[0], since)
        elif lasts and self._is_beyond:
            self.wrong, self._found, self._right_for = self._channels, most, 0.0

    def _find(self, one: _Course, other: _Course, noise: float) -> _Comparison:
        """Compare what was gained between two courses with noise of the velocity, m/s."""
        before, now = one.at, other.at
        within, way = now.t - before.t, now.way - before.way
        by_force, by_rate = now.by_force - before.by_force, now.by_rate - before.by_rate
        speed = way / within
        by_course = speed * wrap(one.angle - other.angle)
        from_rate, from_course = by_force - by_rate, by_force - by_course
        least = min(abs(from_rate), abs(from_course))
        agree = from_rate * from_course > 0.0 and abs(by_rate - by_course) < _AGREEING * least
        usual = _APART * within + _SHARE * abs(by_rate) + _SIGMAS * noise
        usual += self.latency.unknown * speed * abs(now.rate - before.rate)
        # Where the latency has been corrected between the two, the earlier one was at a wrong time.
        usual += abs(other.late - one.late) * speed * abs(before.rate)
        return _Comparison(within, math.copysign(least, from_rate) if agree else 0.0, usual, by_rate)

    def _look_for_agreement(self, found: _Comparison, since: float) -> None:
        """Use the accelerometer again once it has agreed in bends for long enough."""
        if self._is_beyond:
            self._right_for = 0.0
        elif abs(found.by_rate) > _BEND * found.within:
            self._right_for += since
            if self._right_for > _RIGHT_FOR:
                self.wrong = ()

    def widen(self, f: EstimatedFilter) -> bool:
        """Let the filter doubt what a wrong accelerometer has falsified; whether one has just been found."""
        if self._has_gravity:
            self._banked = self._gravity * f.pose.item(V2Z)
        found, self._found = self._found, None
        if found is None:
            return False
        force, way, yaw = found.apart / found.within, found.apart * found.within, f.pose.item(YAW)
        f.add_variance(VELOCITY, "left", found.apart**2)
        f.add_variance(POSITION, "x", (way * math.sin(yaw)) ** 2)
        f.add_variance(POSITION, "y", (way * math.cos(yaw)) ** 2)
        if UNMODELLED in f.states:
            f.add_variance(UNMODELLED, "left", force**2)
        for channel in self._channels:
            f.add_variance(ACCELEROMETER_BIAS, channel[-1], force**2)
        return True


def _find_single(channels: Sequence[str], axis: Sequence[float]) -> str | None:
    """The channel that alone is an axis of the car, whose components in IMU axes are given (3,)."""
    return next((c for c, share in zip(channels, axis, strict=True) if abs(share) > _WHOLE), None)
