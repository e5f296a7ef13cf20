"""The vehicle's filter by itself: made, driven and observed without an estimator."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from vehicle_rig import vehicle

from vehicled.filter.boundary import Mounting, Observation, Pose
from vehicled.filter.kinds import make_filter
from vehicled.filter.settings import Filter, Kind
from vehicled.filter.states import Group
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.sources.sensors import Sensors

STEP_NS = 4_000_000
H = 4e-3
AT_IMU = Mounting()
"""Everything at the vehicle origin, axes of the car."""


def new_filter(kind: Kind = "errorEKF", mounting: Mounting = AT_IMU, **settings: Any) -> VehicleFilter:
    """Of the prototype, with default sensors."""
    setup = dataclasses.replace(Sensors().make_setup(), mounting=mounting)
    return make_filter(vehicle("prototype"), Filter(kind=kind, **settings), setup)


def place(f: VehicleFilter, position: np.ndarray, yaw: float, speed: float) -> None:
    """Put the car there, at time 0."""
    f.place(Pose(position, yaw, speed))
    f.restart_history(0)


def index(f: VehicleFilter, group: Group, element: str = "") -> int:
    return f.states.index(group, element)


def evaluate(f: VehicleFilter, kind: str, t: int, value: Any, variance: Any) -> float | None:
    return f.evaluate(Observation(kind, t, list(value), list(variance)))


def linearise(f: VehicleFilter, kind: str, t: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """What an observation should read (m,), and its Jacobian (m, n)."""
    f.errors.x[:] = 0.0
    zero = [0.0] * m
    assert evaluate(f, kind, t, zero, [1.0] * m) is not None
    return -f.errors.innovation[:m], f.errors.rows[:m].copy()


def without_noise(f: VehicleFilter) -> None:
    """No plant noise on any state; what fades keeps its time."""
    f.car.view("density")[:] = 0.0
    f.car.view("lateral_per_speed")[:] = 0.0


def set_slow(f: VehicleFilter, group: Group, values: Any) -> None:
    """Estimates of one group of slow states."""
    every, place = f.all_slow_states(), f.states[group]
    begin = len(f.states) - len(every)
    every[place.start - begin : place.stop - begin] = values
    f.set_slow_states(every)
