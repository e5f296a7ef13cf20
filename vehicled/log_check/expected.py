"""Differences that a car's dynamics cause between compared signals: slip of tyres, places of sensors.

These look like time offsets. A driven wheel turns faster than the car moves by v F/C, with the force F on it
and the stiffness C of its tyre: to an acceleration that is a lead of v m/C. The rear axle slides outward by v
F/C, too, so that courses and lateral accelerations follow the yaw rate late; and where the sensor is by x
ahead of the rear axle, they lead it by x/v.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.log_check.grid import derive, smooth
from vehicled.messages import WHEELS
from vehicled.vehicle.parameters import AnyAxle, Vehicle

SMOOTHED = 0.3
"""Forces are calculated from symmetric averages over this time, s."""
_STIFFNESS = 0.3
"""Relative 1 σ of the stiffness of tyres, which depends on their kind, pressure and surface."""
_PLACE, _UNKNOWN_PLACE = 0.1, 1.0
"""1 σ of the place of a sensor, m, in a known and in an unknown car."""


@dataclass(frozen=True)
class Pair:
    """A signal, and the same signal predicted from another one."""

    reference: str
    channel: str
    measured: np.ndarray
    """(n,) of the channel, on the grid."""
    expected: np.ndarray
    """(n,) by the reference and the car's dynamics, in the same unit."""
    varied: tuple[np.ndarray, ...] = ()
    """(n,) each: `expected` with one property of the car changed by its standard deviation."""


class CarDynamics:
    """Slips of tyres to first order, by the car's parameters."""

    def __init__(self, vehicle: Vehicle, is_usual: bool) -> None:
        """`is_usual`: the car is not known, nor which axle is driven."""
        self._place_sigma = _UNKNOWN_PLACE if is_usual else _PLACE
        center = float(vehicle.center_of_mass()[0])
        to_front = vehicle.front.hard_points.wheel_center[0] - center
        self._to_rear = center - vehicle.rear.hard_points.wheel_center[0]
        self._wheelbase = vehicle.wheelbase
        rear_mass = vehicle.mass * to_front / vehicle.wheelbase
        self._rear_compliance = rear_mass / _find_stiffness(vehicle.rear)[1]
        along = np.array([_find_stiffness(vehicle.axle(w))[0] / 2.0 for w in WHEELS])
        gains = np.array([vehicle.axle(w).brake.gain for w in WHEELS])
        loads = np.array([self._to_rear, to_front]) / vehicle.wheelbase
        braking = gains if gains.sum() > 0.0 else np.repeat(loads, 2)
        front = vehicle.calc_front_share(along)
        driving = np.repeat([front, 1.0 - front], 2)
        if is_usual:
            driving = np.full(4, 0.5)
        per_wheel = vehicle.mass / along
        self._driving = dict(zip(WHEELS, per_wheel * driving / driving.sum(), strict=True))
        self._braking = dict(zip(WHEELS, per_wheel * braking / braking.sum(), strict=True))
        # In an unknown car either axle may be driven: its share is zero, or twice as large.
        self._driving_sigma = 1.0 if is_usual else _STIFFNESS
        self.rolling = [w for w in WHEELS if is_usual or not vehicle.is_driven(w)] or list(WHEELS)
        """The wheels that slip least: the undriven ones, if there are any."""

    def calc_slips(self, wheel: str, acceleration: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Longitudinal slip of a wheel, and its standard deviation, from the car's acceleration (n,), m/s²."""
        averages = smooth(acceleration, SMOOTHED)
        drives = averages > 0.0
        slips = averages * np.where(drives, self._driving[wheel], self._braking[wheel])
        return slips, slips * np.where(drives, self._driving_sigma, _STIFFNESS)

    def expect_wheel(
        self, wheel: str, acceleration: np.ndarray, speed: np.ndarray
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Acceleration of a wheel's circumference (n,), m/s², from that of the car, and its variations."""
        slips, sigmas = self.calc_slips(wheel, acceleration)
        expected = acceleration + derive(speed * slips)
        return expected, (expected + derive(speed * sigmas),)

    def expect_course(
        self, yaw_rate: np.ndarray, speed: np.ndarray, x: float
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Rate of the course (n,), rad/s, of a point at x (m, from the vehicle origin), and its variations."""
        arm, slip = yaw_rate / speed, -self._rear_compliance * speed * yaw_rate
        expected = yaw_rate + derive((x + self._to_rear) * arm + slip)
        return expected, (expected + derive(self._place_sigma * arm), expected + derive(_STIFFNESS * slip))

    def expect_lateral(
        self, yaw_rate: np.ndarray, speed: np.ndarray, x: float
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Lateral acceleration at x divided by the speed (n,), rad/s, and its variations."""
        slip = -self._rear_compliance * speed**2 * yaw_rate
        expected = yaw_rate + derive((x + self._to_rear) * yaw_rate + slip) / speed
        return expected, (
            expected + derive(self._place_sigma * yaw_rate) / speed,
            expected + derive(_STIFFNESS * slip) / speed,
        )

    def calc_speed(
        self, wheel: str, rolling: np.ndarray, yaw_rate: np.ndarray
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Speed of the car along its axis (n,), m/s, from that of a wheel, and its variations."""
        slips, sigmas = self.calc_slips(wheel, derive(rolling))
        to_axle = self._wheelbase if wheel.startswith("f") else 0.0

        def find(slips: np.ndarray, more: float = 0.0, place: float = 0.0) -> np.ndarray:
            moving = rolling / (1.0 + slips)
            if not to_axle:
                return moving
            # The front wheels point to where their axle moves.
            sideways = self._calc_sideways(moving, yaw_rate, to_axle + place, more)
            found: np.ndarray = np.copysign(np.sqrt(np.maximum(moving**2 - sideways**2, 0.0)), rolling)
            return found

        return find(slips), (
            find(slips + sigmas),
            find(slips, _STIFFNESS),
            find(slips, place=self._place_sigma),
        )

    def calc_speed_at(
        self, speed: np.ndarray, yaw_rate: np.ndarray, place: tuple[float, float, float]
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Speed (n,), m/s, of a place (m, from the vehicle origin), from the longitudinal speed; varied."""
        x, y, _ = place
        moving = speed - y * yaw_rate

        def find(more: float = 0.0, ahead: float = 0.0, left: float = 0.0) -> np.ndarray:
            sideways = self._calc_sideways(speed, yaw_rate, x + self._to_rear + ahead, more)
            found: np.ndarray = np.hypot(moving - left * yaw_rate, sideways)
            return found

        sigma = self._place_sigma
        return find(), (find(more=_STIFFNESS), find(ahead=sigma), find(left=sigma))

    def _calc_sideways(
        self, speed: np.ndarray, yaw_rate: np.ndarray, to_rear: float, more: float = 0.0
    ) -> np.ndarray:
        """Lateral velocity (n,), m/s, `to_rear` (m) ahead of a rear axle whose compliance is larger by a share."""
        found: np.ndarray = (to_rear - (1.0 + more) * self._rear_compliance * speed**2) * yaw_rate
        return found


def _find_stiffness(axle: AnyAxle) -> tuple[float, float]:
    """Longitudinal and lateral stiffness of both tyres of an axle, N per unit of slip."""
    tyre = axle.tyre
    if tyre.kind == "linear":
        return 2.0 * tyre.slip_stiffness_x, 2.0 * tyre.slip_stiffness_y
    return 2.0 * tyre.longitudinal.df0[0], 2.0 * tyre.lateral.df0[0]
