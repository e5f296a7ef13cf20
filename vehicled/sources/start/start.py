"""What must be known before the filter can start: the car's position, speed and heading."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from statistics import median

from vehicled.messages import Measurement
from vehicled.sources.gnss.gnss import GnssSource
from vehicled.sources.limits import FASTEST_BACKWARDS
from vehicled.sources.sensors import Readers, Sources
from vehicled.sources.start.acceleration_heading import AccelerationHeading, Alignment
from vehicled.sources.start.fix_travel import FixTravel
from vehicled.sources.world import Fix
from vehicled.units import Vector

_APART, _APART_SHARE = 1.0, 0.15
"""m/s, and share of the speed: wheel radii, slip and latency make a smaller difference."""

_DIRECTED = 0.3
"""m/s: a speed below the negative of this is a car that reverses, not noise."""

_OLD_NS = 2_000_000_000
"""A speed older than the latest one by more than this is out of date."""

_TOGETHER_NS = 50_000_000
"""Longest time between samples of the same motion: gyroscopes and accelerometers may send separate
messages."""

_COURSE_SIGMA = 0.03
"""rad, 1 σ: of a heading taken from the first course over ground."""


def _agree(one: float, other: float) -> bool:
    return abs(one - other) < _APART + _APART_SHARE * abs(other)


class StartConditions:
    """The latest fix, speed and heading that were measured."""

    def __init__(self, sources: Sources) -> None:
        self._sources, self._acceleration, self._travel = sources, AccelerationHeading(), FixTravel()
        self.reset()

    def reset(self) -> None:
        """Nothing is known any more."""
        self.fix: tuple[int, Fix, Vector] | None = None
        """Time of the measurement, ns; fix; place of the antenna, m in vehicle axes."""
        self._fix_by = 0
        """Number of the receiver that gave it."""
        self._speeds: dict[int, tuple[int, float]] = {}
        """Latest time, ns, and speed, m/s, by the precedence of the source."""
        self._speed_ns = 0
        """Time of the latest of them, ns."""
        self._signed: set[int] = set()
        """Precedence numbers of the sources whose speeds have been negative."""
        self.speed_sigma = 0.0
        """m/s: how uncertain the speed is if only fixes show it."""
        self._is_speed_sent = False
        """Whether any source has measured a speed."""
        self._awaited: set[int] = set()
        """Precedence numbers of the sources that have sent something, even if only the first angle of a
        wheel."""
        self._ahead: deque[float] = deque(maxlen=2)
        """m/s: estimated forward speeds a second ago and before that; by the later one the filter may have
        gone astray."""
        self._course: tuple[float, float, float, Vector] | None = None
        """Course over ground and σ of a heading taken from it, rad; speed below which it is not used, m/s; place
        of the antenna, m in vehicle axes."""
        self._heading: tuple[float, float] | None = None
        """Yaw by two antennas, rad, and its σ."""
        self.yaw_ns = 0
        """Time of the latest heading or course, ns."""
        self.is_blind = False
        """Whether the filter has started without a speed, assuming standstill, and none has arrived since."""
        self._acceleration.reset()
        self._travel.reset()
        self._motion: list[tuple[int, float] | None] = [None, None, None]
        """Time, ns, and value of yaw rate, forward and lateral force, as far as measured since they were last
        complete."""
        self.forces: tuple[float, float] | None = None
        """m/s²: latest forces along the car and to the left, less speed times yaw rate."""

    def note_start(self) -> None:
        """The filter has started with what is known."""
        self.is_blind = self.speed is None and bool(self._sources.of_speed)

    def has_begun_wrong(self, ahead: float) -> bool:
        """After a blind start: whether the first speed, or the estimate's `ahead` (m/s), shows a moving car.

        If so, the biases and slopes that the filter has estimated until then are wrong, too.
        """
        if (speed := self.speed) is None:
            return False
        self.is_blind = False
        return max(abs(ahead), abs(speed)) > _APART

    def keep_direction(self, ahead: float) -> None:
        """Take the forward speed of a good estimate, m/s; to be called once a second."""
        self._ahead.append(ahead)

    def set_direction(self, ahead: float) -> None:
        """Take the forward speed by a receiver, m/s, when the estimate is not good."""
        self._ahead.clear()
        self._ahead.append(ahead)

    def forget_place(self) -> None:
        """Forget fix, course and heading."""
        self.fix = self._course = self._heading = None

    @property
    def course_antenna(self) -> Vector | None:
        """Place of the antenna whose course is used as heading, m in vehicle axes; None if no course is used."""
        return None if self._heading is not None or self._course is None else self._course[-1]

    @property
    def yaw(self) -> tuple[float, float] | None:
        """Heading, rad, with its σ: by two antennas, or else by the course over ground while moving."""
        if self._heading is not None or self._course is None:
            return self._heading
        (course, sigma, least, _), speed = self._course, self.speed or 0.0
        backwards = math.pi if speed < 0.0 else 0.0
        return (0.5 * math.pi - course + backwards, sigma) if abs(speed) > least else None

    @property
    def speed(self) -> float | None:
        """Speed, m/s, negative in reverse: the preferred one, or the median of three or more if far from it."""
        speeds = self._with_signs()
        if not speeds:
            return None
        preferred, middle = speeds[min(speeds)], median(speeds.values())
        return preferred if len(speeds) < 3 or _agree(preferred, middle) else middle

    @property
    def is_speed_known(self) -> bool:
        """Whether the speed is measured, and not by two sources that contradict each other."""
        speeds = list(self._with_signs().values())
        return len(speeds) > 0 and (len(speeds) != 2 or _agree(*speeds))

    @property
    def is_motion_complete(self) -> bool:
        """Whether the sensors that show the direction of travel and the yaw rate have measured.

        Devices connect one after the other, so these may come later than the speed; without the yaw rate, a
        start in a turn would be as if the car went straight on.
        """
        of_speed, imu = self._sources.of_speed, self._sources.imu
        signed = {s.settings.SPEED_PRECEDENCE for s in of_speed if not isinstance(s, GnssSource)}
        if signed and signed.isdisjoint(self._speeds):
            return False
        # A positive speed may be a magnitude as long as another sensor may still show that the car reverses.
        may_be_backwards = _APART < (self.speed or 0.0) < FASTEST_BACKWARDS
        if may_be_backwards and not (signed & self._awaited) <= self._speeds.keys():
            return False
        has_own = self._sources.own_yaw_rate is not None
        measures_turn = has_own or (imu is not None and imu.has_gyroscopes)
        return not measures_turn or self._sources.yaw_rate is not None

    def _with_signs(self) -> dict[int, float]:
        """Speeds with the sign of the preferred source that has signs, else with that of the estimate.

        A source that has never been negative may give magnitudes, as receivers and the buses of most cars do.
        """
        # A reload of the settings may have removed a source; another may have fallen silent.
        of_speed = {s.settings.SPEED_PRECEDENCE for s in self._sources.of_speed}
        oldest = self._speed_ns - _OLD_NS
        speeds = {n: v for n, (t_ns, v) in self._speeds.items() if n in of_speed and t_ns > oldest}
        signed = [n for n in speeds if n in self._signed]
        if signed:
            sign = math.copysign(1.0, speeds[min(signed)])
        else:
            sign = -1.0 if self._goes_back(speeds.values()) else 1.0
        return {n: v if n in signed else sign * abs(v) for n, v in speeds.items()}

    def _goes_back(self, speeds: Collection[float]) -> bool:
        """Whether a car with these speeds goes backwards: by the estimate, or by heading and course."""
        before = self._ahead[0] if self._ahead else 0.0
        if abs(before) > _APART:
            return before < 0.0 and any(_agree(-before, v) for v in speeds)
        if self._heading is None or self._course is None:
            return False
        course, _, least, _ = self._course
        is_opposite = math.cos(0.5 * math.pi - course - self._heading[0]) < 0.0
        return is_opposite and any(least < v < FASTEST_BACKWARDS for v in speeds)

    def take(self, m: Measurement, readers: Readers, is_running: bool) -> None:
        """Take fix, speed, heading and motion from a measurement, each from its best source.

        `readers`: of its channels. While the filter runs, only speeds are taken: a restart would be at the
        estimated position.
        """
        for source in readers.speeds:
            precedence = source.settings.SPEED_PRECEDENCE
            assert precedence is not None
            self._awaited.add(precedence)
            speed = source.measure_speed(m)
            if speed is not None:
                self._is_speed_sent, self.speed_sigma = True, 0.0
                self._speeds[precedence], self._speed_ns = (m.t, speed), m.t
                if speed < -_DIRECTED:
                    self._signed.add(precedence)
        if not is_running or self.is_blind:
            self._take_travel(m)
        if not is_running:
            self._take_place(m)
            self._take_motion(m)

    def _take_travel(self, m: Measurement) -> None:
        """Take speed and course by the fixes of the first receiver if nothing has measured a speed."""
        if not self._sources.receivers:
            return
        receiver = self._sources.receivers[0]
        fix, settings = receiver.find_fix(m.values), receiver.settings
        precedence = settings.SPEED_PRECEDENCE
        if fix is None or precedence is None or self._is_speed_sent or not self._awaited <= {precedence}:
            return
        travel = self._travel.take(m.t, fix, receiver.find_sigma(m.values))
        self.speed_sigma = self._travel.unseen
        if travel is not None:
            self._speeds[precedence], self._speed_ns, self.speed_sigma = (
                (m.t, travel.speed),
                m.t,
                travel.speed_sigma,
            )
            sigma = math.hypot(_COURSE_SIGMA, travel.course_sigma)
            self._course = travel.course, sigma, settings.least_speed, settings.antenna

    def _take_place(self, m: Measurement) -> None:
        for n, receiver in enumerate(self._sources.receivers):
            fix = receiver.find_fix(m.values)
            if fix is not None and (self.fix is None or n <= self._fix_by):
                settings, self._fix_by = receiver.settings, n
                self.fix = m.t - round(settings.latency * 1e9), fix, settings.antenna
            self._take_heading(m, receiver, n == self._fix_by)

    def _take_heading(self, m: Measurement, receiver: GnssSource, accelerates: bool) -> None:
        """`accelerates`: whether its velocities serve to find accelerations."""
        yaw, course = receiver.find_yaw(m.values), receiver.find_course(m.values)
        if yaw is not None or course is not None:
            self.yaw_ns = m.t - round(receiver.settings.latency * 1e9)
        if yaw is not None:
            self._heading = yaw
        if course is not None:
            self._course = course, _COURSE_SIGMA, receiver.settings.least_speed, receiver.settings.antenna
            if accelerates and (speed := receiver.measure_speed(m)) is not None:
                self._acceleration.take_velocity(self.yaw_ns * 1e-9, speed, course, receiver.settings.antenna)

    def _take_motion(self, m: Measurement) -> None:
        """Take samples of the IMU before the filter runs."""
        imu, own = self._sources.imu, self._sources.own_yaw_rate
        if own is not None:
            own.note(m)
        if imu is None:
            return
        t_ns = m.t - round(imu.settings.latency * 1e9)
        for n, value in enumerate(imu.note_motion(m)):
            if value is not None:
                self._motion[n] = t_ns, value
        measured = [each[1] for each in self._motion if each and abs(t_ns - each[0]) < _TOGETHER_NS]
        if len(measured) == len(self._motion):
            yaw_rate, ahead, left = measured
            self._motion = [None, None, None]
            self.forces = ahead, left - (self.speed or 0.0) * yaw_rate
            self._acceleration.take_forces(t_ns * 1e-9, yaw_rate, ahead, left)

    def find_alignment(self) -> Alignment | None:
        """Heading and motion of a car that may skid; None where too little is known yet."""
        imu = self._sources.imu
        return None if imu is None else self._acceleration.find(imu.settings.position)
