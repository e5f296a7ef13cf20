"""The heading of a car that is steered while it stands: by the gyroscopes.

The model's tyres stick and turn the car with the wheels, by up to a degree from stop to stop; cars differ in that. A
corrected yaw rate does not show, as the model's tyres take it back within a step. What fixes and courses correct of
the heading stays; gyroscopes do so in this way alone meanwhile.
"""

from __future__ import annotations

import math

from vehicled.filter.boundary import ObservedFilter
from vehicled.sources.imu.model import TURNING_CAR
from vehicled.vehicle.arrays import AHEAD, LEFT, RACK, YAW

_STANDS = 1.0
"""m/s: slower, tyres stick."""
_STEERED, _TIME = 5e-4, 0.3
"""m, by which the rack has moved within these seconds, of a car that is steered."""
_LONGEST = 0.2
"""s between samples, beyond which they are not continuous."""


class StandingHeading:
    """Turns the heading by what gyroscopes measure beside the model."""

    def __init__(self, filter: ObservedFilter) -> None:
        self._filter = filter
        self._inputs, self._is_turning = filter.car.view("inputs"), filter.car.view(TURNING_CAR)
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._t, self._yaw, self._rack, self._moved = -math.inf, 0.0, 0.0, 0.0
        self._is_turning[0] = 0.0

    def miss(self) -> None:
        """A sample lacks a gyroscope: the others correct the heading as usual."""
        self._is_turning[0] = 0.0

    def take(self, t: float, yaw_rate: float) -> None:
        """A yaw rate about the car's axis at t (s), without its bias, rad/s."""
        since, self._t = t - self._t, t
        read = self._filter.pose.item
        # Of the simulated car alone.
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
