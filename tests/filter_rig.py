"""The vehicle filter by itself, without an estimator: make it, drive it, update it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from vehicle_rig import vehicle

from vehicled.filter.boundary import InitialPose, Mounting, Observation
from vehicled.filter.kinds import make_filter
from vehicled.filter.settings import Filter, Kind
from vehicled.filter.states import Group, InitialConditions
from vehicled.filter.structure import FilterKernels, Structure, make_extension
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.arrays import TYRE_CAUSES
from vehicled.vehicle.car import Car

STEP_NS = 4_000_000
H = 4e-3
AT_IMU = Mounting()
"""All sensors at the vehicle origin, in the car's axes."""


def new_filter(
    kind: Kind = "errorEKF",
    mounting: Mounting = AT_IMU,
    sensors: Sensors = Sensors(),  # noqa: B008 (frozen)
    **settings: Any,
) -> VehicleFilter:
    """A filter of the prototype; `settings` are fields of the section `filter`."""
    setup = dataclasses.replace(sensors.make_setup(), mounting=mounting)
    return make_filter(vehicle("prototype"), Filter(kind=kind, **settings), setup)


def place(f: VehicleFilter, position: np.ndarray, yaw: float, speed: float) -> None:
    """Put the car there, at time 0."""
    f.place(InitialPose(position, yaw, speed))
    f.restart_history(0)


def turn_left(f: VehicleFilter, steps: int, rack: float = 0.008) -> None:
    """Drive a left-hand bend from time 0 on; the rack moves during the first 0.2 s."""
    for k in range(1, steps + 1):
        f.car.inputs[0] = f.car.corner_inputs[0, :2] = rack * min(k / 50, 1.0)
        f.predict(k * STEP_NS, H)


def kernels(f: VehicleFilter) -> FilterKernels:
    """Kernels of a filter, whatever its sensors' settings; call each by `f.car.call`."""
    observations = Sensors().make_setup().observations
    return f.car.result(make_extension(Structure(f.settings.kind, f.states.groups, observations)))


def observe_tyres(f: VehicleFilter) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Evaluate the car's tyres: copies of arrays `steady` (2, causes), `relaxation` (2,), `acceleration` (3, 2)."""
    f.car.call(kernels(f).sensors.observe_tyres)
    return read_tyres(f.car)


def read_tyres(car: Car) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Copies of the arrays that the last `observe_tyres` computed."""
    steady = car.view("tyre_steady").reshape(2, len(TYRE_CAUSES)).copy()
    return steady, car.view("tyre_relaxation").copy(), car.view("tyre_acceleration").reshape(3, 2).copy()


def propagate(f: VehicleFilter) -> None:
    """Propagate the covariance by one step, linearised at the car's present state."""
    f.car.call(kernels(f).propagate)


def index(f: VehicleFilter, group: Group, element: str = "") -> int:
    """Index of one error state."""
    return f.states.index(group, element)


def slow_states(f: VehicleFilter) -> np.ndarray:
    """(n,) estimates of the states that are not states of the simulated car; a view."""
    return f.car.view("extra")


def set_slow_state(f: VehicleFilter, i: int, value: float) -> None:
    """Set the estimate of state i, which must not be a state of the simulated car."""
    slow_states(f)[i - len(f.states)] = value


def observation(kind: str, t: int, value: Sequence[float], variance: Sequence[float]) -> Observation:
    return Observation(kind, t, list(value), list(variance))


def linearise(
    f: VehicleFilter, kind: str, t: int, m: int, measured: Sequence[float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Predicted value (m,) of an observation, and its Jacobian (m, n).

    `measured`: its measured value, where that affects the result.
    """
    value = [0.0] * m if measured is None else measured
    f.errors.x[:] = 0.0
    assert f.evaluate(observation(kind, t, value, [1.0] * m)) is not None
    return np.asarray(value) - f.errors.innovation[:m], f.errors.rows[:m].copy()


def without_noise(f: VehicleFilter) -> None:
    """Set all white process noise to zero; other processes keep theirs."""
    f.car.view("density")[:] = 0.0
    f.car.view("lateral_per_speed")[:] = 0.0


def make_moving() -> VehicleFilter:
    """The default kind at 10 m/s, initialised with a known position and heading."""
    f = new_filter("errorEKF_FE")
    pose = InitialPose(np.array([0.0, 0.0, f.car.design_height]), 0.0, 10.0)
    f.initialise(0, pose, InitialConditions(speed=10.0, position_known=True, yaw_variance=0.04))
    return f
