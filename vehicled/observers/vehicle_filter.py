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
from vehicled.observers.settings import DriveForce, Filter, Suspension
from vehicled.sensors.kernels import CHART_SIZE, LARGEST, POSE, add_sensor_kernels
from vehicled.sensors.settings import Accelerometers
from vehicled.vehicle.car import Car
from vehicled.vehicle.chart import CHART
from vehicled.vehicle.kinematics import Corner, calc_rates
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
SPEED_SCALE = WANDER + 3
ACCELERATION_ERROR = SPEED_SCALE + 1
DRIVE = ACCELERATION_ERROR + 3
SUSPENSION = DRIVE + 1
"""Optional: travel of the four wheels, and its rates, from here on."""
"""Places in x."""

_POSE = len(POSE)
_CHART = np.arange(CHART_PAIRS)
_AHEAD, _LEFT = CHART_PAIRS, CHART_PAIRS + 1
_YAW, _V1Z, _V2Z = (CHART.index(n) for n in ("yaw", "v1z", "v2z"))


_BODY_FREQUENCY = 9.0
"""rad/s: of a car's body on its springs."""
_COUPLING: tuple[tuple[int, int], ...] = (
    *((0, PAIRS), (0, PAIRS + 1), (0, _YAW)),
    *((1, PAIRS), (1, PAIRS + 1), (1, _YAW)),
    (2, _V1Z),
    *((WHEEL_ANGLE + n, column) for n in range(len(WHEELS)) for column in (PAIRS, PAIRS + _YAW)),
    (PAIRS, DRIVE),
    *((WHEEL_RATE + n, WHEEL_RATE + n) for n in range(len(WHEELS))),
)
"""Where velocities along and across the car, a turned heading and a slope move the position, speed and yaw rate
the wheels, and the drive force the speed."""


@dataclass
class Sight:
    """An observation seen from the pose of its time: what it should read, and how that depends on x."""

    predicted: np.ndarray
    """(m,) with all corrections that are already decided."""
    rows: np.ndarray
    """(m, n) Jacobian with respect to the errors of now."""
    late_noise: np.ndarray | float = 0.0
    """(m,) variance that plant noise since then adds to a measurement of the past."""

    def of(self, components: list[int]) -> Sight:
        """Some of the components only."""
        late = self.late_noise
        late = late[components] if isinstance(late, np.ndarray) else late
        return Sight(self.predicted[components], self.rows[components], late)


