"""Health of drive torques and brake pressure, from the accelerometer, not from the model's tyres."""

from __future__ import annotations

import math

from vehicled.vehicle.parameters import Vehicle

_GRIP = 1.3
"""Acceleration over gravity that no tyres give more than: beyond it torques only spin or lock the wheels."""
_IMPOSSIBLE = 8.0
"""m/s²: a difference that counts at once, before wheels of the model spin."""
_WRONG, _LASTING = 4.0, 0.2
"""m/s², and s: of slopes, drag, loads and gains off by a third there is less."""
_AGREEING, _RECOVERY = 2.0, 0.5
"""m/s², and s: they are used again once they have agreed so well for so long."""
_UNKNOWN = 2.0
"""s without an accelerometer, after which nothing contradicts them any more."""
_SLOWEST = 2.0
"""m/s: a car that hardly moves is held by its brakes."""


class DriveHealth:
    """Compares the acceleration by torques and brakes with that measured."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._mass, self._most = vehicle.mass, _GRIP * vehicle.gravity
        axles = (vehicle.front, vehicle.rear)
        self._radius = 0.5 * sum(axle.tyre.radius for axle in axles)
        self._gain = 2.0 * sum(axle.brake.gain for axle in axles)
        self.is_healthy = True
        self.suspect = "torques"
        """Of `torques` and `brakes`, the one without which the other agrees better; while they are not healthy."""
        self._wrong_since = self._agreeing_since = math.inf
        self._compared = -math.inf

    def check(self, t: float, torque: float, pressure: float, ahead: float, measured: float | None) -> None:
        """Find whether torques and pressure at t (s) agree with the accelerometer.

        `torque`: of all wheels, N·m; `pressure`: Pa; `ahead`: speed, m/s; `measured`: specific force along the car,
        m/s², None where it is not measured.
        """
        if measured is None or abs(ahead) < _SLOWEST:
            self._wrong_since = self._agreeing_since = math.inf
            self.is_healthy = self.is_healthy or t - self._compared > _UNKNOWN
            return
        self._compared = t
        braking = math.copysign(self._gain * pressure, ahead)
        expected = (torque - braking) / (self._radius * self._mass)
        apart = abs(min(max(expected, -self._most), self._most) - measured)
        self._wrong_since = min(self._wrong_since, t) if apart > _WRONG else math.inf
        self._agreeing_since = min(self._agreeing_since, t) if apart < _AGREEING else math.inf
        if apart > _IMPOSSIBLE or t - self._wrong_since > _LASTING:
            self.is_healthy = False
            by_torque, by_brakes = (force / (self._radius * self._mass) for force in (torque, -braking))
            without_brakes = abs(by_torque - measured) < abs(by_brakes - measured)
            self.suspect = "brakes" if without_brakes else "torques"
        elif t - self._agreeing_since > _RECOVERY:
            self.is_healthy = True
