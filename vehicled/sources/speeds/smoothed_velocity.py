"""Velocities that a device smooths: their lag as estimated by the filter, and the error that remains."""

from __future__ import annotations

import math

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import Group
from vehicled.vehicle.arrays import AHEAD, YAW_RATE

_NO_DELAY = 0.3
"""Share of the effect of a lag on a changing velocity that remains as an error, as smoothing is not a pure
delay."""
_LONGEST_NS = 2_000_000_000
"""Longest time between two velocities."""


class SmoothedVelocity:
    """Lag and noise of the velocities of one receiver, of the car's own speed, or of its wheels'."""

    def __init__(self, f: ObservedFilter, latency: Group, has_direction: bool = True) -> None:
        """`latency`: the filter's state of the lag. Without `has_direction` only changes of the speed count."""
        self._turns = float(has_direction)
        self._filter, self._latency = f, f.slow.view(latency)
        self._before = 0, 0.0
        """Time, ns, and estimated speed ahead of the last velocity, m/s."""

    @property
    def lag(self) -> float:
        """Lag behind their time stamps as estimated by the filter, s."""
        return float(self._latency.item(0))

    def calc_noise(self, t_ns: int) -> float:
        """Error of a velocity of that time due to smoothing, beyond its lag, m/s, 1 σ per axis."""
        ahead, turning = self._filter.pose.item(AHEAD), self._filter.pose.item(YAW_RATE)
        (before_ns, before), self._before = self._before, (t_ns, ahead)
        since = t_ns - before_ns
        along = (ahead - before) / since * 1e9 if 0 < since < _LONGEST_NS else 0.0
        return _NO_DELAY * abs(self.lag) * math.hypot(along, self._turns * ahead * turning)
