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
_ASTRAY = 0.2
"""m/s: by which an estimate without a speed may be off beside its σ, as by a bias that has not been found yet."""

_LEAST_SHARE = 0.1
"""Of what a speed with its sign would take from the variance: a measurement that takes less, and yet corrects as both
peaks do, is farther from the estimate than its gate lets pass."""


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

    def resolve(
        self, channel: str, reading: float, variance: float, per_reading: float = 1.0
    ) -> tuple[float, float]:
        """A reading with its sign, and its variance with what is not known of that: ∞ where it tells nothing.

        `variance`: of the reading alone; `per_reading`: speed in m/s.
        """
        if reading < 0.0:
            self._signed.add(channel)
        if reading <= 0.0 or self.is_forwards or channel in self._signed:
            return reading, variance
        ahead = self._filter.pose.item(AHEAD)
        spread = self._filter.get_variance(VELOCITY, "ahead")
        sigma = math.sqrt(spread)
        speed = reading * per_reading
        # What nothing else measures can be no reason for a doubt.
        if speed >= _SLOW or not self._updates.is_active("imu.accel"):
            return (-reading if ahead < -_CERTAIN * sigma else reading), variance
        if per_reading == 0.0:
            is_doubtful = abs(ahead) < _CERTAIN * sigma
            return math.copysign(reading, ahead), math.inf if is_doubtful else variance
        value, noise = _weigh(ahead, spread, speed, variance * per_reading**2)
        return value / per_reading, noise / per_reading**2


def _weigh(estimate: float, spread: float, speed: float, variance: float) -> tuple[float, float]:
    """The measurement, and its variance, that corrects an estimate as a speed to either side does; all in m/s.

    That has two peaks, which count by how likely the estimate makes them. Mean and variance of both together are kept
    (Alspach and Sorenson, 1972). Where these are hardly more certain than before, the speed tells nothing yet: as
    zero with the speed for its σ, which it would be once, a few readings would stop a car that pulls off.
    """
    odds = 2.0 * speed * estimate / (spread + variance + _ASTRAY**2)
    sense = math.tanh(0.5 * odds)
    gain = spread / (spread + variance)
    after = (1.0 - gain) * spread + (gain * speed) ** 2 * (1.0 - sense * sense)
    less = spread - after
    if less <= _LEAST_SHARE * gain * spread:
        return estimate, math.inf
    correction = gain * (sense * speed - estimate)
    return estimate + correction * spread / less, spread * after / less
