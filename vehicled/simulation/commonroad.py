"""Independent plant: the multi-body model of CommonRoad (`commonroad-vehicle-models`, extra `bench`).

Its 29 states and its equations are in SAE axes (x forward, y right, z down; the left wheels are at negative
y), here turned by half a revolution about x into those of ISO 8855. The model's lateral velocity and position
are those of the sprung mass's centre; outputs are those of the point of the same body that is the whole car's
centre of mass at rest. Angles are yaw, pitch and roll in this order, and the model's rates are their
derivatives: body rates follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS
from vehicled.points import rotations
from vehicled.simulation.driver import Controls, Handling
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import Ground
from vehicled.simulation.sensors import SensorPlaces

CARS = (1, 2, 3)
"""Ford Escort, BMW 320i, VW Vanagon."""
GRAVITY = 9.81
"""Gravity of the model, m/s²."""
_X, _Y, _STEER, _AHEAD, _YAW, _YAW_RATE, _ROLL, _ROLL_RATE, _PITCH, _PITCH_RATE, _RIGHT, _SUNK, _SINKING = (
    range(13)
)
_WHEEL_RATES = slice(23, 27)
_SETTLING = 3.0
"""Time that the car rolls straight ahead before the drive, s: in the model's initial state the springs are
not at rest."""
_BRAKE_PER_PRESSURE = 3e-4
"""Torque of all wheels per line pressure, N·m/Pa, for the driver, who works with pressures; the model takes
accelerations."""
SLOWEST = 1.5
"""Least speed, m/s: below it, the model's wheels are too stiff for steps of 1 ms."""


def load_parameters(car: int) -> Any:
    """Parameters of a car from the package. Raises UsageError if the package is not installed."""
    try:
        from vehiclemodels.vehicle_parameters import setup_vehicle_parameters
    except ImportError:
        raise UsageError(
            "CommonRoad's cars need commonroad-vehicle-models: pip install 'vehicled[bench]'"
        ) from None
    return setup_vehicle_parameters(vehicle_id=car)


