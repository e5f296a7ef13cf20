"""The literal errorEKF on a whole log, with the advantages that the kinematic filter has.

A fix is used at its time of measurement, and the heading at the start is the first course over ground.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from replay.csv_log import Table
from replay.problems import Problems
from vehicled.configuration import Configuration
from vehicled.filter.error_state import ErrorStateKalmanFilter
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import Measurement
from vehicled.sources.imu.imu import GYROSCOPES
from vehicled.sources.inputs.inputs import Inputs
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.wheels import ANGLES
from vehicled.studies.robustness.literal import OUTPUTS, LiteralErrors, Reading, ReadingKind
from vehicled.studies.robustness.log_start import find_fix, find_start, group_by_time


def run_literal(configuration: Configuration, measurements: Iterable[Measurement]) -> Table:
    """Estimates at each instant of the log, with a step from each to the next.

    In the configured world, else around the first fix. Raises what `ErrorStateKalmanFilter` raises.
    """
    instants = group_by_time(measurements)
    start = find_start(configuration, instants)
    sensors, model = configuration.sensors, LiteralErrors(configuration)
    arm = 0.0 if sensors.gnss is None else sensors.gnss.antenna[0]
    model.place(*start.place_car(arm), start.yaw, start.speed)
    ekf = ErrorStateKalmanFilter(model, model.start_covariance)
    inputs = Inputs(model.car, sensors)
    rows = []
    before = instants[0][0] if instants else 0
    for t, values in instants:
        inputs.take(t, values)
        if t > before:
            inputs.apply(t * 1e-9)
            ekf.predict((t - before) * 1e-9)
        before = t
        for reading in read(sensors, start.origin, values):
            ekf.update(reading)
        rows.append(model.calc_outputs(ekf.covariance))
    times = np.array([t for t, _ in instants], dtype=np.int64)
    return Table(times, dict(zip(OUTPUTS, np.array(rows).T, strict=True)), Problems("literal"))


def read(sensors: Sensors, origin: WorldOrigin | None, values: Mapping[str, float]) -> Iterator[Reading]:
    """Readings among the channels of an instant, with the configured noise; those without settings are omitted."""
    wheels, imu, gnss = sensors.wheel_angles, sensors.imu, sensors.gnss
    if wheels is not None and all(c in values for c in ANGLES):
        yield _make(
            "wheels", [values[c] for c in ANGLES], math.hypot(wheels.resolution / 12**0.5, wheels.noise)
        )
    if imu is not None and imu.gyroscopes is not None and all(c in values for c in GYROSCOPES):
        noise = np.hypot(imu.gyroscopes.noise, imu.gyroscopes.model_error)
        yield _make("gyroscopes", [values[c] for c in GYROSCOPES], *noise)
    quality = round(values.get("gnss.quality", 1.0))
    if gnss is None or quality < 1:
        return
    noise_of_fix = gnss.find_noise(quality)
    if "gnss.lat" in values and origin is not None:
        horizontal, vertical = noise_of_fix.horizontal, noise_of_fix.vertical
        yield _make("position", find_fix(origin, values), horizontal, horizontal, vertical)
    if "gnss.speed" in values and "gnss.course" in values:
        speed, course = values["gnss.speed"], math.pi / 2 - values["gnss.course"]
        yield _make("velocity", [speed * math.cos(course), speed * math.sin(course)], noise_of_fix.velocity)
        if speed > gnss.least_speed:
            yield _make("course", [course], noise_of_fix.velocity / speed)


def _make(kind: ReadingKind, value: Iterable[float], *sigma: float) -> Reading:
    """A reading with one σ for each component, or one for all."""
    given = np.array(list(value))
    return Reading(kind, given, np.broadcast_to(sigma, given.shape))
