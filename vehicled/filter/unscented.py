"""UKF on the vehicle: whole cars as sigma points, all stepped together.

It applies the unscented transform (unscented_transform.py) to the errors of the errorEKF, with the same
sensors, gates and corrections: the state of the filter is the running car. Points are displaced from it by ±
one standard deviation along each error of chassis, suspensions and their rates. Errors that propagate
linearly need no points: wheel angles, slow errors of sensors and model, and wheel slip. Slip as an error of
the model is lasting, whereas the tyres of a point would damp it within milliseconds. Lateral tyre forces have
no points either, as they follow sideslip over many steps. The transition of all these is that of the
errorEKF_EJ.

Points have the deflections of the car's tyres: within a step their tyres respond as far as they relax in it,
and the force built up by then is part of the errors of the forces. Plant noise is added before the step, so
that readings at the propagated points include it and points need not be drawn again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vehicled.filter.boundary import Observation, SensorSetup
from vehicled.filter.definite import factorise
from vehicled.filter.settings import Filter, Suspension
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    POSITION,
    SUSPENSION,
    VELOCITY,
)
from vehicled.filter.structure import CHART_PAIRS
from vehicled.filter.unscented_transform import UnscentedTransform, calc_slope
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.maths.angles import wrap
from vehicled.messages import WHEELS
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.vehicle.arrays import (
    AHEAD,
    AX,
    AY,
    CHART_SIZE,
    LEFT,
    R_IMU,
    UP,
    V1Z,
    V1Z_RATE,
    V2Z,
    V2Z_RATE,
    YAW,
    YAW_RATE,
    Z,
)
from vehicled.vehicle.batch import CarBatch
from vehicled.vehicle.extension import Extension
from vehicled.vehicle.interface import SensorKernels
from vehicled.vehicle.parameters import Vehicle

if TYPE_CHECKING:
    from vehicled.vehicle.outputs import Parts

_DRAWN = (POSITION, ATTITUDE, VELOCITY, ANGULAR_RATE, *SUSPENSION)
"""States that points are drawn for."""
_N = CHART_SIZE + 2 * len(WHEELS)
_WIDTH = 48
"""Number of points: two per error and the car itself, rounded up to fill vectors."""
_PLUS, _MINUS, _CENTRE = slice(0, _N), slice(_N, 2 * _N), 2 * _N
_AROUND = slice(0, 2 * _N)
_TOLERANCE, _LARGE = 1e-7, 1e-3
"""`Instances.tolerance` and `large` of the points, m: all of them take as many iterations as the slowest."""
_CARRIED, _CARRIED_RATES = [Z, V1Z, V2Z], [UP, V1Z_RATE, V2Z_RATE]
"""Motion of the body on its suspensions: height and slopes of the chassis, and their rates."""
_OPENED = 2.0
"""Ratio of a variance to that of the step's prediction above which it has been changed from outside."""


@dataclass(frozen=True)
class _PointKernels:
    """Kernels of the points in addition to the step."""

    renew: KernelHandle
    """Calculates accelerations after points have been moved."""
    read: KernelHandle
    """Reads positions and poses of the points."""
    sensors: SensorKernels
    """Readings of the chassis' sensors at the points; readings of wheels are linear and need no points."""


def _add_point_kernels(program: Program, parts: Parts) -> _PointKernels:
    # Imported here, as these modules are not needed if compiled code is on disk.
    from vehicled.multibody.ali3p import add_dynamics
    from vehicled.vehicle.sensor_models import add_sensor_models

    models = add_sensor_models(program, parts, jacobians_too=False)
    velocity, normal = parts.origin.velocity, parts.ground
    places = [*models.now[:UP], normal[0] * velocity.x + normal[1] * velocity.y + normal[2] * velocity.z]
    places += models.now[YAW_RATE:CHART_SIZE]
    corners = (parts.travel, parts.travel_rate)
    stores = [*zip(program.array("point", CHART_SIZE), places, strict=True)]
    stores += zip(program.array("point_corners", len(corners), 1), corners, strict=True)
    read_point = program.kernel("read_point", stores)
    accelerate = add_dynamics(parts.step)
    sensors = models.kernels
    return _PointKernels(
        renew=program.sequence("renew", parts.step.kernels.factor, accelerate, accelerate),
        read=program.sequence("read_points", read_point, sensors.observe_pose),
        sensors=sensors,
    )


_TRANSFORM = UnscentedTransform(_N)
_POINTS = Extension(_add_point_kernels, _PointKernels)


