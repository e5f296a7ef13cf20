"""Gyroscopes and accelerometers with readings in coarse steps: the step follows from the readings.

Rounding is an error that lasts for as long as the reading repeats itself. It is not white as the configured noise
is: counted as such, or not at all, it makes the filter far too certain. With noise as large as a step, readings that
change every few samples have the information that rounding leaves them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import eq

_CHANGES = 8
"""Number of changes by one step after which the step is known, and of repetitions that fine readings do not have."""
_SMALLER, _LARGER = 0.9, 1.1
"""Multiples of the least change so far between which another one counts as the same step."""
COARSE = 2.5
"""Ratio of step to configured noise from which the step matters: with more noise the reading changes from sample
to sample."""
_AXES = 3
"""Of each kind."""


class _Axis:
    """Readings of one axis."""

    __slots__ = ("_count", "_least", "_repetitions")

    def __init__(self) -> None:
        self._least, self._count = math.inf, 0
        """Least change at the beginning of a run of equal readings; and number of changes as large."""
        self._repetitions = 0

    def note_repetition(self, change: float) -> bool:
        """Take a repetition; `change` by which the run began, 0 if it had begun before.

        Returns whether the step may be another one now.
        """
        self._repetitions += 1
        known = self._least, self._count >= _CHANGES
        if 0.0 < change < _SMALLER * self._least:
            self._least, self._count = change, 1
        elif 0.0 < change < _LARGER * self._least:
            self._least, self._count = min(change, self._least), self._count + 1
        return self._repetitions == _CHANGES or known != (self._least, self._count >= _CHANGES)

    def find_step(self, usual: float = math.inf) -> float:
        """The step; infinite if not known. `usual`: of other axes, assumed while readings do not deny it."""
        if self._count >= _CHANGES:
            return self._least
        return usual if self._repetitions >= _CHANGES and self._least > _SMALLER * usual else math.inf


class CoarseAxes:
    """Variances of the samples of an IMU, gyroscopes first, including their steps."""

    def __init__(self) -> None:
        self._axes = [_Axis() for _ in range(2 * _AXES)]
        self._last = self._before = (math.nan,) * (2 * _AXES)
        self._steps = [0.0] * (2 * _AXES)
        """By axis: its step if it matters, else 0; rad/s and m/s²."""
        self.found: list[tuple[int, float]] = []
        """Axes, by number, whose steps have been found to matter since this list was last cleared; the steps."""
        self.configure([0.0] * (2 * _AXES))

    def configure(self, variances: Sequence[float]) -> None:
        """Set the configured variances by axis, (rad/s)² and (m/s²)²."""
        self._configured = variances
        self._find_steps()

    def take(self, values: Sequence[float], measured: Sequence[float]) -> bool:
        """Take a sample by axis; `measured`: 1, or 0 if not. Returns whether `variances` have changed."""
        last, before = self._last, self._before
        if 0.0 in measured:
            values = [v if there else math.nan for v, there in zip(values, measured, strict=True)]
            kept = [*zip(values, last, before, measured, strict=True)]
            self._last = tuple(v if there else a for v, a, _, there in kept)
            self._before = tuple(a if there else b for _, a, b, there in kept)
        else:
            self._last, self._before = tuple(values), last
        if True not in map(eq, values, last):
            return False
        changed = False
        for axis, value, a, b in zip(self._axes, values, last, before, strict=True):
            if value == a:
                changed |= axis.note_repetition(abs(a - b))
        if not changed:
            return False
        known = self.variances
        self._find_steps()
        return self.variances != known

    def _find_steps(self) -> None:
        for first in (0, _AXES):
            axes = self._axes[first : first + _AXES]
            usual = min(axis.find_step() for axis in axes)
            for k, axis in enumerate(axes, first):
                step = axis.find_step(usual)
                coarse = math.isfinite(step) and step * step > COARSE**2 * self._configured[k]
                if coarse and not self._steps[k]:
                    self.found.append((k, step))
                self._steps[k] = step if coarse else 0.0
        self.variances = [max(v, step * step) for v, step in zip(self._configured, self._steps, strict=True)]
        """Including the steps."""
