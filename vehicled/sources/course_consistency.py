"""A bias of the gyroscope that jumps: its angle against the course over ground, which differs by sideslip only.

Sideslip of a car that does not skid follows its yaw rate, and so do errors of latency; the scale of the gyroscope
errs by a share of the angle. What is beyond that within seconds is a bias. The gyroscope goes on being used: its bias
is estimated anew.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from vehicled.angles import wrap
from vehicled.messages import Measurement
from vehicled.sources.gnss import Gnss
from vehicled.sources.imu import GYROSCOPES, Imu

WATCHED = frozenset(("gnss.course", GYROSCOPES[2]))
"""Channels that it reads."""
_WINDOW = 2.0
"""s"""
_BOUND, _SHARE = 0.05, 0.03
"""rad, and of the angle."""
_AGREEING = 0.5
"""Share of these up to which both agree."""
_SIGMAS = 4.0 * math.sqrt(2.0)
"""Standard deviations of a course by which the difference of two of them may err."""
_LATENCY, _REAR = 0.12, 1.5
"""s of latency between the two, and m from the vehicle origin to the rear axle, along which a car goes without slip:
by how much course and heading differ per change of the yaw rate."""
_EVERY, _MEMORY = 0.02, 0.6
"""s between the angles that are kept for courses, which come late, and for how long."""
_SLOWEST = 6.0
"""m/s"""
_LARGEST_LATERAL = 8.0
"""m/s²: of lateral acceleration; beyond it a car may skid."""
_LONGEST = 0.2
"""s: after a longer gap nothing is known of the angle meanwhile."""
_SILENT = 0.1
"""s: a course is compared with a sample of the gyroscope that is at most so much older."""


class BiasJump(NamedTuple):
    """What the gyroscope has done."""

    rate: float
    """rad/s, by which its bias has jumped, at least."""
    angle: float
    """rad, that it has gained since."""
    within: float
    """s, in which it has."""


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
        self._t, self._angle = -math.inf, 0.0
        self._angles: deque[tuple[float, float, float]] = deque()
        """Time, s; angle by the gyroscope, rad; and its rate, rad/s."""
        self._apart: deque[tuple[float, float, float, float]] = deque()
        """Of each course: time, s; by how much the gyroscope is ahead of it, and its angle, rad; and its rate."""
        self._again = -math.inf
        """Before that time, s, nothing is found."""
        self.agrees = True
        """Whether the gyroscope differed from the last course by so little that its bias is what it was."""
        self._is_beyond = False
        """Whether the gyroscope differed from the last course by more than usual: once alone is noise."""

    def forget(self) -> None:
        """The car skids: courses of this window are no measure of the gyroscope."""
        self._again = self._t + _WINDOW

    def take(self, m: Measurement, ahead: float, excess: float = 0.0) -> BiasJump | None:
        """The jump that a measurement shows.

        `ahead`: speed, m/s; `excess`: by how much the gyroscope seems to turn faster than the car, by other sensors
        than the course, rad/s.
        """
        t, values = m.t * 1e-9, m.values
        if self._axis is None:
            return None
        if GYROSCOPES[2] in values:
            (a, b, c), (x, y, z) = self._axis, GYROSCOPES
            rate = a * values.get(x, 0.0) + b * values.get(y, 0.0) + c * values[z]
            self._turn(t, rate, ahead, excess)
        if "gnss.course" not in values or ahead < _SLOWEST:
            return None
        noise = values.get("gnss.s_acc") or self._gnss.find_noise(values.get("gnss.quality", 1.0)).velocity
        return self._compare(t, values["gnss.course"], noise, ahead)

    def _turn(self, t: float, rate: float, ahead: float, excess: float) -> None:
        dt, self._t = t - self._t, t
        skids = abs(ahead * (rate - excess)) > _LARGEST_LATERAL
        if ahead < _SLOWEST or skids or not 0.0 < dt < _LONGEST:
            self._angles.clear()
            self._apart.clear()
            return
        self._angle += dt * rate
        kept = self._angles
        if not kept or t - kept[-1][0] >= _EVERY:
            kept.append((t, self._angle, rate))
            if t - kept[0][0] > _MEMORY:
                kept.popleft()

    def _compare(self, t: float, course: float, noise: float, ahead: float) -> BiasJump | None:
        """`noise` of the receiver's velocity, m/s."""
        at = next((place for place in reversed(self._angles) if place[0] <= t), None)
        if at is None:
            return None
        measured, angle, rate = at
        if t - measured > _SILENT:
            self._apart.clear()
            return None
        kept, apart = self._apart, angle + course
        if kept and t <= kept[-1][0]:
            return None  # a late one, or a second one of the same time
        if kept:
            apart = kept[-1][1] + float(wrap(apart - kept[-1][1]))
        kept.append((t, apart, angle, rate))
        while t - kept[0][0] > _WINDOW:
            kept.popleft()
        begun, before, angle_before, rate_before = kept[0]
        usual = _SHARE * abs(angle - angle_before) + (_LATENCY + _REAR / ahead) * abs(rate - rate_before)
        gained, bound = apart - before, max(_BOUND, _SIGMAS * noise / ahead)
        lasts, self._is_beyond = self._is_beyond, abs(gained) > usual + bound
        self.agrees = abs(gained) < usual + _AGREEING * bound
        if not (lasts and self._is_beyond and t > self._again):
            return None
        return BiasJump(gained / (t - begun), gained, t - begun)
