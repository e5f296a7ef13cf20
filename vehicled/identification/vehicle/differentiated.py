"""The estimator with the derivatives of all that it computes by parameters, exact, in one pass over a drive.

The car's and the filter's kernels are differentiated by the compiler (`symbolic/tangent.py`); here is what lies
between them: past poses, inputs, start. What a parameter is does not matter: how it changes the numbers that the
kernels take is found by a small change of the configuration, from which no drive has to be computed. So parameters
of the car, the mounting of sensors and settings of noise are all alike.

Where the filter begins anew from a measurement, what it believes then does not depend on parameters any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.configuration import Configuration
from vehicled.estimator import Estimator
from vehicled.filter.covariance import ErrorEKF
from vehicled.filter.history import History
from vehicled.filter.settings import DriveForce, Filter
from vehicled.filter.vehicle_errors import (
    CHART_PAIRS,
    DRIVE,
    GYRO_BIAS,
    PAIRS,
    WANDER,
    WHEEL_ANGLE,
    YAW,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.identification.vehicle.watched import WatchedEstimator, WatchedFilter
from vehicled.messages import WHEELS
from vehicled.sources.inputs import Inputs
from vehicled.sources.onboard import offsets, variances
from vehicled.sources.settings import Sensors
from vehicled.symbolic.program import KernelHandle
from vehicled.symbolic.tangent import Differentiation
from vehicled.vehicle.car import STATE, Car
from vehicled.vehicle.model import Extension
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.sensor_models import POSE

_PREPARED = ("constants", "lane_constants")
"""Arrays that the kernel `prepare` computes, and their tangents."""

_PLAIN = tuple(
    KernelHandle(name)
    for name in (
        *("travel_jacobian", "design", "energy", "report", "sigmas", "gnss_speed", "gnss_course"),
        *("imu_gyro", "imu_accelerometer", "body_velocity", "observe_pose"),
    )
)
"""Kernels that no estimate depends on."""
_FIXED = (
    *("newton", "integration", "travel_jacobian"),
    *("outputs", "corner_outputs", "sigmas", "energy", "sensitivity", "carry", "h", "age"),
)
"""Arrays without tangents."""


def width(directions: int) -> int:
    """The least number of directions that code is made for."""
    return next(w for w in (8, 16, 32, *range(64, directions + 64, 64)) if w >= directions)


@dataclass(frozen=True)
class Change:
    """A configuration with one parameter changed by a little."""

    configuration: Configuration
    step: float
    """Of the parameter."""


class _Car(Car):
    """Whose kernels take the tangents along once it is settled."""

    _d_change: tuple[np.ndarray, ...] = ()
    d_change: np.ndarray | None = None
    """(12, directions) of the change that `correct` is told next."""

    def __init__(self, vehicle: Vehicle, extensions: tuple[Extension, ...], directions: int):
        super().__init__(vehicle, extensions, Differentiation(directions, _FIXED, _PLAIN))
        self._functions = self.compiled.differentiated
        self._step = self.compiled.differentiated_step
        self._d_change = self.tangent("correction"), self.tangent("corner_correction")

    def tangent(self, array: str) -> np.ndarray:
        """(count, directions) or (count, 4, directions) view."""
        return self.compiled.tangents.view(self.workspace, array)

    def correct(self, change: np.ndarray, wheels: np.ndarray | None = None, *, carry: bool = False) -> None:
        for tangent in self._d_change:
            tangent[...] = 0.0
        if self.d_change is not None:
            self._d_change[0][:] = self.d_change
            self.d_change = None
        super().correct(change, wheels, carry=carry)


class _EKF(ErrorEKF):
    """What is set from outside depends on no parameter."""

    def __init__(self, size: int, car: _Car):
        super().__init__(size, car.layout, car.workspace, car.call)
        self._d_packed = car.tangent("covariance")
        self._forgotten = [car.tangent(name) for name in ("covariance", "x", "extra")]

    @property
    def covariance(self) -> np.ndarray:
        return super().covariance

    @covariance.setter
    def covariance(self, p: np.ndarray) -> None:
        self.packed[:] = p[self._upper]
        for tangent in self._forgotten:
            tangent[...] = 0.0

    def set_variance(self, i: int, variance: float) -> None:
        touched = (self._upper[0] == i) | (self._upper[1] == i)
        self.packed[touched] = 0.0
        self.packed[self._diagonal[i]] = variance
        self._d_packed[touched] = 0.0


class _History(History):
    """Poses and corrections with their tangents as further columns."""

    def __init__(self, filter: DifferentiatedFilter, memory: float, directions: int):
        car, self._filter = filter.car, filter
        size = len(filter.now)
        super().__init__(memory, size, PAIRS, 1 + directions)
        self._now = np.zeros((size, 1 + directions))
        self._moved = np.zeros((3 * PAIRS, 1 + directions))
        self._d_now, self._d_wheels = car.tangent("now"), car.tangent("now_wheels")
        self._d_pose, self._d_past_wheels, self._d_since = (
            car.tangent(name) for name in ("pose", "past_wheels", "since")
        )
        self._wheels = size - 2 * len(WHEELS)

    def _with_tangents(self, pose: np.ndarray) -> np.ndarray:
        now = self._now
        now[:, 0] = pose
        now[: len(POSE), 1:] = self._d_now
        now[self._wheels :, 1:] = self._d_wheels.reshape(2 * len(WHEELS), -1)
        return now

    def step(self, t_ns: int, pose: np.ndarray) -> None:
        super().step(t_ns, self._with_tangents(pose))

    def correct(self, moved: np.ndarray, pose: np.ndarray) -> None:
        self._moved[:, 0] = moved
        self._moved[:, 1:] = self._filter.d_correction(moved)
        super().correct(self._moved, self._with_tangents(pose))

    def at(self, t_ns: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Beside that, their tangents are put where the kernels look for them."""
        past = super().at(t_ns)
        if past is None:
            return None
        pose, since = past
        self._d_pose[:] = pose[: len(POSE), 1:]
        self._d_past_wheels[:] = pose[self._wheels :, 1:]
        self._d_since[:] = since[:, 1:]
        return pose[:, 0], since[:, 0]


