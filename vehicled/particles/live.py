"""The particle filter on readings as they come in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.particles.filter import ParticleFilter
from vehicled.particles.pace import Pace


@dataclass(frozen=True)
class Sample:
    """What instruments have read at one time."""

    t: int
    """ns, on any clock that all samples share: of the measurement, not of its arrival."""
    readings: Sequence[np.ndarray | float | None]
    """One per instrument, None where there is none."""


class Follower:
    """Steps a filter to the time of each reading, never beyond.

        for sample in iter(queue.get, None):  # another thread puts, and None in the end
            follower.take(sample)

    The filter's noise and its instruments' multipliers may be changed meanwhile, by any thread.
    """

    def __init__(self, particles: ParticleFilter, longest: float, pace: Pace | None = None) -> None:
        """`longest` step of integration, s: where readings are further apart, several are made.

        `pace` makes them shorter where particles turn fast, and excludes those that turn too fast for that. The noise
        of motion comes once in the time of the longest, however often there are readings.
        """
        self.filter, self._longest, self._pace = particles, longest, pace
        self._undisturbed = 0.0
        """s since the last noise."""
        self._last: int | None = None
        self.taken = 0
        self.late = 0
        """Samples older than the last one, which are left out."""

    def take(self, sample: Sample) -> bool:
        """Advance to a sample's time and take it into account; returns False for one that is too late.

        Raises as `ParticleFilter.step`.
        """
        in_time = self.advance(sample.t)
        if in_time:
            self.filter.update(sample.readings)
        return in_time

    def advance(self, t: int) -> bool:
        """Advance to the time of a sample, ns; returns False for one that is too late.

        The first sample has the time of the initial particles. Raises FloatingPointError when no particle is left.
        """
        gap = 0.0 if self._last is None else (t - self._last) * 1e-9
        if gap < 0.0:
            self.late += 1
            return False
        # A gap of just the longest step, but for rounding, is one.
        steps = math.ceil(gap / self._longest - 1e-6)
        for _ in range(steps):
            self._undisturbed += gap / steps
            due = self._undisturbed > self._longest * (1.0 - 1e-6)
            self._step(gap / steps, due)
            if due:
                self._undisturbed = max(self._undisturbed - self._longest, 0.0)
        self._last = t
        self.taken += 1
        return True

    def _step(self, h: float, disturbed: bool) -> None:
        if self._pace is None:
            self.filter.predict(h, disturbed)
            return
        parts = self._pace.divide(h, self.filter.weights)
        for k in range(parts):
            self.filter.predict(h / parts, disturbed and k == parts - 1)
            self.filter.exclude(self._pace.find_absurd(h / parts))