class CommonRoadPlant:
    """One of CommonRoad's cars, on a level plane; see `drive.Plant`. The rack is the road-wheel angle, rad."""

    def __init__(self, car: int, mounting: SensorPlaces) -> None:
        from vehiclemodels.vehicle_dynamics_mb import vehicle_dynamics_mb

        self.parameters = p = load_parameters(car)
        self.mounting, self.gravity = mounting, GRAVITY
        self._rates: Callable[[list[float], list[float], Any], list[float]] = vehicle_dynamics_mb
        self.origin = np.array([(p.m_uf * p.a - p.m_ur * p.b) / p.m, 0.0, p.h_cg - p.h_s])
        """The car's centre of mass from that of its sprung mass, m, vehicle axes."""
        wheelbase = p.a + p.b
        self.handling = Handling(
            wheelbase=wheelbase,
            width=p.w,
            mass=p.m,
            wheel_radius=p.R_w,
            rack_per_steer=1.0,
            brake_torque_per_pressure=_BRAKE_PER_PRESSURE,
            front_share=p.T_se,
        )

    def reset(self, initial: InitialMotion, ground: Ground) -> None:
        """Place the car at the initial pose and speed, its springs settled.

        Raises UsageError for another ground than a level plane, and below `SLOWEST`.
        """
        from vehiclemodels.init_mb import init_mb

        if ground != Ground() or initial.speed < SLOWEST:
            raise UsageError(f"CommonRoad's cars drive on a level plane and start at {SLOWEST:g} m/s or more")
        self._state: list[float] = [
            float(v) for v in init_mb([0.0, 0.0, 0.0, initial.speed, 0.0, 0.0, 0.0], self.parameters)
        ]
        self._turned = np.zeros(4)
        for _ in range(round(_SETTLING * 1000)):
            self._advance(1e-3, [0.0, 0.0])
        s = self._state
        s[_X], s[_Y], s[_YAW] = initial.x, -initial.y, -initial.yaw
        # The drive begins at the point of the outputs, not at the sprung mass's centre.
        away = self.truth()[[ESTIMATE_INDEX["x"], ESTIMATE_INDEX["y"]]] - (initial.x, initial.y)
        s[_X] -= float(away[0])
        s[_Y] += float(away[1])
        self._turned[:] = 0.0

    def step(self, t: float, dt: float, controls: Controls) -> None:
        """Integrate over dt (s) with the angle, torques and pressure at the end of the step.

        The model takes the sum of the torques, and distributes it to its axles by a parameter of its own.
        """
        p = self.parameters
        steer_rate = (-controls.rack - self._state[_STEER]) / dt
        torque = _add_torques(controls) - _BRAKE_PER_PRESSURE * controls.brake_pressure
        self._advance(dt, [steer_rate, torque / (p.m * p.R_w)])

    def _advance(self, dt: float, u: list[float]) -> None:
        """One step of the classical Runge–Kutta method."""
        x, p, f = self._state, self.parameters, self._rates
        limit = p.steering.v_max
        u[0] = min(max(u[0], -limit), limit)
        before = np.array(x[_WHEEL_RATES])
        k1 = f(x, u, p)
        k2 = f([a + 0.5 * dt * b for a, b in zip(x, k1, strict=True)], u, p)
        k3 = f([a + 0.5 * dt * b for a, b in zip(x, k2, strict=True)], u, p)
        k4 = f([a + dt * b for a, b in zip(x, k3, strict=True)], u, p)
        self._state = [
            a + dt / 6 * (b1 + 2 * (b2 + b3) + b4)
            for a, b1, b2, b3, b4 in zip(x, k1, k2, k3, k4, strict=True)
        ]
        self._turned += 0.5 * dt * (before + np.array(self._state[_WHEEL_RATES]))

    def truth(self) -> np.ndarray:
        """(len(ESTIMATE_COLUMNS),) motion of the vehicle origin and of the wheels now; NaN elsewhere."""
        s = self._state
        roll, pitch, yaw = s[_ROLL], -s[_PITCH], -s[_YAW]
        R = rotations(np.array([roll]), np.array([pitch]), np.array([yaw]))[0]
        rates = body_rates(roll, pitch, s[_ROLL_RATE], -s[_PITCH_RATE], -s[_YAW_RATE])
        c, n = math.cos(yaw), math.sin(yaw)
        ahead, left = s[_AHEAD], -s[_RIGHT]
        world = np.array([c * ahead - n * left, n * ahead + c * left, -s[_SINKING]])
        velocity = R.T @ world + np.cross(rates, self.origin)
        place = np.array([s[_X], -s[_Y], self.parameters.h_s - s[_SUNK]]) + R @ self.origin
        row = np.full(len(ESTIMATE_COLUMNS), np.nan)
        row[_MOTION] = (*place, roll, pitch, yaw, *velocity, *rates, math.atan2(velocity[1], velocity[0]))
        row[_ANGLES] = self._turned
        row[_SPEEDS] = s[_WHEEL_RATES]
        return row

    def road_wheel_angles(self) -> tuple[float, float]:
        """Front left and front right, rad, positive to the left: the model turns both alike."""
        return -self._state[_STEER], -self._state[_STEER]

    def wheel_torques(self, controls: Controls) -> np.ndarray:
        """(4,) N·m: the model's share of each axle, half on each of its wheels."""
        front = 0.5 * self.handling.front_share
        return _add_torques(controls) * np.array([front, front, 0.5 - front, 0.5 - front])


def _add_torques(controls: Controls) -> float:
    """Sum of the torques of all wheels, N·m."""
    return controls.rear_torque + controls.front_torque


_MOTION = [
    ESTIMATE_INDEX[c]
    for c in ("x", "y", "z", "roll", "pitch", "yaw", "vx", "vy", "vz", "wx", "wy", "wz", "sideslip")
]
_ANGLES, _SPEEDS = ([ESTIMATE_INDEX[f"wheel.{w}.{what}"] for w in WHEELS] for what in ("angle", "speed"))


def body_rates(roll: float, pitch: float, roll_rate: float, pitch_rate: float, yaw_rate: float) -> np.ndarray:
    """(3,) rad/s in vehicle axes of a body turned by yaw, pitch and roll, from the derivatives of these angles."""
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    return np.array(
        [
            roll_rate - yaw_rate * sp,
            pitch_rate * cr + yaw_rate * cp * sr,
            -pitch_rate * sr + yaw_rate * cp * cr,
        ]
    )
