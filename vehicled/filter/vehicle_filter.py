"""The errorEKF on the vehicle: the multibody simulation as prediction, its errors as states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vehicled.filter.covariance import ErrorEKF
from vehicled.filter.definite import repair
from vehicled.filter.history import History
from vehicled.filter.settings import DriveForce, Filter
from vehicled.filter.vehicle_errors import (
    CHART_PAIRS,
    DRIVE,
    GYRO_BIAS,
    OBSERVATIONS,
    PAIRS,
    SUSPENSION,
    V1Z,
    V2Z,
    WANDER,
    YAW,
    extension,
    size,
)
from vehicled.messages import WHEELS
from vehicled.sources.settings import Accelerometers
from vehicled.vehicle.car import Car, Instances
from vehicled.vehicle.kinematics import Corner, calc_rates
from vehicled.vehicle.model import Extension
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.sensor_models import POSE

_BODY_FREQUENCY = 9.0
"""rad/s: of a car's body on its springs."""
_AHEAD = CHART_PAIRS
"""In a pose."""
_KERNEL = {sensor: f"see.{sensor}" for sensor in OBSERVATIONS}


class VehicleFilter:
    """A car that runs beside the real one, and the covariance of its errors. All arrays are views into one
    workspace, the car's."""

    def __init__(self, vehicle: Vehicle, settings: Filter):
        self.car = car = self._make_car(vehicle, (extension(settings.suspension is not None, settings.kind),))
        self._mass = vehicle.mass
        view = car.view
        self.ekf = ErrorEKF(size(settings.suspension is not None), car.layout, car.workspace, car.call)
        self.extra = view("extra")
        """Estimates of the extra states, from x[GYRO_BIAS] on. Those of the suspensions are not kept: they are
        applied to the car."""
        self.extra_drift = view("extra_drift")
        """Spectral density of their random walks, per second."""
        self.plant, self.wander = view("plant"), view("wander")
        """See PLANT and SLOW."""
        self._pose, self._since, self._age = view("pose"), view("since"), view("age")
        self._past_wheels, self._moved, self._h = view("past_wheels"), view("moved"), view("h")
        self._travel = view("x")[SUSPENSION:]
        self._has_travel = len(self._travel) > 0
        self.sigmas = view("sigmas")
        """(7,) standard deviations of x, y, z, yaw, vx, vy, sideslip, after `tell`."""
        # `now` and `now_wheels` lie one after the other: one array for the history.
        begin, end = (car.layout.places[name].offset for name in ("now", "now_wheels"))
        self._wheels = end - begin
        self.now = car.workspace[begin : end + 2 * len(WHEELS)]
        """The present pose (POSE, its yaw without jumps), then, from `_wheels` on, the wheels' angles and rates."""
        radius = car.rolling_radius
        left = car.get_corner_parameter("wheel.centre.y")
        self.rolling = view("rolling").reshape(len(WHEELS), 2)
        """(4, 2) wheel rates by speed ahead (rad/m) and by yaw rate, when the wheels roll."""
        self.rolling[:] = np.stack([1.0 / radius, -left / radius], axis=1)
        places = np.stack([car.get_corner_parameter(f"wheel.centre.{a}") for a in "xy"], axis=1)
        self._body_fit = np.linalg.pinv(np.column_stack([np.ones(len(WHEELS)), places]))
        """(3, 4) heave and slopes of a body from heights at its wheels."""
        self._leans = settings.kind == "errorEKF_FE"
        if self._leans:
            view("mass")[0] = vehicle.mass
        if settings.suspension is not None:
            view("heave")[:] = _heave_stiffness(vehicle) / vehicle.mass
        self.wander[:] = 120.0, 0.0, 0.0, 0.0
        self.acceleration_error(None)
        self.history = History(settings.memory, len(self.now), PAIRS)
        self.set_noise(settings)
        self._seen: int | None = None
        self.unconverged = 0
        """Steps whose Newton iteration reached its limit."""
        self.repairs = 0
        """How often the covariance had lost its definiteness."""

    def _make_car(self, vehicle: Vehicle, extensions: tuple[Extension, ...]) -> Car:
        return Car(vehicle, extensions)

    def set_noise(self, settings: Filter) -> None:
        """Plant noise from the configuration."""
        self.settings = settings
        q, p = settings.rate_noise, settings.position_noise
        slope = 2 * settings.ground_slope**2 / settings.ground_slope_time
        positions = [*np.square([p.x, p.x, p.z, p.yaw]), slope, slope, *[p.wheel**2] * 4]
        rates = np.square([q.longitudinal, q.lateral, q.z, q.yaw, q.v1z, q.v2z, *[q.wheel] * 4])
        self.plant[:] = [*positions, *rates, q.lateral_per_speed, settings.slip_time]
        if settings.suspension is not None:
            # Travel and its rate, whose ratio is that of a body on its springs.
            s = settings.suspension
            self.car.view("suspension_process")[:] = s.time, s.travel, s.travel * _BODY_FREQUENCY

    def acceleration_error(self, settings: Accelerometers | None) -> None:
        """What the model's accelerations leave unexplained, as a Gauss–Markov process per axis."""
        process = (
            (1.0, 0.0, 0.0, 0.0) if settings is None else (settings.model_error_time, *settings.model_error)
        )
        self.car.view("acceleration_error")[:] = process
        self.car.view("gravity_removed")[0] = settings is not None and settings.gravity_removed

    # -- time -----------------------------------------------------------------------------------------

    def look(self) -> np.ndarray:
        """The present state in `now`, which is returned."""
        self.car.call("look")
        return self.now

    def remember(self, t_ns: int) -> None:
        """Begin the history anew with the present state."""
        self.history.clear()
        self.history.step(t_ns, self.look())
        self._t_ns, self._seen = t_ns, None

    def advance(self, t_ns: int, h: float) -> None:
        """Simulate h seconds, up to t_ns, and let the errors' covariance grow."""
        if self.settings.drive_force is not None:
            self._drive(self.settings.drive_force)
        if self._leans:
            self.car.call("lean")
        self._h[0] = h
        self._simulate(h)
        self._spread(h)
        self.history.step(t_ns, self.now)
        self._t_ns, self._seen = t_ns, None

    def _simulate(self, h: float) -> None:
        """The car one step on."""
        if self.car.step(h) < 0:
            self.unconverged += 1

    def _spread(self, h: float) -> None:
        """The new state into `now`; the covariance one step on."""
        self.car.call("propagate")

    def _drive(self, settings: DriveForce) -> None:
        """The unknown force as torques on the wheels: forward at the rear, backward at all."""
        force = self.extra[DRIVE - GYRO_BIAS] * self._mass
        front = 0.0 if force > 0.0 else settings.front_brake_share
        axles = np.array([front, front, 1.0 - front, 1.0 - front])
        self.car.corner_inputs[3] = 0.5 * force * axles * self.car.rolling_radius

    # -- observations ------------------------------------------------------------------------------------

    def judge(self, sensor: str, t_ns: int, value: Sequence[float], noise: Sequence[float]) -> float | None:
        """Normalised innovation squared of what a sensor (one of OBSERVATIONS) measured at a time, with variances
        `noise`; None when that is too long ago. `ekf` then tells the rest; UNSEEN as noise stands for a component
        that is missing."""
        if t_ns != self._seen:
            past = self.history.at(t_ns)
            if past is None:
                return None
            pose, since = past
            self._pose[:] = pose[: len(POSE)]
            self._past_wheels[:] = pose[self._wheels :]
            self._since[:] = since
            self._age[0] = max(self._t_ns - t_ns, 0) * 1e-9
            self._seen = t_ns
        m = len(value)
        self.ekf.value[:m] = value
        self.ekf.noise[:m] = noise
        return self.ekf.judge(_KERNEL[sensor])

    def expect_level_ground(self, interval: float) -> None:
        """What is known of roads: slope and bank are small. Call every `interval` seconds.

        A random walk of density Q, seen as zero through noise of density r, settles at the variance √(Q r);
        with r = σ²τ/2 beside Q = 2σ²/τ that is the variance σ² of slopes. No measurement: no gate, no record.
        """
        settings = self.settings
        noise = 0.5 * settings.ground_slope**2 * settings.ground_slope_time / interval
        for sensor in ("see.slope", "see.bank"):
            self.ekf.value[0] = 0.0
            self.ekf.noise[0] = noise
            self.ekf.judge(sensor)
            self.ekf.fuse(1)

    def correct(self) -> None:
        """Apply what the observations of this step have found to the car and to the extra states."""
        if not self.ekf.x.any():
            return
        self.car.call("apply")
        if self._has_travel:
            self._correct_suspension(self.car, *self._travel.reshape(2, len(WHEELS)))
            self.extra[SUSPENSION - GYRO_BIAS :] = 0.0
            self._travel[:] = 0.0
            self.look()
        self.history.correct(self._moved, self.now)
        self._seen = None

    def _correct_suspension(
        self, cars: Instances, travel: np.ndarray, rate: np.ndarray, motion: np.ndarray | None = None
    ) -> None:
        """Tyres are stiff: where a wheel travels up in the body, it is the body that comes down."""
        cars.correct_suspension(travel, rate, motion)
        change = np.zeros_like(cars.correction)
        change[[2, V1Z, V2Z]] = -self._body_fit @ travel
        change[[CHART_PAIRS + 2, CHART_PAIRS + V1Z, CHART_PAIRS + V2Z]] = -self._body_fit @ rate
        cars.correct(change)

    def repair(self) -> None:
        """See to it that the covariance is definite; what rounding took from it is counted."""
        p = self.ekf.covariance
        uncertain = np.ix_(*[np.flatnonzero(p.diagonal())] * 2)
        p[uncertain], repaired = repair(p[uncertain])
        if repaired:
            self.repairs += 1
            self.ekf.covariance = p

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
        self.now[YAW] = yaw  # from which `look` goes on
        self._seen = None

    def move(self, offset: np.ndarray) -> None:
        """Shift the car (3,), and the ground under it."""
        change = np.zeros(2 * CHART_PAIRS)
        change[:3] = offset
        self.car.correct(change, carry=True)
        self._seen = None

    def note(self, place: int, change: float) -> None:
        """Enter a change of one coordinate that was made beside `correct` into the history."""
        moved = np.zeros_like(self._moved)
        moved[place] = change
        self.history.correct(moved, self.look())
        self._seen = None

    def turn(self, angle: float) -> None:
        """Turn the whole car, its velocity with it, about the vertical through its origin."""
        change = np.zeros(2 * CHART_PAIRS)
        change[YAW] = angle
        self.car.correct(change, carry=True)
        self._seen = None

    def antenna(self) -> np.ndarray:
        """(3,) where it is now."""
        self._pose[:] = self.look()[: len(POSE)]
        self._seen = None
        self.car.call("gnss_position")
        return self.car.view("predicted")

    def begin_wander(self, sigma: float, time: float) -> None:
        """The slow part of a fix's error belongs to its kind; it begins anew when that changes for worse."""
        self.wander[0] = time
        if abs(sigma - self.wander[1]) > 0.2 * max(sigma, self.wander[1]):
            self.wander[1:] = sigma, sigma, 2.0 * sigma
            self.extra[WANDER - GYRO_BIAS : WANDER - GYRO_BIAS + 3] = 0.0
            for k in range(3):
                self.ekf.set_variance(WANDER + k, self.wander[1 + k] ** 2 + 1e-12)

    def tell(self) -> None:
        """Bring the car's outputs and `sigmas` up to date."""
        self._pose[:] = self.now[: len(POSE)]
        self._seen = None
        self.car.call("tell")


class ForwardEulerFilter(VehicleFilter):
    """DEKF: the model goes on by forward Euler, with its position, velocity and acceleration problems solved each
    step; no memory of accelerations is left that a correction would not know of (Sanjurjo)."""

    def _simulate(self, h: float) -> None:
        self.car.step_euler(h)


def _heave_stiffness(vehicle: Vehicle) -> np.ndarray:
    """(8,) vertical force on the body by travel (N/m) and by rate of travel (N·s/m) of each wheel, about design."""
    stiffness, damping = [], []
    for wheel in WHEELS:
        axle = vehicle.axle(wheel)
        ratio = calc_rates(Corner.of(axle.hard_points)).strut
        stiffness.append(ratio**2 * axle.spring.stiffness)
        damping.append(ratio**2 * 0.5 * (axle.damper.bump + axle.damper.rebound))
    return np.array([*stiffness, *damping])
