"""Speeds in coarse steps, as of buses that send whole km/h: their step shows in the readings.

A coarse reading is off by up to half a step, and by the same as long as it repeats itself: a run of equal readings
tells little more than its first one. One of zero mostly is that of a car that stands, and goes on telling so.
"""

from __future__ import annotations

_CHANGES = 8
"""Between readings, of which the least is the step."""
_COARSE = 2.0
"""Step over noise of a sample, from which on it counts: else the noise changes the reading from sample to sample."""
_REPEATS_OF_ZERO = 9
"""From which on the readings of a car that stands count alike."""


class CoarseSpeed:
    """Variance of the readings of one sensor, by the steps that they come in."""

    def __init__(self) -> None:
        self._last, self._repeats = 0.0, 0
        self._step, self._changes = 0.0, 0

    def find_variance(self, reading: float, variance: float, estimate: float) -> float:
        """Variance of a reading, m/s, rounding included; `variance`: of its noise alone, (m/s)².

        `estimate` of that speed: where it is off by more than rounding makes, a reading that repeats itself tells so.
        """
        change, self._last = abs(reading - self._last), reading
        if change > 0.0:
            self._step = min(change, self._step) if self._changes else change
            self._changes, self._repeats = self._changes + 1, 0
        else:
            self._repeats += 1
        if self._changes < _CHANGES or self._step**2 < _COARSE**2 * variance:
            return variance
        if abs(estimate - reading) > self._step:
            self._repeats = 0
        repeats = self._repeats if reading != 0.0 else min(self._repeats, _REPEATS_OF_ZERO)
        # 1 + 1/4 + 1/9 …: however long a run is, it counts less than twice.
        return (variance + self._step**2 / 12.0) * (1 + repeats) ** 2