class VehicleFilter:
    """A car that runs beside the real one, and the covariance of its errors."""

    def __init__(self, vehicle: Vehicle, settings: Filter):
        self.car = Car(vehicle, (add_sensor_kernels,))
        self._mass = vehicle.mass
        extra = SUSPENSION - GYRO_BIAS
        coupling = _COUPLING
        if settings.suspension is not None:
            extra += 2 * len(WHEELS)
            coupling += tuple((SUSPENSION + n, SUSPENSION + len(WHEELS) + n) for n in range(len(WHEELS)))
        self.ekf = ErrorEKF(PAIRS, extra, coupling)
        self.extra = np.zeros(extra)
        """Estimates of the extra states: gyro bias, accelerometer bias (IMU axes), GNSS wander (world axes), scale
        error of the vehicle's own speed, slow error of the model's acceleration (IMU axes), unknown drive force over
        mass. Those of the suspensions are not kept: they are applied to the car."""
        self.extra_drift = np.zeros(extra)
        """Spectral density of their random walks, per second."""
        self.wander_sigma, self.wander_time = 0.0, 120.0
        self.acceleration_error(None)
        self.history = History(settings.memory, _POSE + 2 * len(WHEELS), PAIRS)
        self.set_noise(settings)
        car = self.car
        self._pose = car.view("pose")
        self._predicted = car.view("predicted")
        self._sensitivity = car.view("sensitivity").reshape(LARGEST, CHART_SIZE)
        self._tyre_damping = car.view("tyre_damping").reshape(3, 3)
        self._wheels = car.view("states")
        names = car.compiled.vehicle_program.states
        self._wheel_angle, self._wheel_rate = names.index("wheel.angle"), names.index("wheel.rate")
        radius = self.car.rolling_radius
        left = np.array([car.get_corner_parameter("wheel.centre.y")[n] for n in range(len(WHEELS))])
        self._rolling = np.stack([1.0 / radius, -left / radius], axis=1)
        """(4, 2) wheel rates by speed ahead (rad/m) and by yaw rate, when the wheels roll."""
        places = np.stack([car.get_corner_parameter(f"wheel.centre.{a}") for a in "xy"], axis=1)
        self._body_fit = np.linalg.pinv(np.column_stack([np.ones(len(WHEELS)), places]))
        """(3, 4) heave and slopes of a body from heights at its wheels."""
        self._heave = _heave_stiffness(vehicle) / vehicle.mass
        self._way = ((0, 0), np.empty(0), np.empty(0))
        self._yaw = 0.0
        self._now = np.zeros(_POSE + 2 * len(WHEELS))
        self.unconverged = 0
        """Steps whose Newton iteration reached its limit."""

    def set_noise(self, settings: Filter) -> None:
        """Plant noise from the configuration."""
        self.settings = settings
        q, p = settings.rate_noise, settings.position_noise
        self.ekf.rate_noise[:] = np.square(
            [q.longitudinal, q.lateral, q.z, q.yaw, q.v1z, q.v2z, *[q.wheel] * 4]
        )
        slope = 2 * settings.ground_slope**2 / settings.ground_slope_time
        self.ekf.position_noise[:] = [*np.square([p.x, p.x, p.z, p.yaw]), slope, slope, *[p.wheel**2] * 4]

    def acceleration_error(self, settings: Accelerometers | None) -> None:
        """What the model's accelerations leave unexplained, as a Gauss–Markov process per axis."""
        self._acceleration_variance = np.zeros(3)
        self._acceleration_time = 1.0
        if settings is not None:
            self._acceleration_variance = np.square(settings.model_error)
            self._acceleration_time = settings.model_error_time

    # -- time -----------------------------------------------------------------------------------------

    def observe(self) -> np.ndarray:
        """The present pose with the wheels' angles and rates appended, its yaw without jumps."""
        self.car.call("observe_pose")
        now = self._now
        now[:_POSE] = self._pose
        if not np.isfinite(self._yaw):
            self._yaw = 0.0
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
        if self.settings.drive_force is not None:
            self._drive(self.settings.drive_force)
        if self.car.step(h) < 0:
            self.unconverged += 1
        ekf = self.ekf
        decay = np.exp(-h / self.wander_time)
        ekf.decay[:] = 1.0
        ekf.decay[6:9] = decay
        ekf.extra_noise[:] = self.extra_drift * h
        ekf.extra_noise[6:9] += (1.0 - decay * decay) * np.square([1.0, 1.0, 2.0]) * self.wander_sigma**2
        decay = np.exp(-h / self._acceleration_time)
        ekf.decay[10:13] = decay
        ekf.extra_noise[10:13] += (1.0 - decay * decay) * self._acceleration_variance
        if self.settings.suspension is not None:
            self._relax_suspension(self.settings.suspension, h)
        self.extra *= ekf.decay
        pose = self.observe()
        ahead, left = pose[_AHEAD], pose[_LEFT]
        c, s = np.cos(pose[_YAW]), np.sin(pose[_YAW])
        east, north = c * ahead - s * left, s * ahead + c * left
        ekf.coupling[:7] = (h * c, -h * s, -h * north, h * s, h * c, h * east, h * ahead)
        ekf.coupling[7:15] = h * self._rolling.ravel()
        ekf.coupling[15] = h
        ekf.coupling[16:20] = np.exp(-h / self.settings.slip_time)
        ekf.coupling[20:] = h
        q = self.settings.rate_noise
        ekf.rate_noise[1] = (q.lateral + q.lateral_per_speed * abs(ahead)) ** 2
        ekf.predict(h)
        ekf.x[:] = 0.0
        self.history.step(t_ns, pose)
        self._t_ns = t_ns

    def _relax_suspension(self, settings: Suspension, h: float) -> None:
        """Gauss–Markov processes of travel and of its rate, whose ratio is that of a body on its springs."""
        decay = np.exp(-h / settings.time)
        place = slice(SUSPENSION - GYRO_BIAS, None)
        self.ekf.decay[place] = decay
        variance = np.repeat([settings.travel**2, (settings.travel * _BODY_FREQUENCY) ** 2], len(WHEELS))
        self.ekf.extra_noise[place] = (1.0 - decay * decay) * variance

    def _drive(self, settings: DriveForce) -> None:
        """The unknown force as torques on the wheels: forward at the rear, backward at all."""
        force = self.extra[DRIVE - GYRO_BIAS] * self._mass
        front = 0.0 if force > 0.0 else settings.front_brake_share
        axles = np.array([front, front, 1.0 - front, 1.0 - front])
        self.car.corner_inputs[3] = 0.5 * force * axles * self.car.rolling_radius

    def _drift(self, dz: np.ndarray, dzd: np.ndarray, pose: np.ndarray) -> np.ndarray:
        """(PAIRS,) how fast errors (PAIRS,) in coordinates and rates make the coordinates drift."""
        ahead, left = pose[_AHEAD], pose[_LEFT]
        c, s = np.cos(pose[_YAW]), np.sin(pose[_YAW])
        drift = dzd.copy()
        drift[0] = c * dzd[0] - s * dzd[1] - (s * ahead + c * left) * dz[_YAW]
        drift[1] = s * dzd[0] + c * dzd[1] + (c * ahead - s * left) * dz[_YAW]
        drift[2] += ahead * dz[_V1Z]
        drift[WHEEL_ANGLE:] = self._wheel_rates(dzd)
        return drift

    # -- observations ------------------------------------------------------------------------------------

    def sight_accelerometer(self, t_ns: int) -> Sight | None:
        """Accelerometers: beside attitude and rotation, what the tyres make of sideslip and yaw rate."""
        sight = self.sight("imu_accelerometer", t_ns, LARGEST)
        if sight is not None:
            self.car.call("observe_tyres")
            mounting = self.car.view("mounting")
            arm, rotation = mounting[3:6], mounting[6:].reshape(3, 3)
            ax, ay, alpha = self._tyre_damping
            change = np.stack([ax - alpha * arm[1], ay + alpha * arm[0], 0.0 * ax])
            sight.rows[:, PAIRS : PAIRS + 2] += rotation @ change[:, :2]
            sight.rows[:, PAIRS + _YAW] += rotation @ change[:, 2]
            if self.settings.drive_force is not None:
                sight.rows[:, DRIVE] = rotation[:, 0]
            if self.settings.suspension is not None:
                sight.rows[:, SUSPENSION:] = rotation[:, 2:] * self._heave
        return sight

    def sight(self, kernel: str, t_ns: int, m: int) -> Sight | None:
        """A sensor on the chassis at the time when it measured. None when that is too long ago."""
        past = self.history.at(t_ns)
        if past is None:
            return None
        pose, dz, dzd = past
        self._pose[:] = pose[:_POSE]
        self.car.call(kernel)
        sensitivity = self._sensitivity[:m]
        h_z = sensitivity[:, :CHART_PAIRS]
        predicted = (
            self._predicted[:m] + h_z @ dz[:CHART_PAIRS] + sensitivity[:, CHART_PAIRS:] @ dzd[:CHART_PAIRS]
        )
        # Errors of then by errors of now: z(then) = z(now) − drift·(now − then).
        rows = np.zeros((m, self.ekf.size))
        if t_ns >= self._t_ns:
            rows[:, :CHART_PAIRS] = h_z
            rows[:, RATES] = sensitivity[:, CHART_PAIRS:]
            return Sight(predicted, rows)
        back, spread = self._way_back(t_ns, pose)
        seen = sensitivity @ back
        rows[:, :CHART_PAIRS] = seen[:, :CHART_PAIRS]
        rows[:, RATES] = seen[:, CHART_PAIRS:]
        return Sight(predicted, rows, np.square(h_z @ spread).sum(axis=1))

    def _way_back(self, t_ns: int, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(12, 12) errors of chart and rates at a past time by those of now, and a square root (6, 6) of what white
        noise on the rates has added to the chart since; kept for the next sensor of that time."""
        if self._way[0] != (t_ns, self._t_ns):
            age = (self._t_ns - t_ns) * 1e-9
            ahead, left = pose[_AHEAD], pose[_LEFT]
            c, s = np.cos(pose[_YAW]), np.sin(pose[_YAW])
            drift = np.zeros((2 * CHART_PAIRS, 2 * CHART_PAIRS))
            drift[_CHART, _CHART + CHART_PAIRS] = 1.0
            turn = drift[:2, CHART_PAIRS : CHART_PAIRS + 2]
            turn[:] = ((c, -s), (s, c))
            drift[:2, _YAW] = -(s * ahead + c * left), c * ahead - s * left
            drift[2, _V1Z] = ahead
            spread = np.diag(np.sqrt(self.ekf.rate_noise[:CHART_PAIRS] * (age**3 / 3)))
            spread[:2, :2] = turn * spread[[0, 1], [0, 1]]
            self._way = ((t_ns, self._t_ns), np.eye(2 * CHART_PAIRS) - age * drift, spread)
        return self._way[1:]

    def _wheel_rates(self, dzd: np.ndarray) -> np.ndarray:
        """(4,) errors of the wheels' rates: those of rolling, as the car's speed and yaw rate are wrong, and those
        of slip, which are the states."""
        return self._rolling @ dzd[[0, _YAW]] + dzd[WHEEL_ANGLE:]

    def sight_wheel(self, wheel: int, t_ns: int, rate: bool) -> Sight | None:
        """Angle or rate of a wheel relative to its knuckle."""
        past = self.history.at(t_ns)
        if past is None:
            return None
        pose, dz, dzd = past
        rows = np.zeros((1, self.ekf.size))
        weight = 1.0
        if not rate:
            rows[0, WHEEL_ANGLE + wheel] = 1.0
            weight = min((t_ns - self._t_ns) * 1e-9, 0.0)
        rows[0, WHEEL_RATE + wheel] = weight
        rows[0, PAIRS] = weight * self._rolling[wheel, 0]
        rows[0, PAIRS + _YAW] = weight * self._rolling[wheel, 1]
        if rate:
            return Sight(pose[_POSE + 4 + wheel] + self._wheel_rates(dzd)[wheel : wheel + 1], rows)
        return Sight(pose[_POSE + wheel] + dz[CHART_PAIRS + wheel : CHART_PAIRS + wheel + 1], rows)

    def judge(self, sight: Sight, value: np.ndarray, noise: np.ndarray) -> float:
        """Normalised innovation squared of a measurement (m,) with variances `noise` (m,)."""
        m = len(value)
        self.ekf.rows[:m] = sight.rows
        self.ekf.innovation[:m] = value - sight.predicted
        self.ekf.noise[:m] = noise + sight.late_noise
        return self.ekf.judge(m)

    def expect_level_ground(self, interval: float) -> None:
        """What is known of roads: slope and bank are small. Call every `interval` seconds.

        A random walk of density Q, seen as zero through noise of density r, settles at the variance √(Q r);
        with r = σ²τ/2 beside Q = 2σ²/τ that is the variance σ² of slopes. No measurement: no gate, no record.
        """
        self.car.call("observe_pose")
        normal = self.car.ground[:3]
        yaw = self._pose[_YAW]
        along = -(normal[0] * np.cos(yaw) + normal[1] * np.sin(yaw))
        across = -(normal[1] * np.cos(yaw) - normal[0] * np.sin(yaw))
        ekf, settings = self.ekf, self.settings
        noise = 0.5 * settings.ground_slope**2 * settings.ground_slope_time / interval
        for place, slope in ((_V1Z, along), (_V2Z, across)):
            ekf.rows[0] = 0.0
            ekf.rows[0, place] = 1.0
            ekf.innovation[0] = -slope
            ekf.noise[0] = noise
            ekf.judge(1)
            ekf.fuse(1)

    def correct(self) -> None:
        """Apply what the observations of this step have found to the car and to the extra states."""
        x = self.ekf.x
        if not x.any():
            return
        pose = self._now.copy()
        change = np.concatenate([x[:CHART_PAIRS], x[RATES]])
        wheels = np.stack([x[WHEEL_ANGLE:PAIRS], self._wheel_rates(x[PAIRS:GYRO_BIAS])])
        self.car.correct(change, wheels, carry=True)
        if self.settings.suspension is not None:
            self._correct_suspension(*x[SUSPENSION:].reshape(2, len(WHEELS)))
            x[SUSPENSION:] = 0.0
        self.extra += x[GYRO_BIAS:]
        dz, dzd = x[:PAIRS], x[PAIRS:GYRO_BIAS]
        self.history.correct(dz, self._drift(dz, dzd, pose), dzd, self.observe())
        x[:] = 0.0

    def _correct_suspension(self, travel: np.ndarray, rate: np.ndarray) -> None:
        """Tyres are stiff: where a wheel travels up in the body, it is the body that comes down."""
        self.car.correct_suspension(travel, rate)
        change = np.zeros(2 * CHART_PAIRS)
        change[[2, _V1Z, _V2Z]] = -self._body_fit @ travel
        change[[CHART_PAIRS + 2, CHART_PAIRS + _V1Z, CHART_PAIRS + _V2Z]] = -self._body_fit @ rate
        self.car.correct(change)

    # -- placing -----------------------------------------------------------------------------------------

    def place(self, position: np.ndarray, yaw: float, speed: float) -> None:
        """At rest on level ground with the vehicle origin at `position` (3,), but going straight ahead at `speed`
        on rolling wheels."""
        car = self.car
        car.rest()
        car.ground[:] = (0.0, 0.0, 1.0, 0.0)
        car.call("observe_pose")
        change = np.zeros(2 * CHART_PAIRS)
        change[:3] = position - self._pose[:3]
        change[3] = yaw - self._pose[3]
        change[_AHEAD] = speed
        wheels = np.zeros((2, len(WHEELS)))
        wheels[1] = speed / car.rolling_radius
        car.correct(change, wheels, carry=True)
        self._yaw = yaw

    def turn(self, angle: float) -> None:
        """Turn the whole car, its velocity with it, about the vertical through its origin."""
        change = np.zeros(2 * CHART_PAIRS)
        change[_YAW] = angle
        self.car.correct(change, carry=True)

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


def _heave_stiffness(vehicle: Vehicle) -> np.ndarray:
    """(8,) vertical force on the body by travel (N/m) and by rate of travel (N·s/m) of each wheel, about design."""
    stiffness, damping = [], []
    for wheel in WHEELS:
        axle = vehicle.axle(wheel)
        ratio = calc_rates(Corner.of(axle.hard_points)).strut
        stiffness.append(ratio**2 * axle.spring.stiffness)
        damping.append(ratio**2 * 0.5 * (axle.damper.bump + axle.damper.rebound))
    return np.array([*stiffness, *damping])
