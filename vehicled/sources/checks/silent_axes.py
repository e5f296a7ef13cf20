"""A lateral accelerometer or a gyroscope that measures nothing in a bend, as after a broken contact.

In a bend the lateral acceleration is v ω, by the yaw rate of the gyroscope and by that of the steering, apart
from moments in which the sideslip changes. An axis that shows hardly anything while the other one and the steering
agree is lost. Other checks find that as well, but later: courses are rare, and wheels measure coarsely.
"""

from __future__ import annotations

from typing import NamedTuple

_LEAST, _LITTLE, _NOTHING, _AGREEING, _LASTING, _FEWEST = 2.0, 0.2, 0.5, 0.4, 0.08, 3
"""Least lateral acceleration of a bend, m/s²; share of it, and m/s² of force, below which an axis shows nothing;
share within which the other one and the steering agree; and time, s, and number of calls for which this has to last.
"""


class SilentAxis(NamedTuple):
    """An axis that measures nothing."""

    is_gyroscope: bool
    """Else it is the lateral accelerometer."""
    within: float
    """s: time in which this has shown."""
    calls: int
    """Number of calls in which it has."""
    missing: float
    """m/s: what it has shown meanwhile, as a lateral acceleration, less what it should have shown."""


class SilentAxes:
    """Finds a lateral accelerometer, or a gyroscope about the vertical axis, that measures nothing."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._accelerometer, self._gyroscope = SilentAxis(False, 0.0, 0, 0.0), SilentAxis(True, 0.0, 0, 0.0)

    def take(self, since: float, force: float, by_rate: float, steered: float) -> SilentAxis | None:
        """The axis that is lost, if any.

        `since` the last call, s; lateral acceleration by the accelerometer, and, with the speed, by the gyroscope
        and by the steering, m/s².
        """
        self._accelerometer = _count(self._accelerometer, since, force, by_rate, steered)
        self._gyroscope = _count(self._gyroscope, since, by_rate, force, steered)
        for axis in (self._accelerometer, self._gyroscope):
            if axis.within > _LASTING and axis.calls >= _FEWEST:
                self.reset()
                return axis
        return None


def _count(axis: SilentAxis, since: float, shown: float, other: float, steered: float) -> SilentAxis:
    """Go on counting the time for which an axis has shown nothing; `other`: by the other sensor."""
    size = abs(other)
    is_bend = size > _LEAST and abs(steered - other) < _AGREEING * size
    largest = _LITTLE * size if axis.is_gyroscope else min(_LITTLE * size, _NOTHING)
    if not is_bend or abs(shown) > largest:
        return axis._replace(within=0.0, calls=0, missing=0.0)
    missing = axis.missing + since * (shown - other)
    return SilentAxis(axis.is_gyroscope, axis.within + since, axis.calls + 1, missing)