class DifferentiatedFilter(WatchedFilter):
    """The vehicle's filter, and the tangents of its workspace."""

    car: _Car

    def __init__(self, vehicle: Vehicle, settings: Filter, directions: int):
        self._directions = directions
        super().__init__(vehicle, settings)
        self.ekf = _EKF(self.ekf.size, self.car)
        self.history = _History(self, settings.memory, directions)
        self._others: list[tuple[VehicleFilter, float]] = []
        self._noted: int | None = None
        self._d_moved = self.car.tangent("moved")
        self._d_antenna: np.ndarray | None = None
        self._d_values: dict[str, np.ndarray] = {}
        self._d_variances: dict[str, np.ndarray] = {}
        self._d_value = self.car.tangent("value")
        tangent = self.car.tangent
        self._parts += [tangent("left"), tangent("precision")]
        self._d_noise, self._d_extra = tangent("noise"), tangent("extra")
        self._d_wander, self._d_inputs = tangent("wander"), tangent("corner_inputs")

    def _make_car(self, vehicle: Vehicle, extensions: tuple[Extension, ...]) -> Car:
        return _Car(vehicle, extensions, self._directions)

    def seed(
        self,
        others: Sequence[tuple[VehicleFilter, float]],
        d_values: dict[str, np.ndarray],
        d_variances: dict[str, np.ndarray],
    ) -> None:
        """Take the directions: for each, a filter of the changed configuration, and the change; by sensor the
        derivatives of its values (3, directions) and of its variance (directions,)."""
        self._others, self._d_values, self._d_variances = list(others), d_values, d_variances
        tangents = self.car.compiled.tangents
        tangents.all(self.car.workspace)[:] = 0.0
        for name in tangents.layout.places:
            if name not in _PREPARED:
                self._take(name)
        self.car.call(self.car.kernels.prepare)
        self._d_mass = np.zeros(self._directions)
        self._d_radius = np.zeros((len(WHEELS), self._directions))
        for k, (f, step) in enumerate(self._others):
            self._d_radius[:, k] = (f.car.rolling_radius - self.car.rolling_radius) / step
            self._d_mass[k] = (f._mass - self._mass) / step

    def _take(self, array: str) -> None:
        """Tangents of an array from the changed filters."""
        here, tangent = self.car.view(array), self.car.tangent(array)
        for k, (f, step) in enumerate(self._others):
            tangent[..., k] = (f.car.view(array) - here) / step

    def d_correction(self, moved: np.ndarray) -> np.ndarray:
        """Tangents of a correction that goes into the history: of the one that the kernels have found, or of what
        was noted beside it."""
        if moved is self._moved:
            return self._d_moved
        change = np.zeros_like(self._d_moved)
        if self._noted is not None:
            change[self._noted] = self.car.tangent("innovation")[0]
        return change

    def place(self, position: np.ndarray, yaw: float, speed: float) -> None:
        super().place(position, yaw, speed)
        height = self.car.design_height
        for f, _ in self._others:
            higher = np.array([0.0, 0.0, f.car.design_height - height])
            f.place(position + higher, yaw, speed)
        for array in (*STATE, "ground"):
            self._take(array)

    # What is set to what a measurement says does not depend on parameters any more.

    def antenna(self) -> np.ndarray:
        self.look()
        self.car.tangent("pose")[:] = self.car.tangent("now")
        place = super().antenna()
        self._d_antenna = self.car.tangent("predicted")[:3].copy()
        return place

    def move(self, offset: np.ndarray) -> None:
        if self._d_antenna is not None:
            self.car.d_change = np.zeros((2 * CHART_PAIRS, self._directions))
            self.car.d_change[:3] = -self._d_antenna
            self._d_antenna = None
        super().move(offset)

    def turn(self, angle: float) -> None:
        if angle == -self.ekf.innovation[0]:
            self.car.d_change = np.zeros((2 * CHART_PAIRS, self._directions))
            self.car.d_change[YAW] = -self.car.tangent("innovation")[0]
        super().turn(angle)

    def note(self, place: int, change: float) -> None:
        if WHEEL_ANGLE <= place < PAIRS:
            states = self.car.compiled.vehicle_program.states
            angle = self.car.tangent("states")[states.index("wheel.angle"), place - WHEEL_ANGLE]
            angle += self.car.tangent("innovation")[0]
            self._noted = place
        super().note(place, change)
        self._noted = None

    def _drive(self, settings: DriveForce) -> None:
        super()._drive(settings)
        push = self.extra[DRIVE - GYRO_BIAS]
        torque = self.car.corner_inputs[3]
        self._d_inputs[3] = torque[:, None] / self.car.rolling_radius[:, None] * self._d_radius
        if push != 0.0:
            change = self._d_extra[DRIVE - GYRO_BIAS] / push + self._d_mass / self._mass
            self._d_inputs[3] += torque[:, None] * change

    def judge(self, sensor: str, t_ns: int, value: Sequence[float], noise: Sequence[float]) -> float | None:
        self._d_value[...] = self._d_values.get(sensor, 0.0)
        self._d_noise[...] = self._d_variances.get(sensor, 0.0)
        return super().judge(sensor, t_ns, value, noise)

    def begin_wander(self, sigma: float, time: float) -> None:
        before = self.wander.copy()
        super().begin_wander(sigma, time)
        if (before != self.wander).any():
            self._d_wander[...] = 0.0
            self._d_extra[WANDER - GYRO_BIAS : WANDER - GYRO_BIAS + 3] = 0.0


