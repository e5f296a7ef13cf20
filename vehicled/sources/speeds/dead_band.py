"""Wheels that read zero until they turn fast enough: passive sensors, and control units that leave small rates out.

The least rate that a sensor has read as its wheel began to turn shows how fast that may turn while it reads zero.
Before a car that stands has pulled off for the first time, its sensors may leave out as much as any do.
"""

from __future__ import annotations

_LARGEST = 4.0
"""rad/s: what sensors of cars leave out at most, 1.2 m/s."""
_PER_BAND = 4.5
"""σ of a reading of zero over the least rate. The same error lasts while a car pulls off: 80 readings of four wheels
within 0.4 s count as one of half of that rate."""


class DeadBand:
    """Finds the band of one wheel; rates in rad/s."""

    def __init__(self) -> None:
        self._last: float | None = None
        self.least = _LARGEST
        """That has been read, or may yet be, rad/s; zero where a wheel has turned from the first reading on, until it
        begins to turn again."""

    def take(self, reading: float) -> float:
        """The variance that a reading of zero has beside its noise, (rad/s)²."""
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
