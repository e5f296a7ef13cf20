"""Whether drive torques and brake pressure can be true, judged by the accelerometer, not by the model's tyres."""

from __future__ import annotations

import math

from vehicled.vehicle.parameters import Vehicle

_GRIP = 1.3
"""Acceleration over gravity that no tyres give more than: beyond it torques only spin or lock the wheels."""
_IMPOSSIBLE = 8.0
"""m/s²: a difference that inputs are distrusted for at once, before wheels of the model spin."""
_WRONG, _LASTING = 4.0, 0.2
"""m/s², and s: of slopes, drag, loads and gains off by a third there is less."""
_SOUND, _SOUND_AGAIN = 2.0, 0.5
"""m/s², and s, within which they are believed again."""
_SLOWEST = 2.0
"""m/s: a car that hardly moves is held by its brakes."""


class DriveHealth:
    """Compares the acceleration by torques and brakes with that measured."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._mass, self._most = vehicle.mass, _GRIP * vehicle.gravity
        axles = (vehicle.front, vehicle.rear)
        self._radius = 0.5 * sum(axle.tyre.radius for axle in axles)
        self._gain = 2.0 * sum(axle.brake.gain for axle in axles)
        self.is_sound = True
        self._wrong_since = self._sound_since = math.inf

    def judge(self, t: float, torque: float, pressure: float, ahead: float, measured: float | None) -> bool:
        """Whether torques and pressure are believed at t, s.

        `torque`: of all wheels, N·m; `pressure`: Pa; `ahead`: speed, m/s; `measured`: specific force along the car,
        m/s², None where it is not measured.
        """
        if measured is None or abs(ahead) < _SLOWEST:
            self._wrong_since = math.inf
            return self.is_sound
        braking = math.copysign(self._gain * pressure, ahead)
        expected = (torque - braking) / (self._radius * self._mass)
        apart = abs(min(max(expected, -self._most), self._most) - measured)
        self._wrong_since = min(self._wrong_since, t) if apart > _WRONG else math.inf
        self._sound_since = min(self._sound_since, t) if apart < _SOUND else math.inf
        if apart > _IMPOSSIBLE or t - self._wrong_since > _LASTING:
            self.is_sound = False
        elif t - self._sound_since > _SOUND_AGAIN:
            self.is_sound = True
        return self.is_sound
