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
    """Readings of all instruments at one time."""

    t: int
    """Time of measurement (not of arrival), ns, by a clock common to all samples."""
    readings: Sequence[np.ndarray | float | None]
    """One per instrument, None where there is none."""


class Follower:
    """Advances a filter to the time of each reading, never beyond.

        for sample in iter(queue.get, None):  # another thread puts, and None in the end
            follower.take(sample)

    The filter's noise and its instruments' multipliers may be changed meanwhile, by any thread.
    """

    def __init__(self, particles: ParticleFilter, longest: float, pace: Pace | None = None) -> None:
        """`longest`: step of integration, s; longer intervals between readings are divided.

        `pace` shortens steps if particles turn fast, and excludes those that turn too fast even then. Noise
        of motion is added once per `longest`, however frequent readings are.
        """
        self.filter, self._longest, self._pace = particles, longest, pace
        self._undisturbed = 0.0
        """Time since noise was last added, s."""
        self._last: int | None = None
        self.taken = 0
        self.late = 0
        """Number of samples older than the last one, which are dropped."""

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
        # A gap equal to the longest step, except for rounding, takes one step.
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
