"""UKF on the vehicle: whole cars as sigma points, all stepped together.

The scaled unscented transform (Julier and Uhlmann; Wan and van der Merwe) on the errors that the errorEKF has too,
with its sensors, gates and corrections: the state of the filter is the running car, and points are its displacements
by one standard deviation along each error of chassis, suspensions and their rates, and back. Half the difference of
such a pair is what a Jacobian times that deviation would be; half their sum less the car itself is what curvature
makes of it, which moves the mean and widens covariances. What is linear anyhow needs no points and is carried along
in closed form: angles of the wheels, slow errors of sensors and model, and the slip of wheels, which as an error of
the model lasts, where that of a point would be taken back by its tyres in milliseconds.

Deflections of the tyres are no states: points have those of the car, so that within a step their tyres answer as far
as they relax in it. Plant noise is added before the step, so that points know of it and readings of where they
arrive need none drawn anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_solve

from vehicled.filter.definite import factorise
from vehicled.filter.settings import Filter, Suspension
from vehicled.filter.vehicle_errors import (
    ACCELERATION_ERROR,
    AHEAD,
    CHART_PAIRS,
    DRIVE,
    GYRO_BIAS,
    LEFT,
    PAIRS,
    PLANT,
    RATES,
    SUSPENSION,
    V1Z,
    V2Z,
    WANDER,
    WHEEL_ANGLE,
    WHEEL_RATE,
    YAW,
    YAW_RATE,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import WHEELS
from vehicled.multibody.ali3p import add_dynamics
from vehicled.symbolic.program import Program
from vehicled.vehicle.batch import CarBatch
from vehicled.vehicle.outputs import Parts
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.sensor_models import CHART_SIZE, add_sensor_kernels

_DRAWN = np.r_[:CHART_PAIRS, RATES, SUSPENSION : SUSPENSION + 2 * len(WHEELS)]
"""The states that points are drawn for."""
_N = len(_DRAWN)
_BLOCK = np.ix_(_DRAWN, _DRAWN)
_WIDTH = 48
"""Two points per error and the car itself between them; so many as fill vectors."""
_PLUS, _MINUS, _CENTRE = slice(0, _N), slice(_N, 2 * _N), 2 * _N
_LOW = np.array([2, V1Z, V2Z])
"""Of the chart: what suspensions carry."""
_KERNELS = {
    "gnss.position": "gnss_position",
    "gnss.speed": "gnss_speed",
    "gnss.course": "gnss_course",
    "imu.gyro": "imu_gyro",
    "imu.accel": "imu_accelerometer",
    "vehicle.speed": "body_velocity",
}
"""What is read from the points; wheels are read as linear as they are."""
_OPENED = 2.0
"""Ratio of a variance to that of the step's prediction above which it was not the filter itself that changed it."""


def _extend(program: Program, parts: Parts) -> None:
    """What the points need beside the step: accelerations of where they are put, poses, and readings."""
    models = add_sensor_kernels(program, parts, jacobians_too=False)
    velocity, normal = parts.origin.velocity, parts.ground
    places = [*models.now[:8], normal[0] * velocity.x + normal[1] * velocity.y + normal[2] * velocity.z]
    places += models.now[9:CHART_SIZE]
    corners = (parts.travel, parts.travel_rate)
    stores = [*zip(program.array("point", CHART_SIZE), places, strict=True)]
    stores += zip(program.array("point_corners", len(corners), 1), corners, strict=True)
    program.kernel("look", stores)
    add_dynamics(parts.step)
    program.sequence("renew", "factor", "accelerate", "accelerate")
    program.sequence("tell", "look", "observe_pose")


