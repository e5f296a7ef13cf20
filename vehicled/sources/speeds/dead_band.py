"""Wheel speeds that read zero below some rate: passive sensors, and control units that suppress small rates.

The least rate that a sensor has read as its wheel began to turn shows how fast the wheel may turn while the
sensor reads zero. Until a standing car has pulled off for the first time, the largest known dead band is
assumed.
"""

from __future__ import annotations

_LARGEST = 4.0
"""rad/s: largest dead band of the sensors of cars, 1.2 m/s."""
_PER_BAND = 4.5
"""σ of a reading of zero over the least rate. The same error persists while a car pulls off: 80 readings of
four wheels within 0.4 s count as one reading with half of the least rate as σ."""


class DeadBand:
    """Finds the dead band of one wheel; rates in rad/s."""

    def __init__(self) -> None:
        self._last: float | None = None
        self.least = _LARGEST
        """Least rate that is read, as known so far, rad/s; zero for a wheel that has turned since the first
        reading, until it begins to turn again."""

    def take(self, reading: float) -> float:
        """Variance of a reading of zero in addition to its noise, (rad/s)²; 0 for other readings."""
        rate, before, self._last = abs(reading), self._last, reading
        if rate == 0.0:
            return (_PER_BAND * self.least) ** 2
        if before is None:
            self.least = 0.0
        elif self.least > 0.0:
            self.least = min(self.least, rate)
        elif before == 0.0:
            self.least = rate
        return 0.0
