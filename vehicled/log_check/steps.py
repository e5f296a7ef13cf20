"""Finds gyroscopes whose readings come in steps larger than their noise."""

from __future__ import annotations

from vehicled.messages import Measurement
from vehicled.sources.imu.imu import GYROSCOPES

_CHANGES = 50
"""Number of changes of an axis after which the least of them is its step: noise would change by far less."""


class StepFinder:
    """Takes the samples of the gyroscopes; its memory does not grow."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._least: dict[str, float] = {}
        """By axis: least change of its readings, rad/s."""
        self._changes = dict.fromkeys(GYROSCOPES, 0)

    def take(self, m: Measurement) -> None:
        """Take a measurement of any sensor."""
        for axis in GYROSCOPES:
            value = m.values.get(axis)
            if value is None:
                continue
            change = abs(value - self._last.get(axis, value))
            if change > 0.0:
                self._least[axis] = min(change, self._least.get(axis, change))
                self._changes[axis] += 1
            self._last[axis] = value

    def find(self) -> float:
        """Step of the readings, rad/s: the same for all axes; 0 if too few of them have changed."""
        known = (self._least[axis] for axis in GYROSCOPES if self._changes[axis] >= _CHANGES)
        return min(known, default=0.0)