class UnscentedVehicleFilter(VehicleFilter):
    """UKF: prediction and readings by sigma points; corrections as in `VehicleFilter`."""

    def __init__(self, vehicle: Vehicle, settings: Filter, sensors: SensorSetup) -> None:
        """Like `VehicleFilter`; the suspensions are always among the states."""
        super().__init__(vehicle, _with_suspension(settings), sensors)
        states, view = self.states, self.car.view
        self._drawn = np.array([i for group in _DRAWN for i in states.places(group)])
        self._block = np.ix_(self._drawn, self._drawn)
        self._points = batch = CarBatch(self.car, _WIDTH, (_POINTS,))
        batch.tolerance, batch.large = _TOLERANCE, _LARGE
        self._point_kernels = batch.result(_POINTS)
        self._mounting = view("mounting")
        self._gravity_removed = view("gravity_removed")
        self._transition = view("transition").reshape(len(states), len(states))
        self._fading_noise = view("fading_noise")
        self._drift = view("drift").reshape(CHART_PAIRS, CHART_SIZE)
        self._rise, self._densities = view("rise"), view("densities")
        assert self._kernels.drift is not None
        assert self._kernels.densities is not None
        self._calc_drift, self._calc_densities_now = map(
            self.car.bind, (self._kernels.drift, self._kernels.densities)
        )
        self._point_mounting, self._renewing = batch.view("mounting"), batch.view("newton")[3]
        self._reached, self._reached_corners = batch.view("point"), batch.view("point_corners")
        self._point_pose, self._readings = batch.view("pose"), batch.view("predicted")
        self._away = np.zeros((_N, _WIDTH))
        # Until the first step there are no points: every state counts as changed from outside.
        self._variances = np.zeros(_N)
        self._shift, self._posed = np.zeros(_N), False
        self._transition[:] = np.eye(len(states))

    def configure(self, settings: Filter, sensors: SensorSetup) -> None:
        """Take other settings; suspension states are always estimated, as the points move them."""
        super().configure(_with_suspension(settings), sensors)

    # -- prediction ---------------------------------------------------------------------------------------

    def _advance(self, h: float) -> None:
        """Advance the car, and the points drawn around it, by one step; find the covariance from the points."""
        self._adjust()
        self._move_points(h)
        if self.car.step(h) < 0:
            self.unconverged += 1
        self._propagate()  # the states that propagate linearly
        self._transform(h)

    def _move_points(self, h: float) -> None:
        self._before = p = self.errors.matrix
        self._calc_densities_now()
        _diagonal(p)[:] += h * self._densities
        self._root, repaired = factorise(p[self._block])
        self.repairs += repaired
        self._draw(self._root)
        if self._points.step(h) < 0:
            self.unconverged += 1
        self._points.call(self._point_kernels.read)

    def _draw(self, root: np.ndarray) -> None:
        """Draw the points along the columns of `root` (20, 20) and opposite to them."""
        points, away = self._points, self._away
        points.copy_state_from_car()
        away[:, :_CENTRE] = _TRANSFORM.calc_displacements(root)
        travel, rate = away[CHART_SIZE:].reshape(2, len(WHEELS), _WIDTH)
        self._correct_suspension(points, travel, rate, self.car.calc_travel_motion())
        wheels = np.zeros((2, len(WHEELS), _WIDTH))
        wheels[1] = self.rolling @ away[[AHEAD, YAW_RATE]]
        points.correct(away[:CHART_SIZE], wheels, carry=True)
        self._renewing[:] = 1.0  # the tangent has changed with the points' positions
        points.call(self._point_kernels.renew)

    def _transform(self, h: float) -> None:
        away = self._measure_away(h)
        moments = _TRANSFORM.calc_moments(away[:, _PLUS], away[:, _MINUS])
        transition = self._transition
        transition[self._block] = calc_slope(moments, self._root)
        p = transition @ self._before @ transition.T
        p[self._block] += _TRANSFORM.calc_curvature(moments)
        noise = self._fading_noise.copy()
        noise[self._drawn] = 0.0  # was added before the step
        _diagonal(p)[:] += noise
        x = np.zeros(len(p))
        x[self._drawn] = self._shift = moments.shift
        self.errors.set_estimate(x, p)
        self._variances = p[self._block].diagonal()
        # Readings follow from the points' positions, which do not include the effect of forces and slow
        # errors.
        root, repaired = factorise(_TRANSFORM.calc_covariance(moments, moments))
        self._regression = _TRANSFORM.regress(moments, root)
        self.repairs += repaired
        self._posed = False

    def _measure_away(self, h: float) -> np.ndarray:
        """(20, points) displacement of the points from the car after the step.

        Gravity along a point's slope does not accelerate it: errors of attitude are mostly those of the body
        on its springs, and the other kinds of filter treat them in this way.
        """
        self._chart = chart = self._reached - self._reached[:, [_CENTRE]]
        chart[YAW] = wrap(chart[YAW])
        travel, rate = self._reached_corners - self._reached_corners[..., [_CENTRE]]
        car = chart.copy()
        car[_CARRIED] += self._body_fit @ travel
        car[_CARRIED_RATES] += self._body_fit @ rate
        pull = self.car.vehicle.gravity * car[[V1Z, V2Z]]
        for velocities in (car, chart):
            velocities[[AHEAD, LEFT]] += h * pull
        pose = self._point_pose
        pose[[AX, AY]] += pull
        self._accelerations = pose[CHART_SIZE:] - pose[CHART_SIZE:, [_CENTRE]]
        return np.concatenate([car, travel, rate])

    # -- observations -------------------------------------------------------------------------------------

    def evaluate(self, observation: Observation) -> float | None:
        """NIS as in `VehicleFilter`, but with rows by statistical linearisation if points predict this kind."""
        kind, m = observation.kind, len(observation.value)
        fresh = observation.t_ns != self._past
        nis = super().evaluate(observation)
        if fresh:
            self._posed = False
        # There are no points for earlier steps.
        if nis is None or self._late_step is not None or kind not in self._kernels.readings:
            return nis
        errors, drawn = self.errors, self._drawn
        if (errors.variances[drawn] > _OPENED * self._variances).any():
            return nis  # a state has been widened since: the points cover too little of its range
        rows, shift, rest = self._regression.linearise(self._read(kind, m))
        # The kernel's innovation is after the correction x by its own rows, and without the curvature
        # `shift`. Replace its rows by those found from the points.
        x = errors.x[drawn]
        errors.innovation[:m] += errors.rows[:m, drawn] @ x - shift - rows @ (x - self._shift)
        errors.rows[:m, drawn] = rows
        errors.more_noise[:m] += np.maximum(rest, 0.0)
        return errors.evaluate_again(m)

    @property
    def can_chain(self) -> bool:
        """Always False, as each observation is evaluated by points."""
        return False

    def _update_below(self, observation: Observation, limit: float) -> bool:
        nis = self.evaluate(observation)
        if nis is not None and nis < limit:
            self._correct(observation.kind)
        return nis is not None

    def apply_corrections(self) -> None:
        """Apply the corrections to the car; the points' mean is then zero again."""
        super().apply_corrections()
        self._shift = np.zeros(_N)

    def _read(self, kind: str, m: int) -> np.ndarray:
        """(m, 40) sensor readings at the points around the car at the time of `pose`, less those at the car."""
        if not self._posed:
            self._pose_points()
        sensor, is_angle = self._kernels.readings[kind]
        self._points.call(getattr(self._point_kernels.sensors, sensor))
        readings: np.ndarray = self._readings[:m, _AROUND] - self._readings[:m, [_CENTRE]]
        if is_angle:
            readings = wrap(readings)
        if sensor == "imu_accelerometer" and self._gravity_removed[0]:
            readings -= self._gravity_of(self._point_pose)[:, _AROUND]
        return readings

    def _pose_points(self) -> None:
        """The points' poses at the time of `pose`: z(then) = z(now) − age·drift."""
        away, here, age, since = self._chart, self._pose, self._age[0], self._since
        rates = slice(AHEAD, CHART_SIZE)
        self._calc_drift()
        ahead, left = here[AHEAD], here[LEFT]
        centre = here.copy()
        centre[:CHART_PAIRS] += since[:CHART_PAIRS]
        centre[rates] += since[self._pairs : self._pairs + CHART_PAIRS]
        pose = self._point_pose
        pose[:] = centre[:, None]
        pose[:CHART_PAIRS] += away[:CHART_PAIRS] - age * (self._drift @ away)
        pose[rates] += away[rates]
        # The third rate is normal to the ground, which has the slope of the car.
        rise_ahead, rise_left = self._rise
        pose[UP] += ahead * away[V1Z] + left * away[V2Z] - rise_ahead * away[AHEAD] - rise_left * away[LEFT]
        pose[CHART_SIZE:] += self._accelerations
        self._point_mounting[:] = self._mounting[:, None]
        self._posed = True

    def _gravity_of(self, pose: np.ndarray) -> np.ndarray:
        """(3, points) gravity in a reading (IMU axes), less that at the car."""
        v1z, v2z = pose[V1Z], pose[V2Z]
        up = np.stack([v1z, v2z, np.sqrt(1.0 - v1z * v1z - v2z * v2z)])
        up -= up[:, [_CENTRE]]
        force: np.ndarray = self.car.vehicle.gravity * self._mounting[R_IMU].reshape(3, 3) @ up
        return force


def _with_suspension(settings: Filter) -> Filter:
    """Settings with the suspensions among the states, as the points move them."""
    return settings if settings.suspension else dataclasses.replace(settings, suspension=Suspension())


def _diagonal(p: np.ndarray) -> np.ndarray:
    """(n,) view of the diagonal of a matrix (n, n)."""
    return p.ravel()[:: len(p) + 1]
