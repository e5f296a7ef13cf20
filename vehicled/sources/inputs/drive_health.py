"""Health of drive torques and brake pressure: compared with the accelerometer, not with the model's tyres."""

from __future__ import annotations

import math

from vehicled.vehicle.parameters import Vehicle

_GRIP = 1.3
"""Acceleration over gravity above which torques only spin or lock the wheels, unless a larger acceleration is
measured, as with slicks and wings."""
_IMPOSSIBLE = 8.0
"""m/s²: a difference that counts at once, before the model's wheels spin."""
_WRONG, _LASTING = 4.0, 0.2
"""m/s², and s: a difference that counts after this time. Slopes, drag, loads and gains that are off by a
third cause less."""
_AGREEING, _RECOVERY = 2.0, 0.5
"""m/s², and s: the sensors are used again once they have agreed this well for this long."""
_REPEATING, _STUCK_LASTING = 0.25, 0.15
"""Time, s, for which a sensor has repeated its sample, and then for which it has contradicted the
accelerometer."""
_APART, _APART_AT_ZERO = 1.5, 2.5
"""m/s²: such a contradiction, relative to the difference that was usual before. It is smaller than without
repetition, as the driver has changed nothing that would explain it. The second value is for zero torque and
pressure, when cars roll on slopes of up to 25 %."""
_USUAL_TIME = 2.0
"""s: time constant of the average of the difference that slope, drag and gains cause."""
_LONGEST = 0.1
"""s: longest time between consecutive comparisons."""
_SLIPPING = 8.0
"""m/s²: above this, wheels may slip, and the same torque gives another force."""
_UNKNOWN = 2.0
"""Time, s, without an accelerometer after which nothing contradicts the sensors any more."""
_SLOWEST = 2.0
"""m/s: a car that hardly moves is held by its brakes."""


class _Repeated:
    """Finds for how long a sensor has repeated its sample."""

    def __init__(self) -> None:
        self.value, self._since = 0.0, math.inf

    def take(self, t: float, value: float) -> bool:
        """Take a value at t, s; returns whether it has been the same for long."""
        if value != self.value:
            self.value, self._since = value, t
        self._since = min(self._since, t)
        return t - self._since > _REPEATING


class DriveHealth:
    """Compares the acceleration by torques and brakes with the measured one."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._mass, self._most = vehicle.mass, _GRIP * vehicle.gravity
        axles = (vehicle.front, vehicle.rear)
        self._radius = 0.5 * sum(axle.tyre.radius for axle in axles)
        self._gain = 2.0 * sum(axle.brake.gain for axle in axles)
        self.is_healthy = True
        self.suspect = "torques"
        """While not healthy: the one of `torques` and `brakes` without which the other agrees better."""
        self._wrong_since = self._agreeing_since = math.inf
        self._compared = -math.inf
        self._torque, self._pressure = _Repeated(), _Repeated()
        self._usual, self._stuck_since = 0.0, math.inf
        """m/s², in the direction of travel: usual excess of the acceleration by torques and brakes over the
        measured one."""
        self._is_stuck = False
        """Whether the suspect repeats its sample."""

    def check(
        self, t: float, torque: float | None, pressure: float | None, ahead: float, measured: float | None
    ) -> None:
        """Find whether torques and pressure at t (s) agree with the accelerometer.

        `torque`: of all wheels, N·m; `pressure`: Pa; `ahead`: speed, m/s; `measured`: specific force along the car,
        m/s². None: not measured.
        """
        if measured is None or abs(ahead) < _SLOWEST:
            self._wrong_since = self._agreeing_since = self._stuck_since = math.inf
            self.is_healthy = self.is_healthy or t - self._compared > _UNKNOWN
            return
        passed, self._compared = min(max(t - self._compared, 0.0), _LONGEST), t
        weight, way = self._radius * self._mass, math.copysign(1.0, ahead)
        along = way * measured
        driving = 0.0 if torque is None else way * torque / weight
        braking = 0.0 if pressure is None else self._gain * pressure / weight
        most = max(self._most, abs(measured))
        apart = min(max(driving - braking, -most), most) - along
        # A quantity that is not measured may explain the difference. Drivers do not drive and brake at once;
        # engines brake.
        if apart > 0.0:
            is_explained = torque is None or (pressure is None and driving < _AGREEING)
        else:
            is_explained = torque is None and braking < _AGREEING
        if is_explained:
            apart = 0.0
        is_slipping = abs(driving - braking) >= _SLIPPING
        stuck = "" if is_slipping else self._find_stuck(t, torque, pressure, apart > 0.0)
        self._is_stuck = self._is_stuck and stuck == self.suspect
        if self._is_apart(t, apart, stuck, _APART if torque or pressure else _APART_AT_ZERO):
            self.is_healthy, self._is_stuck = False, stuck != ""
            without_brakes = torque is None or abs(driving - along) < abs(braking + along)
            self.suspect = stuck or ("brakes" if without_brakes and pressure is not None else "torques")
        elif t - self._agreeing_since > _RECOVERY and not self._is_stuck:
            self.is_healthy = True
        if self.is_healthy and not stuck:
            self._usual += (apart - self._usual) * min(passed / _USUAL_TIME, 1.0)

    def _is_apart(self, t: float, apart: float, stuck: str, least: float) -> bool:
        """Whether the difference, m/s², is too large at once, or has been large for too long.

        `least`: limit of its deviation from the usual difference while a sensor is `stuck`.
        """

        def since(before: float, holds: bool) -> float:
            return min(before, t) if holds else math.inf

        self._wrong_since = since(self._wrong_since, abs(apart) > _WRONG)
        self._stuck_since = since(self._stuck_since, stuck != "" and abs(apart - self._usual) > least)
        self._agreeing_since = since(self._agreeing_since, abs(apart) < _AGREEING)
        has_lasted = t - self._wrong_since > _LASTING or t - self._stuck_since > _STUCK_LASTING
        return abs(apart) > _IMPOSSIBLE or has_lasted

    def _find_stuck(self, t: float, torque: float | None, pressure: float | None, lacks_braking: bool) -> str:
        """Which of `torques` and `brakes` repeats its sample and may be stuck; empty if neither.

        A braking car is usually not driven. A pressure of zero can only be stuck if the car brakes.
        """
        torques = torque is not None and self._torque.take(t, torque) and (torque != 0.0 or not pressure)
        brakes = (
            pressure is not None and self._pressure.take(t, pressure) and (pressure != 0.0 or lacks_braking)
        )
        if torques and brakes:
            torques = torque != 0.0
        return "torques" if torques else "brakes" if brakes else ""
