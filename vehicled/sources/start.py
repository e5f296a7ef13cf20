"""What must be known before the filter can start: where the car is, how fast, and which way it goes."""

from __future__ import annotations

import math
from statistics import median

from vehicled.messages import Measurement
from vehicled.sources.gnss import GnssSource
from vehicled.sources.sensors import Sources
from vehicled.sources.world import Fix
from vehicled.units import Vector

_APART, _APART_SHARE = 1.0, 0.15
"""m/s, and share of the speed: radii, slip and latency make less of a difference."""

_COURSE_SIGMA = 0.03
"""rad: of a heading that is taken from the first course over ground."""


def _agree(one: float, other: float) -> bool:
    return abs(one - other) < _APART + _APART_SHARE * abs(other)


class StartConditions:
    """The latest fix, speed and heading that were measured."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.reset()

    def reset(self) -> None:
        """Nothing is known any more."""
        self.fix: tuple[int, Fix, Vector] | None = None
        """With the time when it was measured, ns, and the place of the antenna, m in vehicle axes."""
        self._fix_by = 0
        """Number of the receiver that it comes from."""
        self._speeds: dict[int, float] = {}
        """m/s, as measured last, by the precedence of the source."""
        self.yaw: tuple[float, float] | None = None
        """rad, with its σ: by two antennas, or else by the course over ground while moving."""
        self._has_two_antennas = False
        """Whether it is by two antennas."""

    @property
    def speed(self) -> float | None:
        """m/s: by the preferred source, or by the median of three or more where that is far from it."""
        if not self._speeds:
            return None
        preferred, middle = self._speeds[min(self._speeds)], median(self._speeds.values())
        return preferred if len(self._speeds) < 3 or _agree(preferred, middle) else middle

    @property
    def is_speed_known(self) -> bool:
        """Whether it is measured, and not by two sources of which one must be wrong."""
        speeds = list(self._speeds.values())
        return len(speeds) > 0 and (len(speeds) != 2 or _agree(*speeds))

    def take(self, m: Measurement) -> None:
        """Fix, speed and heading in a measurement, with any of `start_channels`; each from its best source."""
        for n, source in enumerate(self._sources.of_speed):
            speed = source.measure_speed(m)
            if speed is not None:
                self._speeds[n] = speed
        for n, receiver in enumerate(self._sources.receivers):
            fix = receiver.find_fix(m.values)
            if fix is not None and (self.fix is None or n <= self._fix_by):
                settings, self._fix_by = receiver.settings, n
                self.fix = m.t - round(settings.latency * 1e9), fix, settings.antenna
            self._take_heading(m, receiver)

    def _take_heading(self, m: Measurement, receiver: GnssSource) -> None:
        yaw, course = receiver.find_yaw(m.values), receiver.find_course(m.values)
        if yaw is not None:
            self._has_two_antennas, self.yaw = True, yaw
            return
        moving = (self.speed or 0.0) > receiver.settings.least_speed
        if course is not None and moving and not self._has_two_antennas:
            self.yaw = 0.5 * math.pi - course, _COURSE_SIGMA
