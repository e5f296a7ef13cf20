"""Runs of equal samples: how long the usual ones are, and which are too long beside the noise of a sensor."""

from __future__ import annotations

import math

ROUNDING = 1e-5
"""m, m/s, rad: smaller numbers count as zero."""
_NOISY, _REPETITIONS, _OF_USUAL_RUN, _TIME_NS = 3.0, 10, 3, 100_000_000
"""Noise in digits from which on a sensor changes with nearly each sample; it is stuck after so many repetitions, as a
multiple of its usual ones, and after so long."""


class SampleRun:
    """A run of samples that are equal to the last bit."""

    __slots__ = ("begun_ns", "repetitions", "value")

    def __init__(self) -> None:
        self.value: float | tuple[float, ...] = math.nan
        self.begun_ns = self.repetitions = 0


class NoisyRun(SampleRun):
    """A run of a sensor whose noise may be known: then a run can be too long for it."""

    __slots__ = ("_usual_repetitions", "digit")
    value: float

    def __init__(self) -> None:
        super().__init__()
        self.digit = math.inf
        """Least change so far, in the unit of the sensor."""
        self._usual_repetitions = 0
        """Most repetitions in a run of the working sensor."""

    def add(self, value: float, t: int, is_sound: bool) -> bool:
        """Add a sample at t, ns. `is_sound`: whether the run before it was one of a working sensor.

        Returns whether a run begins.
        """
        if value == self.value:
            self.repetitions += 1
            return False
        if is_sound:
            self._usual_repetitions = max(self._usual_repetitions, self.repetitions)
        if (change := abs(value - self.value)) > ROUNDING:
            self.digit = min(self.digit, change)
        self.value, self.begun_ns, self.repetitions = value, t, 0
        return True

    def is_long(self, t: int) -> bool:
        """Whether it is too long at t, ns, for a sensor that noise changes with nearly every sample."""
        least = max(_REPETITIONS, _OF_USUAL_RUN * self._usual_repetitions)
        return self.repetitions >= least and t - self.begun_ns >= _TIME_NS

    def is_noise(self, sigma: float) -> bool:
        """Whether noise of so much, 1 σ, changes the sensor with nearly every sample."""
        return sigma > _NOISY * self.digit
