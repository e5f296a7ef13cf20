"""Heading of a car that is steered while it stands, by the gyroscopes.

The model's tyres stick to the road, so that steering turns the car by up to a degree from stop to stop; cars
differ in this. Correcting the yaw rate has no effect, as the model's tyres undo it within a step. So
gyroscopes then correct the heading itself, only in this way. Corrections of the heading by fixes and courses
are kept.
"""

from __future__ import annotations

import math

from vehicled.filter.boundary import ObservedFilter
from vehicled.sources.imu.model import TURNING_CAR
from vehicled.vehicle.arrays import AHEAD, LEFT, RACK, YAW

_STANDS = 1.0
"""m/s: below this, tyres stick."""
_STEERED, _TIME = 5e-4, 0.3
"""Way of the rack, m, within this time, s, from which on a car is being steered."""
_LONGEST = 0.2
"""Longest time between continuous samples, s."""


class StandingHeading:
    """Turns the heading by the difference of gyroscopes and model."""

    def __init__(self, filter: ObservedFilter) -> None:
        self._filter = filter
        self._inputs, self._is_turning = filter.car.view("inputs"), filter.car.view(TURNING_CAR)
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._t, self._yaw, self._rack, self._moved = -math.inf, 0.0, 0.0, 0.0
        self._is_turning[0] = 0.0

    def miss(self) -> None:
        """Note a sample without all gyroscopes: those present correct the filter as usual."""
        self._is_turning[0] = 0.0

    def take(self, t: float, yaw_rate: float) -> None:
        """Take a yaw rate about the car's vertical axis at t (s), without its bias, rad/s."""
        since, self._t = t - self._t, t
        read = self._filter.pose.item
        # Yaw of the model alone.
        yaw, rack = read(YAW) - self._filter.turned, self._inputs.item(RACK)
        turned, steered = yaw - self._yaw, abs(rack - self._rack)
        self._yaw, self._rack = yaw, rack
        if not 0.0 < since < _LONGEST:
            self._moved = self._is_turning[0] = 0.0
            return
        self._moved += steered - self._moved * since / _TIME
        is_steered = self._moved > _STEERED and math.hypot(read(AHEAD), read(LEFT)) < _STANDS
        if is_steered and self._is_turning[0]:
            self._filter.turn_heading(yaw_rate * since - turned)
        self._is_turning[0] = float(is_steered)
