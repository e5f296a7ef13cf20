"""The errorEKF on the vehicle: the multibody simulation as prediction, its errors as states.

Sanjurjo's 20 states (errors of r1, ψ, v1z, v2z, θ1…θ4 and of their rates), and beside them the biases of
gyroscopes and accelerometers, the slow part of the GNSS error, and, where nothing measures it, the drive force.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.messages import WHEELS
from vehicled.observers.error_ekf import ErrorEKF
from vehicled.observers.history import History
from vehicled.observers.settings import Filter
from vehicled.sensors.kernels import CHART_SIZE, LARGEST, POSE, add_sensor_kernels
from vehicled.vehicle.car import Car
from vehicled.vehicle.chart import CHART
from vehicled.vehicle.parameters import Vehicle

CHART_PAIRS = len(CHART)
PAIRS = CHART_PAIRS + len(WHEELS)
RATES = slice(PAIRS, PAIRS + CHART_PAIRS)
"""Of the chart, in x."""
WHEEL_ANGLE = CHART_PAIRS
WHEEL_RATE = PAIRS + CHART_PAIRS
GYRO_BIAS = 2 * PAIRS
ACCELEROMETER_BIAS = GYRO_BIAS + 3
WANDER = ACCELEROMETER_BIAS + 3
EXTRA = 9
SIZE = 2 * PAIRS + EXTRA
"""Places in x."""

_POSE = len(POSE)
_YAW = CHART.index("yaw")
_HEIGHT = CHART.index("z")


@dataclass
class Sight:
    """An observation seen from the pose of its time: what it should read, and how that depends on x."""

    predicted: np.ndarray
    """(m,) with all corrections that are already decided."""
    rows: np.ndarray
    """(m, SIZE) Jacobian with respect to the errors of now."""


class VehicleFilter:
    """A car that runs beside the real one, and the covariance of its errors."""

    def __init__(self, vehicle: Vehicle, settings: Filter, rate_hint: float):
        self.car = Car(vehicle, (add_sensor_kernels,))
        self.ekf = ErrorEKF(PAIRS, EXTRA)
        self.extra = np.zeros(EXTRA)
        """Estimates of the extra states: gyro bias, accelerometer bias (IMU axes), GNSS wander (world axes)."""
        self.extra_drift = np.zeros(EXTRA)
        """Spectral density of their random walks, per second."""
        self.wander_sigma, self.wander_time = 0.0, 120.0
        capacity = int(np.ceil(settings.memory * rate_hint)) + 2
        self.history = History(capacity, _POSE + 2 * len(WHEELS), PAIRS)
        self.set_noise(settings)
        car = self.car
        self._pose = car.view("pose")
        self._predicted = car.view("predicted")
        self._sensitivity = car.view("sensitivity").reshape(LARGEST, CHART_SIZE)
        self._wheels = car.view("states")
        names = car.compiled.vehicle_program.states
        self._wheel_angle, self._wheel_rate = names.index("wheel.angle"), names.index("wheel.rate")
        self._yaw = 0.0
        self._now = np.zeros(_POSE + 2 * len(WHEELS))
        self.unconverged = 0
        """Steps whose Newton iteration reached its limit."""

    def set_noise(self, settings: Filter) -> None:
        """Plant noise from the configuration."""
        self.settings = settings
        q, p = settings.rate_noise, settings.position_noise
        self.ekf.rate_noise[:] = np.square([q.x, q.x, q.z, q.yaw, q.v1z, q.v2z, *[q.wheel] * 4])
        self.ekf.position_noise[:] = np.square([p.x, p.x, p.z, p.yaw, p.v1z, p.v2z, *[p.wheel] * 4])

    # -- time -----------------------------------------------------------------------------------------

    def observe(self) -> np.ndarray:
        """The present pose with the wheels' angles and rates appended, its yaw without jumps."""
        self.car.call("observe_pose")
        now = self._now
        now[:_POSE] = self._pose
        self._yaw += (now[_YAW] - self._yaw + np.pi) % (2 * np.pi) - np.pi
        now[_YAW] = self._yaw
        now[_POSE : _POSE + 4] = self._wheels[self._wheel_angle]
        now[_POSE + 4 :] = self._wheels[self._wheel_rate]
        return now

    def remember(self, t_ns: int) -> None:
        """Begin the history anew with the present state."""
        self.history.clear()
        self.history.step(t_ns, self.observe())
        self._t_ns = t_ns

    def advance(self, t_ns: int, h: float) -> None:
        """Simulate h seconds, up to t_ns, and let the errors' covariance grow."""
        if self.car.step(h) < 0:
            self.unconverged += 1
        ekf = self.ekf
        decay = np.exp(-h / self.wander_time)
        ekf.decay[:6] = 1.0
        ekf.decay[6:] = decay
        ekf.extra_noise[:] = self.extra_drift * h
        ekf.extra_noise[6:] += (1.0 - decay * decay) * np.square([1.0, 1.0, 2.0]) * self.wander_sigma**2
        self.extra[6:] *= decay
        ekf.predict(h)
        ekf.x[:] = 0.0
        self.history.step(t_ns, self.observe())
        self._t_ns = t_ns

    # -- observations ------------------------------------------------------------------------------------

    def sight(self, kernel: str, t_ns: int, m: int) -> Sight | None:
        """A sensor on the chassis at the time when it measured. None when that is too long ago."""
        past = self.history.at(t_ns)
        if past is None:
            return None
        pose, dz, dzd = past
        self._pose[:] = pose[:_POSE]
        self.car.call(kernel)
        rows = np.zeros((m, SIZE))
        h_z = self._sensitivity[:m, :CHART_PAIRS]
        h_zd = self._sensitivity[:m, CHART_PAIRS:]
        predicted = self._predicted[:m] + h_z @ dz[:CHART_PAIRS] + h_zd @ dzd[:CHART_PAIRS]
        # Errors of then by errors of now: F(t − now).
        rows[:, :CHART_PAIRS] = h_z
        rows[:, RATES] = h_zd + h_z * min((t_ns - self._t_ns) * 1e-9, 0.0)
        return Sight(predicted, rows)

    def sight_wheel(self, wheel: int, t_ns: int, rate: bool) -> Sight | None:
        """Angle or rate of a wheel relative to its knuckle."""
        past = self.history.at(t_ns)
        if past is None:
            return None
        pose, dz, dzd = past
        rows = np.zeros((1, SIZE))
        if rate:
            rows[0, WHEEL_RATE + wheel] = 1.0
            return Sight(pose[None, _POSE + 4 + wheel] + dzd[CHART_PAIRS + wheel], rows)
        rows[0, WHEEL_ANGLE + wheel] = 1.0
        rows[0, WHEEL_RATE + wheel] = min((t_ns - self._t_ns) * 1e-9, 0.0)
        return Sight(pose[None, _POSE + wheel] + dz[CHART_PAIRS + wheel], rows)

    def judge(self, sight: Sight, value: np.ndarray, noise: np.ndarray) -> float:
        """Normalised innovation squared of a measurement (m,) with variances `noise` (m,)."""
        m = len(value)
        self.ekf.rows[:m] = sight.rows
        self.ekf.innovation[:m] = value - sight.predicted
        self.ekf.noise[:m] = noise
        return self.ekf.judge(m)

    def correct(self) -> None:
        """Apply what the observations of this step have found to the car and to the extra states."""
        x = self.ekf.x
        if not x.any():
            return
        car = self.car
        car.correction[:CHART_PAIRS] = x[:CHART_PAIRS]
        car.correction[CHART_PAIRS:] = x[RATES]
        car.corner_correction[0] = x[WHEEL_ANGLE:PAIRS]
        car.corner_correction[1] = x[WHEEL_RATE:GYRO_BIAS]
        car.call("correct")
        # The ground is wherever the car stands: a vertical correction moves both.
        car.ground[3] += car.ground[2] * x[_HEIGHT]
        self.extra += x[GYRO_BIAS:]
        self.history.correct(x[:PAIRS], x[PAIRS:GYRO_BIAS], self.observe())
        x[:] = 0.0

    # -- placing -----------------------------------------------------------------------------------------

    def place(self, position: np.ndarray, yaw: float, speed: float) -> None:
        """At rest height on level ground at world height `position[2]` − its height at rest; straight ahead at
        `speed` with rolling wheels."""
        car = self.car
        car.rest()
        car.ground[:] = (0.0, 0.0, 1.0, 0.0)
        car.call("observe_pose")
        rest = self._pose[:CHART_PAIRS].copy()
        car.correction[:] = 0.0
        car.correction[:3] = position - rest[:3]
        car.correction[3] = yaw - rest[3]
        car.correction[6:8] = speed * np.cos(yaw), speed * np.sin(yaw)
        car.corner_correction[:] = 0.0
        car.corner_correction[1] = speed / car.rolling_radius
        car.call("correct")
        car.ground[3] = position[2] - rest[2]
        self._yaw = yaw

    def turn(self, angle: float) -> None:
        """Turn the whole car, its velocity with it, about the vertical through its origin."""
        car = self.car
        car.call("observe_pose")
        vx, vy = self._pose[CHART_PAIRS : CHART_PAIRS + 2]
        c, s = np.cos(angle), np.sin(angle)
        car.correction[:] = 0.0
        car.correction[3] = angle
        car.correction[6:8] = c * vx - s * vy - vx, s * vx + c * vy - vy
        car.corner_correction[:] = 0.0
        car.call("correct")

    def output_sigmas(self) -> np.ndarray:
        """(3,) standard deviations of vx, vy (vehicle axes) and sideslip, at the present pose."""
        self.car.call("body_velocity")
        rows = self.ekf.rows
        rows[:] = 0.0
        rows[:, :CHART_PAIRS] = self._sensitivity[:, :CHART_PAIRS]
        rows[:, RATES] = self._sensitivity[:, CHART_PAIRS:]
        self.ekf.noise[:] = 1e-12
        self.ekf.judge(LARGEST)
        # At standstill sideslip is anything; fmin also takes care of 0/0.
        return np.fmin(np.sqrt(self.ekf.variance), (np.inf, np.inf, np.pi))
