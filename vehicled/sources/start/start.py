"""What must be known before the filter can start: where the car is, how fast, and which way it goes."""

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
from vehicled.sources.world import Fix
from vehicled.units import Vector

_APART, _APART_SHARE = 1.0, 0.15
"""m/s, and share of the speed: radii, slip and latency make less of a difference."""

_DIRECTED = 0.3
"""m/s: a speed below the negative of it is backwards, and not noise."""

_OLD_NS = 2_000_000_000
"""A speed that was measured so long before what came last is not that of the car any more."""

_TOGETHER_NS = 50_000_000
"""Between samples of one motion: gyroscopes and accelerometers may come in messages of their own."""

_COURSE_SIGMA = 0.03
"""rad: of a heading that is taken from the first course over ground."""


def _agree(one: float, other: float) -> bool:
    return abs(one - other) < _APART + _APART_SHARE * abs(other)


class StartConditions:
    """The latest fix, speed and heading that were measured."""

    def __init__(self, sources: Sources) -> None:
        self._sources, self._acceleration = sources, AccelerationHeading()
        self.reset()

    def reset(self) -> None:
        """Nothing is known any more."""
        self.fix: tuple[int, Fix, Vector] | None = None
        """With the time when it was measured, ns, and the place of the antenna, m in vehicle axes."""
        self._fix_by = 0
        """Number of the receiver that it comes from."""
        self._speeds: dict[int, tuple[int, float]] = {}
        """As measured last, by the precedence of the source: time, ns, and speed, m/s."""
        self._speed_ns = 0
        """Time of the one that came last, ns."""
        self._signed: set[int] = set()
        """Sources, by their precedence, whose speeds have been negative."""
        self._awaited: set[int] = set()
        """Those that have sent something, be it only the first angle of a wheel."""
        self._ahead: deque[float] = deque(maxlen=2)
        """m/s, of the estimate a second ago and before; the last one may have been led astray by then."""
        self._course: tuple[float, float, Vector] | None = None
        """Over ground, rad; the speed below which it is not used, m/s; place of its antenna, m in vehicle axes."""
        self._heading: tuple[float, float] | None = None
        """Yaw by two antennas, rad, and its σ."""
        self.yaw_ns = 0
        """When the latest of these was measured, ns."""
        self.is_blind = False
        """Whether the filter has started without a speed, as if the car stood, and none has come yet."""
        self._acceleration.reset()
        self._motion: list[tuple[int, float] | None] = [None, None, None]
        """Time, ns, with yaw rate, and forces ahead and to the left, since they were last complete."""
        self.forces: tuple[float, float] | None = None
        """m/s², along the car and to the left, as measured last, less speed times yaw rate."""

    def note_start(self) -> None:
        """The filter has started with what is known."""
        self.is_blind = self.speed is None and bool(self._sources.of_speed)

    def has_begun_wrong(self, ahead: float) -> bool:
        """Whether the first speed after a start without any, or the estimate's, m/s, is that of a car that drives.

        What the filter has taken for biases and slopes until then is wrong then, too.
        """
        if not self.is_blind or (speed := self.speed) is None:
            return False
        self.is_blind = False
        return max(abs(ahead), abs(speed)) > _APART

    def keep_direction(self, ahead: float) -> None:
        """Take the speed of an estimate that is good, m/s; to be called once a second."""
        self._ahead.append(ahead)

    def set_direction(self, ahead: float) -> None:
        """The speed by a receiver, m/s, where an estimate is not good."""
        self._ahead.clear()
        self._ahead.append(ahead)

    def forget_place(self) -> None:
        """Fix and heading are not known any more."""
        self.fix = self._course = self._heading = None

    @property
    def course_antenna(self) -> Vector | None:
        """The place whose course is taken for the heading, m in vehicle axes; None where it is none."""
        return None if self._heading is not None or self._course is None else self._course[2]

    @property
    def yaw(self) -> tuple[float, float] | None:
        """rad, with its σ: by two antennas, or else by the course over ground while moving."""
        if self._heading is not None or self._course is None:
            return self._heading
        (course, least, _), speed = self._course, self.speed or 0.0
        backwards = math.pi if speed < 0.0 else 0.0
        return (0.5 * math.pi - course + backwards, _COURSE_SIGMA) if abs(speed) > least else None

    @property
    def speed(self) -> float | None:
        """m/s, negative backwards: by the preferred source, or by the median of three or more if that is far off."""
        speeds = self._with_signs()
        if not speeds:
            return None
        preferred, middle = speeds[min(speeds)], median(speeds.values())
        return preferred if len(speeds) < 3 or _agree(preferred, middle) else middle

    @property
    def is_speed_known(self) -> bool:
        """Whether it is measured, and not by two sources of which one must be wrong."""
        speeds = list(self._with_signs().values())
        return len(speeds) > 0 and (len(speeds) != 2 or _agree(*speeds))

    @property
    def is_motion_complete(self) -> bool:
        """Whether the sensors that show forwards or backwards, and how fast the car turns, have measured.

        Devices are connected one after the other; a car in a turn moves otherwise than one that goes straight on.
        """
        of_speed, imu = self._sources.of_speed, self._sources.imu
        signed = {s.settings.SPEED_PRECEDENCE for s in of_speed if not isinstance(s, GnssSource)}
        if signed and signed.isdisjoint(self._speeds):
            return False
        # What is positive may be a magnitude, as long as another sensor may still show that the car goes backwards.
        may_be_backwards = _APART < (self.speed or 0.0) < FASTEST_BACKWARDS
        if may_be_backwards and not (signed & self._awaited) <= self._speeds.keys():
            return False
        return imu is None or not imu.has_gyroscopes or self._sources.yaw_rate is not None

    def _with_signs(self) -> dict[int, float]:
        """Speeds with the sign of the preferred one of those that have one, else of the estimate.

        A speed that is not negative may be a magnitude: so it is of receivers, and on the buses of most cars.
        """
        # Settings that were read again may have left a source out; another may have fallen silent.
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
        """Whether a car with such speeds over ground goes backwards: by the estimate, or by heading and course."""
        before = self._ahead[0] if self._ahead else 0.0
        if abs(before) > _APART:
            return before < 0.0 and any(_agree(-before, v) for v in speeds)
        if self._heading is None or self._course is None:
            return False
        course, least, _ = self._course
        is_opposite = math.cos(0.5 * math.pi - course - self._heading[0]) < 0.0
        return is_opposite and any(least < v < FASTEST_BACKWARDS for v in speeds)

    def take(self, m: Measurement, readers: Readers, is_running: bool) -> None:
        """Fix, speed, heading and motion in a measurement, each from its best source.

        `readers`: of its channels. While the filter runs speeds alone: it would begin anew at its own place.
        """
        for source in readers.speeds:
            precedence = source.settings.SPEED_PRECEDENCE
            assert precedence is not None
            self._awaited.add(precedence)
            speed = source.measure_speed(m)
            if speed is not None:
                self._speeds[precedence], self._speed_ns = (m.t, speed), m.t
                if speed < -_DIRECTED:
                    self._signed.add(precedence)
        if not is_running:
            self._take_place(m)
            self._take_motion(m)

    def _take_place(self, m: Measurement) -> None:
        for n, receiver in enumerate(self._sources.receivers):
            fix = receiver.find_fix(m.values)
            if fix is not None and (self.fix is None or n <= self._fix_by):
                settings, self._fix_by = receiver.settings, n
                self.fix = m.t - round(settings.latency * 1e9), fix, settings.antenna
            self._take_heading(m, receiver, n == self._fix_by)

    def _take_heading(self, m: Measurement, receiver: GnssSource, accelerates: bool) -> None:
        """`accelerates`: whether accelerations are found by its velocities."""
        yaw, course = receiver.find_yaw(m.values), receiver.find_course(m.values)
        if yaw is not None or course is not None:
            self.yaw_ns = m.t - round(receiver.settings.latency * 1e9)
        if yaw is not None:
            self._heading = yaw
        if course is not None:
            self._course = course, receiver.settings.least_speed, receiver.settings.antenna
            if accelerates and (speed := receiver.measure_speed(m)) is not None:
                self._acceleration.take_velocity(self.yaw_ns * 1e-9, speed, course, receiver.settings.antenna)

    def _take_motion(self, m: Measurement) -> None:
        """What the IMU measures before the filter runs."""
        imu = self._sources.imu
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
