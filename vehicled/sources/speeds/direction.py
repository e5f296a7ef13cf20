"""The direction of travel for speeds without sign: most buses give only the magnitude of the speed.

A sensor that has ever read less than zero gives signed speeds. A reading of any other sensor gets the sign of
the estimated speed, which accelerometers, torques and fixes can make negative. While that sign is uncertain,
as when the car pulls off, a reading only gives the magnitude of the speed.
"""

from __future__ import annotations

import math

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import VELOCITY
from vehicled.sources.updates import MeasurementUpdates
from vehicled.vehicle.arrays import AHEAD

_CERTAIN = 5.0
"""Number of standard deviations of the forward speed from which on its sign is certain."""
_SLOW = 2.0
"""m/s: above this, a car of unknown direction goes forwards."""
_ASTRAY = 0.2
"""m/s: error beyond its σ of an estimate without a measured speed, as by a bias that has not been found
yet."""

_LEAST_SHARE = 0.1
"""Share of the reduction of variance by a signed speed. If an unsigned speed reduces the variance by less,
the equivalent measurement would be too far from the estimate for its gate: the speed is then ignored."""


class Direction:
    """Gives the speeds of one kind of sensor their sign."""

    def __init__(self, filter: ObservedFilter, updates: MeasurementUpdates) -> None:
        self._filter, self._updates = filter, updates
        self._signed: set[str] = set()
        """Channels that have been negative, so that they are signed."""

    @property
    def is_forwards(self) -> bool:
        """Whether the car goes forwards, so that readings need no other sign."""
        ahead: float = self._filter.pose.item(AHEAD)
        return ahead > _SLOW

    def resolve(
        self, channel: str, reading: float, variance: float, per_reading: float = 1.0
    ) -> tuple[float, float]:
        """Reading with its sign, and its variance including the doubt about the sign: ∞ for no information.

        `variance`: of the reading alone; `per_reading`: m/s per unit of the reading, 0 for one that measures
        no speed.
        """
        if reading < 0.0:
            self._signed.add(channel)
        if reading <= 0.0 or self.is_forwards or channel in self._signed:
            return reading, variance
        ahead = self._filter.pose.item(AHEAD)
        spread = self._filter.get_variance(VELOCITY, "ahead")
        sigma = math.sqrt(spread)
        speed = reading * per_reading
        # Without accelerometers nothing else shows the sign, so it is not doubted.
        if speed >= _SLOW or not self._updates.is_active("imu.accel"):
            return (-reading if ahead < -_CERTAIN * sigma else reading), variance
        if per_reading == 0.0:
            is_doubtful = abs(ahead) < _CERTAIN * sigma
            return math.copysign(reading, ahead), math.inf if is_doubtful else variance
        value, noise = _weigh(ahead, spread, speed, variance * per_reading**2)
        return value / per_reading, noise / per_reading**2


def _weigh(estimate: float, spread: float, speed: float, variance: float) -> tuple[float, float]:
    """Measurement and variance that correct an estimate as a speed of unknown sign does; all in m/s.

    The posterior has two peaks, weighted by their likelihood under the estimate. Its mean and variance are
    kept (Alspach and Sorenson, 1972). If the variance hardly decreases, the speed is ignored: taken as zero
    with the speed as σ, which is right for a single reading, a few readings would stop a car that pulls off.
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