class UnscentedVehicleFilter(VehicleFilter):
    """UKF: prediction and readings by sigma points; corrections as in `VehicleFilter`."""

    def __init__(self, vehicle: Vehicle, settings: Filter):
        super().__init__(vehicle, _with_suspension(settings))
        self._points = batch = CarBatch(self.car, _WIDTH, (_extend,))
        self._mounting = self.car.view("mounting")
        self._processes = [
            (begin, self.car.view(name))
            for begin, name in ((WANDER, "wander"), (ACCELERATION_ERROR, "acceleration_error"))
        ]
        self._suspension_process = self.car.view("suspension_process")
        self._gravity_removed = self.car.view("gravity_removed")
        self._point_mounting, self._renewing = batch.view("mounting"), batch.view("newton")[3]
        self._reached, self._reached_corners = batch.view("point"), batch.view("point_corners")
        self._point_pose, self._readings = batch.view("pose"), batch.view("predicted")
        self._away = np.zeros((_N, _WIDTH))
        self._transition = np.eye(self.ekf.size)

    def set_noise(self, settings: Filter) -> None:
        super().set_noise(_with_suspension(settings))

    # -- prediction ---------------------------------------------------------------------------------------

    def _simulate(self, h: float) -> None:
        """The car, and the points about where it was."""
        self._before = p = self.ekf.covariance
        p[np.diag_indices_from(p)] += h * self._densities()
        self._root, repaired = factorise(p[_BLOCK])
        self.repairs += repaired
        self._place(self._root)
        if self._points.step(h) < 0:
            self.unconverged += 1
        self._points.call("tell")
        super()._simulate(h)

    def _densities(self) -> np.ndarray:
        """(states,) of the plant noise, per second; that of slow errors which fade is not among it."""
        plant = self.plant
        densities = np.concatenate([plant[: 2 * PAIRS], self.extra_drift])
        per_speed = plant[PLANT.index("left per speed")] * abs(self.now[CHART_PAIRS])
        densities[LEFT] = (np.sqrt(densities[LEFT]) + per_speed) ** 2
        time, *sigmas = self._suspension_process
        densities[SUSPENSION:] = np.repeat(2.0 / time * np.square(sigmas), len(WHEELS))
        return densities

    def _place(self, root: np.ndarray) -> None:
        """The points where the columns of `root` (20, 20) and their opposites lead."""
        points, away, ahead, yaw_rate = self._points, self._away, CHART_PAIRS, CHART_PAIRS + YAW
        points.spread()
        away[:, _PLUS], away[:, _MINUS] = root, -root
        travel, rate = away[CHART_SIZE:].reshape(2, len(WHEELS), _WIDTH)
        motion = self.car.calc_travel_motion()
        self._correct_suspension(points, travel, rate, motion[..., None])
        wheels = np.zeros((2, len(WHEELS), _WIDTH))
        wheels[1] = self.rolling @ away[[ahead, yaw_rate]]
        points.correct(away[:CHART_SIZE], wheels, carry=True)
        self._renewing[:] = 1.0  # the tangent is another one where they are now
        points.call("renew")

    def _spread(self, h: float) -> None:
        self.look()
        odd, even = _split(self._measure_away(h))
        shift = even.sum(axis=1)
        transition, noise = self._calc_transition(h)
        transition[_BLOCK] = np.linalg.solve(self._root.T, odd.T).T
        p = transition @ self._before @ transition.T
        p[_BLOCK] += even @ even.T + np.outer(shift, shift)
        p[np.diag_indices_from(p)] += noise
        self.ekf.covariance = p
        self.ekf.x[:] = 0.0
        self.ekf.x[_DRAWN] = shift
        self._mean, self._odd, self._even = shift, odd, even
        drawn = p[_BLOCK]
        self._variances = drawn.diagonal()
        self._predicted, repaired = factorise(drawn)
        self.repairs += repaired
        self._posed = False

    def _measure_away(self, h: float) -> np.ndarray:
        """(20, points) where points have arrived, less where the car between them has.

        The slope that a point stands on does not speed it up: what attitude is wrong by is mostly how the body
        stands on its springs, and the errors of all kinds of this filter are counted so.
        """
        self._chart = chart = self._reached - self._reached[:, [_CENTRE]]
        chart[YAW] = _within_half_a_turn(chart[YAW])
        travel, rate = self._reached_corners - self._reached_corners[..., [_CENTRE]]
        car = chart.copy()
        car[_LOW] += self._body_fit @ travel
        car[CHART_PAIRS + _LOW] += self._body_fit @ rate
        pull = self.car.vehicle.gravity * car[[V1Z, V2Z]]
        for velocities in (car, chart):
            velocities[CHART_PAIRS : CHART_PAIRS + 2] += h * pull
        pose = self._point_pose
        pose[CHART_SIZE : CHART_SIZE + 2] += pull
        self._accelerations = pose[CHART_SIZE:] - pose[CHART_SIZE:, [_CENTRE]]
        return np.concatenate([car, travel, rate])

    def _calc_transition(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """(states, states) over one step, of the states that no points are drawn for, and (states,) the noise of
        those that fade; they fade in `extra`, too."""
        transition = self._transition
        noise = np.zeros(len(transition))
        slip = np.exp(-h / self.settings.slip_time)
        for k in range(len(WHEELS)):
            transition[WHEEL_ANGLE + k, [AHEAD, YAW_RATE]] = h * self.rolling[k]
            transition[WHEEL_ANGLE + k, WHEEL_RATE + k] = h
            transition[WHEEL_RATE + k, WHEEL_RATE + k] = slip
        transition[AHEAD, DRIVE] = h
        for begin, (time, *sigmas) in self._processes:
            decay = np.exp(-h / time)
            places = range(begin, begin + len(sigmas))
            transition[places, places] = decay
            noise[begin : begin + len(sigmas)] = (1.0 - decay * decay) * np.square(sigmas)
        self.extra *= transition.diagonal()[GYRO_BIAS:]
        return transition, noise

    # -- observations -------------------------------------------------------------------------------------

    def judge(self, sensor: str, t_ns: int, value: Sequence[float], noise: Sequence[float]) -> float | None:
        fresh = t_ns != self._seen
        nis = super().judge(sensor, t_ns, value, noise)
        if fresh:
            self._posed = False
        if nis is None or sensor not in _KERNELS:
            return nis
        ekf, m = self.ekf, len(value)
        if (ekf.variances[_DRAWN] > _OPENED * self._variances).any():
            return nis  # a state was opened since: points drawn for less say too little about so much
        odd, even = _split(self._read(sensor, m))
        shift = even.sum(axis=1)
        crossed = odd @ self._odd.T + even @ self._even.T + np.outer(shift, self._mean)
        rows = cho_solve((self._predicted, True), crossed.T, check_finite=False).T
        seen = np.sum(odd * odd + even * even, axis=1) + shift * shift
        # What `see` has taken off for the correction so far, and for no curvature.
        x = ekf.x[_DRAWN]
        ekf.innovation[:m] += ekf.rows[:m, _DRAWN] @ x - shift - rows @ (x - self._mean)
        ekf.rows[:m, _DRAWN] = rows
        ekf.more_noise[:m] += np.maximum(seen - np.sum(rows * crossed, axis=1), 0.0)
        return ekf.weigh(m)

    def correct(self) -> None:
        super().correct()
        self._mean = np.zeros(_N)

    def _read(self, sensor: str, m: int) -> np.ndarray:
        """(m, points) what the sensor would read at the points, at the time of `pose`, less at the car."""
        if not self._posed:
            self._pose_points()
        self._points.call(_KERNELS[sensor])
        readings = self._readings[:m] - self._readings[:m, [_CENTRE]]
        if sensor == "gnss.course":
            readings = _within_half_a_turn(readings)
        if sensor == "imu.accel" and self._gravity_removed[0]:
            readings -= self._gravity_of(self._point_pose)
        return readings

    def _pose_points(self) -> None:
        """The points' poses at the time of `pose`: z(then) = z(now) − age·drift."""
        away, here, age, since = self._chart, self._pose, self._age[0], self._since
        rates = slice(CHART_PAIRS, CHART_SIZE)
        cos, sin = np.cos(here[YAW]), np.sin(here[YAW])
        ahead, left = here[CHART_PAIRS], here[CHART_PAIRS + 1]
        drift = away[rates].copy()
        drift[0] = cos * away[6] - sin * away[7] - (sin * ahead + cos * left) * away[YAW]
        drift[1] = sin * away[6] + cos * away[7] + (cos * ahead - sin * left) * away[YAW]
        drift[2] += ahead * away[V1Z]
        centre = here.copy()
        centre[:CHART_PAIRS] += since[:CHART_PAIRS]
        centre[rates] += since[PAIRS : PAIRS + CHART_PAIRS]
        pose = self._point_pose
        pose[:] = centre[:, None]
        pose[:CHART_PAIRS] += away[:CHART_PAIRS] - age * drift
        pose[rates] += away[rates]
        # The third rate is normal to the ground, which is as steep as the car is.
        normal = self.car.ground
        rise_ahead = (normal[0] * cos + normal[1] * sin) / normal[2]
        rise_left = (normal[1] * cos - normal[0] * sin) / normal[2]
        pose[8] += ahead * away[V1Z] + left * away[V2Z] - rise_ahead * away[6] - rise_left * away[7]
        pose[CHART_SIZE:] += self._accelerations
        self._point_mounting[:] = self._mounting[:, None]
        self._posed = True

    def _gravity_of(self, pose: np.ndarray) -> np.ndarray:
        """(3, points) what of a reading is gravity (IMU axes), less that at the car."""
        v1z, v2z = pose[V1Z], pose[V2Z]
        up = np.stack([v1z, v2z, np.sqrt(1.0 - v1z * v1z - v2z * v2z)])
        up -= up[:, [_CENTRE]]
        return self.car.vehicle.gravity * self._mounting[6:15].reshape(3, 3) @ up


def _with_suspension(settings: Filter) -> Filter:
    """The suspensions move in the points, whatever the settings say of them."""
    return settings if settings.suspension else dataclasses.replace(settings, suspension=Suspension())


def _within_half_a_turn(angle: np.ndarray) -> np.ndarray:
    return np.remainder(angle + np.pi, 2 * np.pi) - np.pi


def _split(away: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 20) each: what is odd in the displacement of each pair of points, and what is even."""
    plus, minus = away[:, _PLUS], away[:, _MINUS]
    return 0.5 * (plus - minus), 0.5 * (plus + minus)
