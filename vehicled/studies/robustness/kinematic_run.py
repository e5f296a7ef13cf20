"""The planar kinematic filter on a whole log, to compare model-based filters with.

It has two advantages over any live filter: a fix is used at its time of measurement, however late it arrived,
and the heading at the start is the first course over ground of the drive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from replay.csv_log import Table
from replay.problems import Problems
from vehicled.configuration import Configuration
from vehicled.messages import Measurement
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.studies.robustness.kinematic import KinematicFilter, KinematicSettings
from vehicled.studies.robustness.log_start import Instant, find_fix, find_start, group_by_time
from vehicled.vehicle.sideslip import calc_steady_sideslip

_COLUMNS = ("x", "y", "yaw", "vx", "vy", "wz", "sideslip", "sigma.x", "sigma.y", "sigma.yaw", "sigma.vx")


def calc_settings(configuration: Configuration, quality: int) -> KinematicSettings:
    """Settings of the filter from the configuration of the car; `quality`: of the receiver's fixes."""
    vehicle, sensors = configuration.vehicle, configuration.sensors
    found = KinematicSettings(
        radius=vehicle.rear.tyre.radius,
        steady=calc_steady_sideslip(vehicle),
    )
    if sensors.gnss is not None:
        fix = sensors.gnss.find_noise(quality)
        found = replace(
            found, antenna=sensors.gnss.antenna[0], wander=fix.wander, wander_time=fix.wander_time
        )
    if sensors.imu is not None and sensors.imu.gyroscopes is not None:
        found = replace(found, gyro=sensors.imu.gyroscopes.noise)
    if sensors.wheel_angles is not None:
        found = replace(found, wheel_resolution=sensors.wheel_angles.resolution)
    return found


def run_kinematic(
    configuration: Configuration,
    measurements: Iterable[Measurement],
    settings: KinematicSettings | None = None,
) -> Table:
    """Estimates at each instant of the log; `settings`: replace those that follow from the configuration.

    In the configured world, else around the first fix.
    """
    instants = group_by_time(measurements)
    run = _Run(configuration, instants, settings)
    rows = [run.step(t, values) for t, values in instants]
    t = np.array([t for t, _ in instants], dtype=np.int64)
    return Table(t, dict(zip(_COLUMNS, np.array(rows).T, strict=True)), Problems("kinematic"))


class _Run:
    """The filter on a log, from its first instant."""

    def __init__(
        self, configuration: Configuration, instants: Sequence[Instant], settings: KinematicSettings | None
    ) -> None:
        self._gnss = configuration.sensors.gnss or Gnss()
        imu = configuration.sensors.imu
        self._axes = np.eye(3) if imu is None else imu.R_imu_vehicle.T
        start = find_start(configuration, instants)
        self._filter = KinematicFilter(settings or calc_settings(configuration, start.quality))
        self._origin = start.origin
        self._t: int | None = None
        place = start.place_car(self._filter.settings.antenna)
        self._filter.initialise(*place, start.yaw, start.speed)

    def step(self, t: int, values: Mapping[str, float]) -> tuple[float, ...]:
        """The values of `_COLUMNS` after all measurements at `t` (ns)."""
        f = self._filter
        if self._t is not None:
            f.predict((t - self._t) * 1e-9)
        self._t = t
        yaw_rate, ahead = self._find_along(GYROSCOPES, 2, values), self._find_along(ACCELEROMETERS, 0, values)
        if yaw_rate is not None:
            f.take_yaw_rate(yaw_rate)
        if ahead is not None:
            f.take_acceleration(ahead)
        self._take_speed(t, values)
        self._take_gnss(values)
        return (*f.read(), *f.sigmas())

    def _find_along(self, channels: Sequence[str], axis: int, values: Mapping[str, float]) -> float | None:
        """What the IMU measures along a vehicle axis; None if an axis of it that this takes is missing."""
        parts = [(float(r), c) for r, c in zip(self._axes[axis], channels, strict=True) if abs(r) > 1e-6]
        return sum(r * values[c] for r, c in parts) if all(c in values for _, c in parts) else None

    def _take_speed(self, t: int, values: Mapping[str, float]) -> None:
        """Take the speed from angles or rates of the rear wheels, else the car's own speed."""
        f = self._filter
        if "wheel.rl.angle" in values and "wheel.rr.angle" in values:
            f.update_wheel_angle(t * 1e-9, 0.5 * (values["wheel.rl.angle"] + values["wheel.rr.angle"]))
        elif "wheel.rl.speed" in values and "wheel.rr.speed" in values:
            f.update_wheel_speed(0.5 * (values["wheel.rl.speed"] + values["wheel.rr.speed"]))
        elif "vehicle.speed" in values:
            f.update_vehicle_speed(values["vehicle.speed"])

    def _take_gnss(self, values: Mapping[str, float]) -> None:
        quality = round(values.get("gnss.quality", 1.0))
        if quality < 1:
            return
        f, noise = self._filter, self._gnss.find_noise(quality)
        speed = values.get("gnss.speed")
        if "gnss.lat" in values:
            assert self._origin is not None
            east, north, _ = find_fix(self._origin, values)
            f.update_position(east, north, noise.horizontal**2 - noise.wander**2, noise.wander > 0)
        if speed is not None and "gnss.course" in values:
            f.update_course(math.pi / 2 - values["gnss.course"], speed, noise.velocity)
        if speed is not None:
            f.update_speed(speed, noise.velocity)
