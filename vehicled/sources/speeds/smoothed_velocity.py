"""Velocities that a device smooths: their lag as far as the filter has found it, and by how much they are wrong."""

from __future__ import annotations

import math

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import Group
from vehicled.vehicle.arrays import AHEAD, YAW_RATE

_NO_DELAY = 0.3
"""Share of what a lag makes of a velocity that changes by which smoothing is no mere delay."""
_LONGEST_NS = 2_000_000_000
"""Between two velocities."""


class SmoothedVelocity:
    """Lag and noise of the velocities of one receiver, of the car's own speed, or of its wheels'."""

    def __init__(self, f: ObservedFilter, latency: Group, has_direction: bool = True) -> None:
        """`latency`: the filter's state of the lag. Without a direction only changes of the speed count."""
        self._turns = float(has_direction)
        self._filter, self._latency = f, f.slow.view(latency)
        self._before = 0, 0.0
        """Time, ns, and estimated speed ahead of the last velocity, m/s."""

    @property
    def lag(self) -> float:
        """By how much they are older than what they come with, as far as the filter has found, s."""
        return float(self._latency.item(0))

    def calc_noise(self, t_ns: int) -> float:
        """Error that smoothing makes of a velocity of that time beside its lag, m/s, 1 σ per axis."""
        ahead, turning = self._filter.pose.item(AHEAD), self._filter.pose.item(YAW_RATE)
        (before_ns, before), self._before = self._before, (t_ns, ahead)
        since = t_ns - before_ns
        along = (ahead - before) / since * 1e9 if 0 < since < _LONGEST_NS else 0.0
        return _NO_DELAY * abs(self.lag) * math.hypot(along, self._turns * ahead * turning)
