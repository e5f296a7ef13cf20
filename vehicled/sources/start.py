"""What must be known before the filter can start: where the car is, how fast, and which way it goes."""

from __future__ import annotations

from statistics import median

from vehicled.messages import Measurement
from vehicled.sources.sensors import Sources
from vehicled.sources.world import Fix

_APART, _APART_SHARE = 1.0, 0.15
"""m/s, and share of the speed: radii, slip and latency make less of a difference."""


def _agree(one: float, other: float) -> bool:
    return abs(one - other) < _APART + _APART_SHARE * abs(other)


class StartConditions:
    """The latest fix, speed and course that were measured."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.reset()

    def reset(self) -> None:
        """Nothing is known any more."""
        self.fix: tuple[int, Fix] | None = None
        """With the time when it was measured, ns."""
        self._speeds: dict[int, float] = {}
        """m/s, as measured last, by the precedence of the source."""
        self.course: float | None = None
        """rad, while moving."""

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
        """Fix, speed and course in a measurement, with any of `start_channels`; speed from its best source."""
        gnss = self._sources.gnss
        fix = None if gnss is None else gnss.find_fix(m.values)
        if gnss is not None and fix is not None:
            self.fix = m.t - round(gnss.settings.latency * 1e9), fix
        for n, source in enumerate(self._sources.of_speed):
            speed = source.measure_speed(m)
            if speed is not None:
                self._speeds[n] = speed
        if gnss is not None and "gnss.course" in m.values and (self.speed or 0.0) > gnss.settings.least_speed:
            self.course = m.values["gnss.course"]
