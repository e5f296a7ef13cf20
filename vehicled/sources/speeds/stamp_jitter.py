"""Jitter of the wheels' time stamps: a busy bus or gateway stamps samples with errors of some milliseconds.

A wheel at 70 rad/s turns by 0.35 rad within 5 ms, many times the error of a counter. The jitter is found
without a model: deviation of three consecutive angles from an even rotation over their times (second
differences, `vehicled.maths.white_noise`), divided by the rotation rate.
"""

from __future__ import annotations

from collections import deque

from vehicled.maths.white_noise import OF_SECOND_DIFFERENCES
from vehicled.sources.imu.noise_floor import MEMORY, SPIKE

_LONGEST = 0.03
"""s: longest time between samples over which a wheel rotates evenly."""
_SLOWEST = 20.0
"""rad/s: at lower rates, the steps of the counter hide milliseconds."""
_LARGEST = 0.05
"""s: a larger deviation is a jump of the counter."""
_USUAL = 1e-6
"""s²: a smaller variance does not matter, and may be slip."""


class StampJitter:
    """Variance of the time stamps of angles, from consecutive angles."""

    def __init__(self, noise: float) -> None:
        """`noise`: variance of a sample of the angle apart from its time, rad²."""
        self._noise = noise
        self._found = 0.0
        self._last: deque[tuple[float, float]] = deque(maxlen=3)
        """Times, s, and angles, rad."""
        self.rate = 0.0
        """Rotation rate by the last samples, rad/s; 0 if unknown."""

    def take(self, t: float, angle: float) -> None:
        """Take an angle (rad) measured at t (s)."""
        last = self._last
        last.append((t, angle))
        (before, a), (middle, b), (now, c) = last if len(last) == 3 else (last[-1],) * 3
        if not 0.0 < now - before < 2.0 * _LONGEST:
            self.rate = 0.0
            return
        self.rate = (c - a) / (now - before)
        if abs(self.rate) < _SLOWEST:
            return
        apart = (a - 2.0 * b + c) / self.rate - (before - 2.0 * middle + now)
        if abs(apart) > _LARGEST:
            return
        square = apart * apart / OF_SECOND_DIFFERENCES - self._noise / self.rate**2
        self._found += (min(square, SPIKE * max(self._found, _USUAL)) - self._found) / MEMORY

    @property
    def variance(self) -> float:
        """Variance of an angle due to its time stamp, rad²."""
        return self._found * self.rate**2 if self._found > _USUAL else 0.0
