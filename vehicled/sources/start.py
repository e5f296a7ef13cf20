"""What must be known before the filter can start: where the car is, how fast, and which way it goes."""

from __future__ import annotations

from vehicled.messages import Measurement
from vehicled.sources.sensors import Sources
from vehicled.sources.world import Fix


class StartConditions:
    """The latest fix, speed and course that were measured."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.reset()

    def reset(self) -> None:
        """Nothing is known any more."""
        self.fix: tuple[int, Fix] | None = None
        """With the time when it was measured, ns."""
        self.speed: float | None = None
        """m/s."""
        self.course: float | None = None
        """rad, while moving."""

    def take(self, m: Measurement) -> None:
        """Fix, speed and course in a measurement, with any of `start_channels`; speed from its best source."""
        gnss = self._sources.gnss
        fix = None if gnss is None else gnss.find_fix(m.values)
        if gnss is not None and fix is not None:
            self.fix = m.t - round(gnss.settings.latency * 1e9), fix
        for source in self._sources.of_speed:
            speed = source.measure_speed(m)
            if speed is not None:
                self.speed = speed
                break
        if gnss is not None and "gnss.course" in m.values and (self.speed or 0.0) > gnss.settings.least_speed:
            self.course = m.values["gnss.course"]
