"""Controllers of a car: open-loop inputs, or a driver who follows a path with preview at a given speed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from vehicled.maths.linear_table import LinearTable
from vehicled.simulation.course import Path


class State(NamedTuple):
    """The motion of the vehicle that a driver reacts to."""

    x: float
    """m, east, of the vehicle origin."""
    y: float
    yaw: float
    """rad."""
    speed: float
    """m/s, along the vehicle."""
    sideslip: float
    """rad."""
    yaw_rate: float
    """rad/s."""


class Controls(NamedTuple):
    """Inputs of the vehicle."""

    rack: float
    """Displacement of the rack, m, positive to steer left."""
    rear_torque: float
    """N·m, of both rear wheels together."""
    brake_pressure: float
    """Pa."""
    front_torque: float = 0.0
    """N·m, of both front wheels together."""


class Controller(Protocol):
    """Gives the inputs of a car from t = 0 on; called at increasing times."""

    def inputs(self, t: float, state: State) -> Controls:
        """The inputs at t (s), for the vehicle in `state`."""


@dataclass(frozen=True, kw_only=True)
class Handling:
    """Approximate figures of the car, as a driver knows them."""

    wheelbase: float
    """m."""
    width: float
    """m, overall."""
    mass: float
    """kg."""
    wheel_radius: float
    """m."""
    rack_per_steer: float
    """Rack displacement per road-wheel angle near straight ahead, m/rad."""
    brake_torque_per_pressure: float
    """Brake torque of all wheels together per pressure, N·m/Pa."""
    front_share: float = 0.0
    """Share of the front axle in the drive torque: 1 with front-wheel drive."""
    understeer: float = 0.0
    """Understeer gradient: road-wheel angle per lateral acceleration beyond that of the path, rad/(m/s²)."""

    def rack_for(self, curvature: float, speed: float) -> float:
        """Steady-state rack displacement (m) that drives a curvature (1/m) at a speed (m/s)."""
        return self.rack_per_steer * curvature * (self.wheelbase + self.understeer * speed**2)


class _Limb:
    """An arm or a foot: follows a target as a critically damped second-order system with bounded rate."""

    def __init__(self, bandwidth: float, rate: float) -> None:
        """`bandwidth` rad/s; `rate` in units of the target per second."""
        self.bandwidth, self.rate = bandwidth, rate
        self.value = self.speed = 0.0

    def follow(self, target: float, dt: float) -> float:
        wanted = self.bandwidth / 2 * (target - self.value)
        wanted = min(max(wanted, -self.rate), self.rate)
        self.speed += 2 * self.bandwidth * (wanted - self.speed) * dt
        self.value += self.speed * dt
        return self.value


class SpeedPedals:
    """Accelerator and brake: follows a speed given over time, and holds the car at standstill."""

    _GAIN, _INTEGRAL = 1.2, 0.3
    _BANDWIDTH = 15.0
    _HOLD_DECELERATION = 2.0
    """Deceleration that the brakes could cause while they hold the car, m/s²."""

    def __init__(self, handling: Handling, speed: Callable[[float], float]) -> None:
        """`speed`: wanted m/s at a time in s."""
        self._handling, self._speed = handling, speed
        self._force_scale = handling.mass * handling.wheel_radius
        self._torque = _Limb(self._BANDWIDTH, 12.0)
        self._brake = _Limb(self._BANDWIDTH, 25.0)
        self._integral = 0.0
        self._t: float | None = None

    def inputs(self, t: float, speed: float) -> tuple[float, float, float]:
        """(torque of both rear wheels N·m, brake pressure Pa, torque of both front wheels N·m)."""
        dt = 0.0 if self._t is None else t - self._t
        self._t = t
        wanted = self._speed(t)
        ahead = self._speed(t + 0.2)
        if wanted < 0.05 and ahead < 0.05 and speed < 0.5:
            command = -self._HOLD_DECELERATION
            self._integral = 0.0
        else:
            error = wanted - speed
            self._integral = min(max(self._integral + self._INTEGRAL * error * dt, -0.5), 0.5)
            # The acceleration wanted a little ahead makes up for the lag of the feet.
            feedforward = (self._speed(t + 0.25) - self._speed(t + 0.05)) / 0.2
            command = feedforward + self._GAIN * error + self._integral
        torque = max(self._torque.follow(max(command, 0.0), dt), 0.0)
        brake = max(self._brake.follow(max(-command, 0.0), dt), 0.0)
        scale, gain = self._force_scale, self._handling.brake_torque_per_pressure
        if gain == 0.0:
            # A car without brakes is decelerated by its driveline.
            torque, brake, gain = torque - brake, 0.0, 1.0
        front = self._handling.front_share
        return (1.0 - front) * torque * scale, brake * scale / gain, front * torque * scale


class DriverModel:
    """Follows a path at a speed given over time: curvature ahead, corrected by offset and course.

    The preview compensates the response time of driver and car. The curvature asked for is that of the
    path there, minus a linear law in the offset e and the angle between course and path expected there, under
    which the offset would settle over the distance L as e'' = −2 ζ e'/L − e/L².
    """

    _PREVIEW_S = 0.7
    _PREVIEW_LEAST = 5.0
    """m."""
    _DAMPING = 1.0
    _LAG_S, _LAG_PER_SPEED = 0.05, 0.012
    """Response time of driver and car: the car's share grows with speed, s and s/(m/s)."""
    _BANDWIDTH = 14.0
    _RATE = 1.0
    """Largest rate of the road-wheel angle, rad/s; about 900 °/s at the steering wheel of a usual car."""

    def __init__(self, handling: Handling, path: Path, speed: Callable[[float], float]) -> None:
        self._handling, self._path = handling, path
        self._pedals = SpeedPedals(handling, speed)
        self._hands = _Limb(self._BANDWIDTH, self._RATE)
        self._s = 0.0
        self._t: float | None = None

    def inputs(self, t: float, state: State) -> Controls:
        """Rack for the curvature ahead, torque and pressure for the speed. Times must not fall."""
        dt = 0.0 if self._t is None else t - self._t
        self._t = t
        path = self._path
        s = self._s = path.nearest(state.x, state.y, self._s)
        speed = max(state.speed, 0.0)
        # Where car and path will be after the delay of hands and car, at the present yaw rate.
        lag = self._LAG_S + self._LAG_PER_SPEED * speed
        distance, turn = speed * lag, state.yaw_rate * lag
        ahead = s + distance
        course = state.yaw + (state.sideslip if speed > 2.0 else 0.0)
        x = state.x + distance * math.cos(course + turn / 2)
        y = state.y + distance * math.sin(course + turn / 2)
        offset = path.offset(ahead, x, y)
        angle = math.remainder(course + turn - path.heading_at(ahead), 2 * math.pi)
        length = max(self._PREVIEW_LEAST, self._PREVIEW_S * speed)
        curvature = (
            path.curvature_at(ahead) - 2 * self._DAMPING * math.sin(angle) / length - offset / length**2
        )
        steer = self._handling.rack_for(curvature, speed) / self._handling.rack_per_steer
        # The driver does not steer while the car stands.
        target = steer if speed > 0.3 else self._hands.value
        rack = self._handling.rack_per_steer * self._hands.follow(min(max(target, -0.5), 0.5), dt)
        return Controls(rack, *self._pedals.inputs(t, speed))


class SteeredAtSpeed:
    """Steering open loop over time while a speed is kept."""

    def __init__(
        self, handling: Handling, rack: Callable[[float], float], speed: Callable[[float], float]
    ) -> None:
        self._rack = rack
        self._pedals = SpeedPedals(handling, speed)

    def inputs(self, t: float, state: State) -> Controls:
        """The rack as given for t (s), torque and pressure for the speed. Times must not fall."""
        return Controls(self._rack(t), *self._pedals.inputs(t, state.speed))


class SpeedProfile:
    """Speed over time through (s, m/s) points: monotone between them, acceleration continuous (PCHIP)."""

    def __init__(self, *points: tuple[float, float]) -> None:
        t, v = np.array(points, dtype=float).T
        # Tabulated, as the driver asks thousands of times.
        fine = np.linspace(t[0], t[-1], 200 * len(points) + 1)
        # Takes longer to import than all else here, and most programs that import this drive nothing.
        from scipy.interpolate import PchipInterpolator

        self._table = LinearTable(fine, np.maximum(PchipInterpolator(t, v)(fine), 0.0))

    def __call__(self, t: float) -> float:
        """Speed at t (s), m/s; constant before the first and after the last point."""
        return self._table(t)
