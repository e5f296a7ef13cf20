"""Cars in which everything is slightly wrong at the same time, drawn from the σ in a configuration.

If a car is equal to its model, all errors that a filter has to find are zero, and its σ look too large.
Whether the σ are right shows with cars that differ from their files by as much as the σ state: their mean
NEES is then 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from vehicled.configuration import Configuration
from vehicled.filter.settings import Unknowns
from vehicled.messages import Measurement
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import Imu
from vehicled.sources.imu.settings import Accelerometers, Gyroscopes
from vehicled.sources.inputs.steering import SteeringInput
from vehicled.sources.speeds.vehicle_speed import VehicleSpeed
from vehicled.studies.robustness.wrongs import (
    WRONGS,
    Reached,
    Wrong,
    delay,
    move_antenna,
    offset_steering,
    scale_brake_gain,
    scale_cornering_stiffness,
    scale_friction,
    scale_gyro,
    scale_height,
    scale_mass,
    scale_radius,
    scale_steering,
    turn_imu,
)

PREFIX = "drawn car "
"""Prefix of the names, before their numbers."""
_MASS, _HEIGHT, _BRAKE = 0.05, 0.1, 0.1
"""1 σ of mass, height of the centre of mass and brake gain, of a good data sheet: they are not states of a filter."""


def find_wrong(name: str) -> Wrong:
    """The error of a name: one of `WRONGS`, or a drawn car. Raises KeyError."""
    if name.startswith(PREFIX):
        return _draw_car(name)
    return WRONGS[name]


def _draw_car(name: str) -> Wrong:
    random = np.random.default_rng([250, int(name.removeprefix(PREFIX))])
    unknown, imu = Unknowns(), Imu()

    def draw(sigma: float) -> float:
        return float(sigma * random.standard_normal())

    front, rear = draw(unknown.cornering_stiffness), draw(unknown.cornering_stiffness)
    changes: list[Callable[[Configuration], Configuration]] = [
        partial(_scale_axles, front, rear),
        partial(scale_friction, draw(unknown.friction)),
        partial(scale_radius, draw(unknown.rolling_radius)),
        partial(scale_mass, draw(_MASS)),
        partial(scale_height, draw(_HEIGHT)),
        partial(scale_brake_gain, draw(_BRAKE)),
        partial(move_antenna, draw(Gnss().antenna_sigma)),
    ]
    scales = {
        "imu.ay": 1.0 + draw(Accelerometers().scale),
        "vehicle.speed": 1.0 + draw(VehicleSpeed().scale),
    }
    reached: list[Callable[[Configuration], Reached]] = [
        partial(offset_steering, draw(unknown.steering_offset)),
        partial(scale_gyro, draw(Gyroscopes().scale)),
        partial(turn_imu, [draw(imu.rotation_sigma) for _ in "xyz"]),
        partial(_scale_channels, scales),
        partial(delay, "gnss.", draw(Gnss().latency_sigma)),
        partial(delay, "imu.", draw(imu.latency_sigma)),
        partial(scale_steering, draw(SteeringInput().scale_sigma)),
    ]

    def configure(configuration: Configuration) -> Configuration:
        for change in changes:
            configuration = change(configuration)
        return configuration

    def reach(configuration: Configuration) -> Reached:
        steps = [make(configuration) for make in reached]

        def take(m: Measurement) -> Measurement | None:
            found: Measurement | None = m
            for step in steps:
                found = None if found is None else step(found)
            return found

        return take

    return Wrong(name, "car", configure, reach, changes_grip=True)


def _scale_axles(front: float, rear: float, configuration: Configuration) -> Configuration:
    """Scale the cornering stiffness of each axle."""
    by_front, by_rear = (scale_cornering_stiffness(s, configuration).vehicle for s in (front, rear))
    vehicle = replace(configuration.vehicle, front=by_front.front, rear=by_rear.rear)
    return replace(configuration, vehicle=vehicle)


def _scale_channels(factors: Mapping[str, float], _: Configuration) -> Reached:
    def reach(m: Measurement) -> Measurement:
        values = {c: v * factors.get(c, 1.0) for c, v in m.values.items()}
        return Measurement(m.source, m.t, m.arrival, values)

    return reach
