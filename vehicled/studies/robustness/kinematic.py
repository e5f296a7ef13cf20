"""A planar Kalman filter without a model of the car's forces: only gyroscope, speeds and GNSS.

The gyroscope drives the heading and the longitudinal accelerometer the speed; wheels, or the car's own speed,
and GNSS correct them. Sideslip is that of steady cornering: yaw rate times (rear / v − slip · v). A
wrong model cannot affect this filter, so a model-based filter has to be better than it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vehicled.vehicle.sideslip import SteadySideslip

_X, _Y, _YAW, _SPEED, _BIAS, _SCALE, _EAST, _NORTH = range(8)
"""Position (m), heading (rad), speed (m/s), gyroscope bias (rad/s), scale error of speeds by the wheels, slow error
of the fixes (m)."""
_SIZE = 8
_NEW_SHARE = 0.1
"""Weight of a new sample in the smoothed acceleration."""
_TURN_TIME = 0.1
"""s: time over which a change of the wheels' angles gives a speed; over a shorter time it is mostly rounding."""
_SLOWEST_COURSE = 2.0
"""m/s: below this speed the course over ground is not used."""
_SLOWEST_SLIP = 1.0
"""m/s: below this speed sideslip is assumed to be zero."""
_COURSE_SIGMA = 0.003
"""rad: error of a course in addition to the receiver's noise: deviation from the steady sideslip."""


@dataclass(frozen=True, kw_only=True)
class KinematicSettings:
    """What such a filter needs to know of car and sensors."""

    radius: float
    """Rolling radius of the rear wheels, m."""
    steady: SteadySideslip
    antenna: float = 0.0
    """Distance of the GNSS antenna ahead of the vehicle origin, m."""
    gyro: float = 0.002
    """Noise of the gyroscope, rad/s; as a density, rad/s/√Hz, it drives the heading."""
    wheel_resolution: float = math.radians(7.5)
    """Angle of one count of the wheels, rad."""
    wander: float = 0.3
    """1 σ per axis of a fix's slow error, if the receiver has no carrier phase, m."""
    wander_time: float = 120.0
    """Its correlation time, s."""


@dataclass(frozen=True, kw_only=True)
class KinematicNoise:
    """White noise densities of the prediction in addition to the gyroscope's, and σ at the start."""

    position: float = 1e-3
    """m/√s."""
    yaw: float = math.sqrt(1e-7)
    """rad/√s."""
    speed: float = math.sqrt(0.5)
    """m/s/√s."""
    bias: float = 2e-5
    """rad/s/√s."""
    scale: float = 1e-6
    """1/√s."""
    position_start: float = 5.0
    yaw_start: float = 0.1
    speed_start: float = 1.0
    bias_start: float = 2e-3
    scale_start: float = 0.02


