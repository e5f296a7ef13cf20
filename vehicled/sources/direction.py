"""The direction of speeds whose sensor gives none: most buses say how fast a car goes, and not which way.

A sensor that has ever read less than zero gives the direction. Of any other a reading is taken as that of the way
the car goes by the estimate, which accelerometers, torques and fixes turn backwards. While that is not certain, as
where a car pulls off, a reading says no more than how fast the car may be, to either side.
"""

from __future__ import annotations

import math

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import VELOCITY
from vehicled.sources.updates import MeasurementUpdates
from vehicled.vehicle.arrays import AHEAD

_CERTAIN = 5.0
"""Standard deviations of the speed ahead."""
_SLOW = 2.0
"""m/s: faster, a car whose direction is not known goes forwards."""


class Direction:
    """Gives speeds of one kind of sensor their sign."""

    def __init__(self, filter: ObservedFilter, updates: MeasurementUpdates) -> None:
        self._filter, self._updates = filter, updates
        self._signed: set[str] = set()
        """Channels that have been negative."""

    @property
    def is_forwards(self) -> bool:
        """Whether the car goes forwards, so that readings which are not negative are as they are."""
        ahead: float = self._filter.pose.item(AHEAD)
        return ahead > _SLOW

    def resolve(self, channel: str, reading: float, per_reading: float = 1.0) -> tuple[float, float]:
        """A reading with its sign, and the variance of what is not known of that; `per_reading`: speed in m/s."""
        if reading < 0.0:
            self._signed.add(channel)
        if reading <= 0.0 or self.is_forwards or channel in self._signed:
            return reading, 0.0
        ahead = self._filter.pose.item(AHEAD)
        sigma = math.sqrt(self._filter.get_variance(VELOCITY, "ahead"))
        if ahead < -_CERTAIN * sigma:
            return -reading, 0.0
        # What nothing else measures can be no reason for a doubt.
        doubtful = ahead < _CERTAIN * sigma and reading * per_reading < _SLOW
        if doubtful and self._updates.is_active("imu.accel"):
            return 0.0, reading * reading
        return reading, 0.0
