"""Jumps and drifts of the gyroscope's bias: confirmed by wheels or by the filter, and made known to the filter."""

from __future__ import annotations

import math

from vehicled.filter.boundary import EstimatedFilter
from vehicled.sources.checks.bias_jump import BiasJump, doubt_falsified
from vehicled.sources.checks.course_consistency import CourseConsistency
from vehicled.sources.checks.yaw_consistency import YawConsistency
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import Imu
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.parameters import Vehicle

_DRIFT_NS = 5_000_000_000
"""Time after a jump for which the bias may go on changing at that rate."""
_FOUND, _FOUND_SIGMAS = 0.35, 3.0
"""Share of a suspected jump, and number of standard deviations, by which the filter's bias changes if it is one."""


class GyroscopeJumps:
    """Judges what the comparison with the course has found, and widens what the jump has falsified."""

    def __init__(
        self, course: CourseConsistency, wheels: YawConsistency, vehicle: Vehicle, sensors: Sensors
    ) -> None:
        self._course, self._wheels, self._vehicle = course, wheels, vehicle
        self.configure(sensors)
        self.reset()

    def configure(self, sensors: Sensors) -> None:
        """Take settings, also while running."""
        self._antenna = (sensors.gnss or Gnss()).antenna
        self._upward = (sensors.imu or Imu()).R_imu_vehicle[:, 2].tolist()
        """(3,) The car's upward axis, IMU axes."""

    def reset(self) -> None:
        """Restart with the filter."""
        self._drift, self._until_ns = 0.0, 0
        """rad²/s³, at which the variance of the bias grows, and until when."""
        self._new: BiasJump | None = None
        """Jump that the filter does not know yet."""
        self._suspected: tuple[float, BiasJump] | None = None
        """Bias, rad/s, when it seemed to have jumped, and the jump; None once it is known whether it has."""

    def judge(self, jump: BiasJump) -> bool:
        """Take a difference of gyroscope and course as a jump, unless the wheels contradict; whether they confirm it.

        While brakes make wheels slip, they show nothing. A large difference is then suspected to be a jump: the
        filter doubts the gyroscope, and finds by all sensors whether its bias has changed.
        """
        confirmed = self._wheels.confirm(jump.angle, jump.within)
        if confirmed is False:
            self._course.forget()
        elif confirmed or (jump.is_large and self._wheels.by_slip > abs(jump.angle)):
            self._suspected = None if confirmed else (self._course.bias, jump)
            self._course.begin_anew()
            self._new = jump
        return confirmed is True

    def note(self, jump: BiasJump) -> None:
        """Take a jump that other sensors than the course have shown."""
        self._new = jump

    def drifts(self, now_ns: int) -> bool:
        """Whether the bias may be changing at a time."""
        return now_ns < self._until_ns

    def widen(self, f: EstimatedFilter, now_ns: int) -> int | None:
        """Make the filter doubt what a new jump has falsified; returns until when the bias may change, ns."""
        jump, self._new = self._new, None
        if jump is None:
            return None
        self._drift, self._until_ns = jump.rate**2 / jump.within, now_ns + _DRIFT_NS
        doubt_falsified(f, jump, self._upward, self._vehicle, self._antenna)
        return self._until_ns

    def widen_drift(self, f: EstimatedFilter, now_ns: int, interval: float) -> None:
        """Let the bias change for `interval` s more, if it may be drifting."""
        if self.drifts(now_ns):
            sigma = math.sqrt(self._drift * interval)
            f.add_common_error(
                (GYRO_BIAS, element, share * sigma)
                for element, share in zip(GYRO_BIAS.elements, self._upward, strict=True)
            )

    def has_confirmed(self, sigma: float) -> bool:
        """Whether a suspected jump has just turned out to be one; `sigma`: of the filter's bias, rad/s."""
        if self._suspected is None:
            return False
        before, jump = self._suspected
        found = abs(self._course.bias - before) > max(_FOUND * abs(jump.rate), _FOUND_SIGMAS * sigma)
        if not (found or self._wheels.confirm(jump.angle, jump.within)):
            return False
        self._suspected = None
        return True
