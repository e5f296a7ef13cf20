"""Time stamps of wheels that are not even: a busy bus or gateway stamps samples some milliseconds off.

A wheel at 70 rad/s turns by 0.35 rad within 5 ms, many times what a counter errs by. How uneven stamps are shows
without a model: what three consecutive angles deviate from an even rotation along their times (second differences,
`vehicled.maths.white_noise`), over the rotation rate.
"""

from __future__ import annotations

from collections import deque

from vehicled.maths.white_noise import OF_SECOND_DIFFERENCES
from vehicled.sources.imu.noise_floor import MEMORY, SPIKE

_LONGEST = 0.03
"""s between samples: over a longer time, an even rotation is no more to be expected."""
_SLOWEST = 20.0
"""rad/s: slower, the counter's steps hide milliseconds."""
_LARGEST = 0.05
"""s: more is a counter that jumps."""
_USUAL = 1e-6
"""s²: less is of no consequence, and may be slip."""


class StampJitter:
    """Variance of the times of angles, from consecutive ones."""

    def __init__(self, noise: float) -> None:
        """`noise`: variance of a sample of the angle beside its time, rad²."""
        self._noise = noise
        self._found = 0.0
        self._last: deque[tuple[float, float]] = deque(maxlen=3)
        """Times, s, and angles, rad."""
        self.rate = 0.0
        """Of rotation, by the last samples, rad/s; 0 while it is not known."""

    def take(self, t: float, angle: float) -> None:
        """An angle measured at t (s)."""
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
        """Of an angle, by its time, rad²."""
        return self._found * self.rate**2 if self._found > _USUAL else 0.0