class _Inputs(Inputs):
    """Beside them those of changed configurations that read them otherwise."""

    def __init__(self, car: _Car, sensors: Sensors, others: Sequence[tuple[int, Inputs, Car, float]]):
        super().__init__(car, sensors)
        self._others = others
        self._tangents = [(car.inputs, car.tangent("inputs"), "inputs")]
        self._tangents.append((car.corner_inputs, car.tangent("corner_inputs"), "corner_inputs"))
        for _, tangent, _ in self._tangents:
            tangent[...] = 0.0

    def take(self, t_ns: int, values: Mapping[str, float]) -> None:
        super().take(t_ns, values)
        for _, inputs, _, _ in self._others:
            inputs.take(t_ns, values)

    def apply(self, t: float) -> None:
        super().apply(t)
        for k, inputs, car, step in self._others:
            inputs.apply(t)
            for here, tangent, name in self._tangents:
                tangent[..., k] = (getattr(car, name) - here) / step


class _Changed(Estimator):
    """Of a changed configuration: it never steps."""

    def __init__(self, change: Change):
        super().__init__(change.configuration)
        self.filter, self.size, self.sensors = self._filter, change.step, change.configuration.sensors

    def is_driven_as(self, other: Inputs, sensors: Sensors) -> bool:
        """Whether it reads the inputs in the same way."""
        same = (self.sensors.steering, self.sensors.wheel_torques) == (
            sensors.steering,
            sensors.wheel_torques,
        )
        return same and self._inputs.geometry.is_same(other.geometry)


class DifferentiatedEstimator(WatchedEstimator):
    """The estimator with the derivatives of its innovations by parameters."""

    _filter: DifferentiatedFilter

    def __init__(self, configuration: Configuration, changes: Sequence[Change]):
        """A direction per change."""
        self._changed = [_Changed(change) for change in changes]
        self._directions = width(len(changes))
        super().__init__(configuration)
        sensors, n = configuration.sensors, self._directions
        d_variances = {name: np.zeros(n) for name in variances(sensors)}
        d_values = {name: np.zeros((3, n)) for name in offsets(sensors)}
        for k, changed in enumerate(self._changed):
            its = changed.sensors
            for name, variance in variances(sensors).items():
                d_variances[name][k] = (variances(its)[name] - variance) / changed.size
            for name, offset in offsets(sensors).items():
                d_values[name][:, k] = np.subtract(offset, offsets(its)[name]) / changed.size
        self._filter.seed([(c.filter, c.size) for c in self._changed], d_values, d_variances)

    def _make_filter(self, configuration: Configuration) -> VehicleFilter:
        return DifferentiatedFilter(configuration.vehicle, configuration.filter, self._directions)

    def _forget(self) -> None:
        super()._forget()
        others = [
            (k, Inputs(c.filter.car, c.sensors), c.filter.car, c.size)
            for k, c in enumerate(self._changed)
            if not c.is_driven_as(self._inputs, self._sensors)
        ]
        self._inputs = _Inputs(self._filter.car, self._sensors, others)
