"""Values that are removed before the filter: impossible, stuck, or in conflict with other sensors.

Wrong units are found here, too, but removed by nothing except the filter's gates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from vehicled.messages import Measurement
from vehicled.sources.course_consistency import WATCHED, BiasJump, CourseConsistency
from vehicled.sources.imu import GYROSCOPES
from vehicled.sources.limits import find_absurd
from vehicled.sources.mounting_check import MountingCheck
from vehicled.sources.sensors import MOST_COMBINATIONS, Sensors, find_limits
from vehicled.sources.stuck import StuckChannels
from vehicled.sources.unit_check import UnitCheck
from vehicled.sources.updates import MeasurementUpdates
from vehicled.sources.yaw_consistency import YawConsistency
from vehicled.vehicle.parameters import Vehicle


class _Checks(NamedTuple):
    """What a measurement with certain channels is checked by."""

    limits: list[float]
    """By channel."""
    may_be_stuck: bool
    has_yaw: bool
    """Whether any channel has a part in the comparison of yaw rates."""
    has_course: bool
    """Likewise of gyroscope and course."""


class Screening:
    """Removes such values from measurements, each with a record that has the reason."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle, updates: MeasurementUpdates) -> None:
        """`updates`: takes the records."""
        self._limits, self._stuck, self._updates = find_limits(), StuckChannels(), updates
        self._yaw = YawConsistency(sensors.imu, vehicle)
        self._course = CourseConsistency(sensors.imu)
        self.gyro_jump: BiasJump | None = None
        """Of the gyroscope's bias about the vertical axis, found since the step before."""
        self._units, self._mounting = UnitCheck(sensors, vehicle), MountingCheck(sensors, vehicle)
        self._averages = self._units.averages
        self._checks: dict[tuple[str, ...], _Checks] = {}
        """By the channels of a measurement."""
        self.removed = {"absurd": 0, "stuck": 0, "implausible": 0, "mounting": 0}
        """How many values, by reason."""
        self.latest: dict[str, tuple[int, str]] = {}
        """By channel: the step (ns) that removed its last such value, and the reason."""

    def configure(self, sensors: Sensors) -> None:
        """Other settings, also while running."""
        self._yaw.configure(sensors.imu)
        self._course.configure(sensors.imu)
        self._units.configure(sensors)
        self._mounting.configure(sensors)

    def reset(self) -> None:
        """The filter begins anew: nothing has been measured yet. What is known of units stays."""
        self._stuck.reset()
        self._yaw.reset()
        self._course.reset()
        self.gyro_jump = None

    @property
    def is_gyroscope_doubtful(self) -> bool:
        """Whether other sensors contradict it."""
        return self._yaw.is_doubtful or not self._yaw.is_plausible

    def find_wrong_units(self) -> dict[str, str]:
        """Channels that seem to be in another unit than that of the channel, in words."""
        return self._units.find()

    def remove(self, m: Measurement, ahead: float, steering: float | None) -> Measurement:
        """The rest of a measurement. `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s."""
        self._units.take(m)
        if self._units.averages is not self._averages:
            self._averages = self._units.averages
            self._mounting.take(self._averages, steering)
        if self._mounting.wrong and (exchanged := self._mounting.find(m)):
            m = self._without(m, exchanged, "mounting")
        channels = tuple(m.values)
        checks = self._checks.get(channels) or self._find_checks(channels)
        if absurd := find_absurd(m, checks.limits):
            m = self._without(m, absurd, "absurd")
        if checks.may_be_stuck and (repeated := self._stuck.find(m, ahead)):
            m = self._without(m, repeated, "stuck")
        if checks.has_yaw and not self._yaw.take(m, ahead, steering):
            m = self._without(m, [c for c in GYROSCOPES if c in m.values], "implausible")
        jump = self._course.take(m, ahead) if checks.has_course else None
        if jump is not None:
            self.gyro_jump = jump
            self.latest[GYROSCOPES[2]] = self._updates.step_ns, "bias"
        return m

    def _find_checks(self, channels: tuple[str, ...]) -> _Checks:
        limits = [self._limits.get(channel, math.inf) for channel in channels]
        watched = [
            not watched.isdisjoint(channels) for watched in (self._stuck.watched, self._yaw.watched, WATCHED)
        ]
        checks = _Checks(limits, *watched)
        if len(self._checks) < MOST_COMBINATIONS:
            self._checks[channels] = checks
        return checks

    def _without(self, m: Measurement, channels: Sequence[str], reason: str) -> Measurement:
        self.removed[reason] += len(channels)
        for channel in channels:
            self._updates.record(m, channel, [m.values[channel]], reason)
            self.latest[channel] = self._updates.step_ns, reason
        rest = {c: v for c, v in m.values.items() if c not in channels}
        return Measurement(m.source, m.t, m.arrival, rest)