class KinematicFilter:
    """Filter on a plane, stepped from outside: `predict`, then the measurements of that time.

    Not for several threads at once; times are the caller's, in s.
    """

    def __init__(self, settings: KinematicSettings, noise: KinematicNoise | None = None) -> None:
        self.settings = settings
        self._noise = noise or KinematicNoise()
        self.initialise(0.0, 0.0, 0.0, 0.0)

    def initialise(self, x: float, y: float, yaw: float, speed: float) -> None:
        """Initialise at a pose (m, rad) and speed (m/s), with the initial σ."""
        n, s = self._noise, self.settings
        self.state = np.array([x, y, yaw, speed, 0.0, 0.0, 0.0, 0.0])
        """(8,) x, y, yaw, speed, gyroscope bias, wheel scale, slow error of fixes east and north."""
        start = (n.position_start, n.position_start, n.yaw_start, n.speed_start, n.bias_start, n.scale_start)
        self.covariance = np.diag(np.square([*start, s.wander, s.wander]))
        """(8, 8) in the order of `state`."""
        self.yaw_rate = 0.0
        """Last measured yaw rate less the bias, rad/s."""
        self._acceleration = 0.0
        self._turned: tuple[float, float] | None = None
        self._transition = np.eye(_SIZE)

    # -- what is estimated -----------------------------------------------------------------------------

    @property
    def sideslip(self) -> float:
        """Sideslip of steady cornering at the present speed and yaw rate, rad."""
        speed = float(self.state[_SPEED])
        if speed <= _SLOWEST_SLIP:
            return 0.0
        return self.settings.steady.calc_per_rate(speed) * self.yaw_rate

    def read(self) -> tuple[float, float, float, float, float, float, float]:
        """x, y (m), yaw (rad, not wrapped), vx, vy (m/s), yaw rate (rad/s), sideslip (rad)."""
        x, y, yaw, speed = self.state[:4].tolist()
        beta = self.sideslip
        return x, y, yaw, speed * math.cos(beta), speed * math.sin(beta), self.yaw_rate, beta

    def sigmas(self) -> tuple[float, float, float, float]:
        """Standard deviations of x, y (m), yaw (rad) and speed (m/s)."""
        x, y, yaw, speed = np.sqrt(np.diagonal(self.covariance)[:4]).tolist()
        return x, y, yaw, speed

    # -- prediction ------------------------------------------------------------------------------------

    def predict(self, dt: float) -> None:
        """Predict by `dt` (s) with the last yaw rate and acceleration."""
        x, step, n, s = self.state, self._transition, self._noise, self.settings
        course, speed = float(x[_YAW]) + self.sideslip, float(x[_SPEED])
        east, north = dt * math.cos(course), dt * math.sin(course)
        keep = math.exp(-dt / s.wander_time)
        step[_X, _YAW], step[_X, _SPEED] = -speed * north, east
        step[_Y, _YAW], step[_Y, _SPEED] = speed * east, north
        step[_YAW, _BIAS] = -dt
        step[_EAST, _EAST] = step[_NORTH, _NORTH] = keep
        x[_X] += speed * east
        x[_Y] += speed * north
        x[_YAW] += dt * self.yaw_rate
        x[_SPEED] += dt * self._acceleration
        x[_EAST:] *= keep
        self.covariance = step @ self.covariance @ step.T
        fresh = (1 - keep * keep) * s.wander**2
        position = n.position**2 * dt
        self.covariance.flat[:: _SIZE + 1] += (
            position,
            position,
            (s.gyro**2 * dt + n.yaw**2) * dt,
            n.speed**2 * dt,
            n.bias**2 * dt,
            n.scale**2 * dt,
            fresh,
            fresh,
        )

    # -- measurements ----------------------------------------------------------------------------------

    def take_yaw_rate(self, rate: float) -> None:
        """Take a sample of the gyroscope's vertical axis, rad/s."""
        self.yaw_rate = rate - float(self.state[_BIAS])

    def take_acceleration(self, acceleration: float) -> None:
        """Take a sample of the longitudinal accelerometer, m/s²."""
        self._acceleration += _NEW_SHARE * (acceleration - self._acceleration)

    def update_wheel_angle(self, t: float, angle: float) -> None:
        """Update with the rear wheels' mean angle (rad, unwrapped) at `t` (s): its change over time is a speed."""
        if self._turned is None:
            self._turned = t, angle
            return
        since, before = self._turned
        span = t - since
        if span < _TURN_TIME - 1e-6:
            return
        self._turned = t, angle
        s = self.settings
        # Two wheels, each with the difference of two rounded angles.
        sigma = s.radius * s.wheel_resolution / math.sqrt(6) / span
        # The mean speed over that time is the speed at its middle.
        self._update_speed(
            s.radius * (angle - before) / span, 0.5 * span * self._acceleration, sigma**2 / 2 + 1e-6
        )

    def update_wheel_speed(self, rate: float, variance: float = 0.05**2) -> None:
        """Update with the mean rotation rate of the rear wheels, rad/s; variance in (m/s)²."""
        self._update_speed(self.settings.radius * rate, 0.0, variance)

    def update_vehicle_speed(self, speed: float, variance: float = 0.05**2) -> None:
        """Update with the car's own speed, m/s; its scale is as unknown as that of the wheels."""
        self._update_speed(speed, 0.0, variance)

    def _update_speed(self, measured: float, gained: float, variance: float) -> None:
        """Update with a speed by the wheels, m/s, since which the car has gained `gained`, m/s."""
        speed, scale = float(self.state[_SPEED]), 1 + float(self.state[_SCALE])
        h = np.zeros(_SIZE)
        h[_SPEED], h[_SCALE] = scale, speed
        self._update(measured - scale * (speed - gained), h, variance)

    def update_position(
        self, east: float, north: float, variance: float, wanders: bool, age: float = 0.0
    ) -> None:
        """Update with a fix of the antenna (m, world axes), `variance` of its white noise per axis, m².

        `wanders`: whether it has the slow error too; `age`: time since it was measured, s, in which the car
        is assumed to have kept its present speed and yaw rate.
        """
        x = self.state
        arm, speed = self.settings.antenna, float(x[_SPEED])
        yaw = float(x[_YAW]) - age * self.yaw_rate
        course = float(x[_YAW]) + self.sideslip - 0.5 * age * self.yaw_rate
        c, s, cc, cs = math.cos(yaw), math.sin(yaw), math.cos(course), math.sin(course)
        slow = 1.0 if wanders else 0.0
        before = x.copy()
        for axis, measured, lever, lever_turned, way, way_turned in (
            (_X, east, arm * c, -arm * s, -age * cc, age * speed * cs),
            (_Y, north, arm * s, arm * c, -age * cs, -age * speed * cc),
        ):
            h = np.zeros(_SIZE)
            h[axis], h[_YAW], h[_SPEED], h[_EAST + axis] = 1.0, lever_turned + way_turned, way, slow
            seen = before[axis] + lever + way * speed + slow * before[_EAST + axis]
            # The first axis has changed the state: both are linearised at the state before it.
            self._update(measured - float(seen + h @ (x - before)), h, variance)

    def update_course(self, yaw: float, speed: float, sigma: float) -> None:
        """Update with a course over ground, rad from east, at that speed over ground (m/s, σ per axis)."""
        if speed <= _SLOWEST_COURSE:
            return
        h = np.zeros(_SIZE)
        h[_YAW] = 1.0
        swing = self.settings.antenna * self.yaw_rate / speed
        innovation = yaw - float(self.state[_YAW]) - self.sideslip - swing
        self._update(math.remainder(innovation, 2 * math.pi), h, (sigma / speed) ** 2 + _COURSE_SIGMA**2)

    def update_speed(self, speed: float, sigma: float) -> None:
        """Update with the speed over ground, m/s."""
        h = np.zeros(_SIZE)
        h[_SPEED] = 1.0
        self._update(speed - float(self.state[_SPEED]), h, sigma**2)

    def _update(self, innovation: float, h: np.ndarray, variance: float) -> None:
        """Update with one scalar observation whose row of derivatives is `h` (8,)."""
        cross = self.covariance @ h
        gain = cross / (float(h @ cross) + variance)
        self.state += gain * innovation
        self.covariance -= np.outer(gain, cross)
