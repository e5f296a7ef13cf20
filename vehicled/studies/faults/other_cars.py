"""Drives of cars that are not the estimator's model: CommonRoad's, configured by handbook figures.

Their IMU measures 100 times a second, nothing measures torques and brake pressure, the wheels are 2 % smaller than
configured, and the time of the car's own speed is not known.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from vehicled.configuration import Configuration
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX
from vehicled.simulation.equipment import Equipment
from vehicled.simulation.sensor_settings import RTK, SimulatedSignal
from vehicled.simulation.sensors import measure
from vehicled.studies.faults.drives import BEGIN, LENGTH, FaultDrive
from vehicled.studies.robustness import owners, plants

_COURSES = {
    "CommonRoad 1 mixed": ("commonroad 1", "mixed", 34.93),
    "CommonRoad 2 hard": ("commonroad 2", "hard", 25.79),
}
"""By name: plant, its drive, and when it begins to turn in, s: then a fault begins."""
OTHER_DRIVES = tuple(_COURSES)
_RADIUS_ERROR = 0.02
_EVERY = 10
"""Steps of a plant from one truth to the next."""
_TRUE = ("x", "y", "yaw", "vx", "vy", "sideslip")
_SPEED = SimulatedSignal(rate=50.0, noise=0.03)


def find_lead(drive: str) -> float:
    """s: by how much later faults occur in that drive than in the program's own ones."""
    return _COURSES[drive][2] - BEGIN


def configure(drive: str) -> Configuration:
    """Configuration by the car's owner."""
    return owners.configure(_COURSES[drive][0], _RADIUS_ERROR, has_speed=True)


@lru_cache
def make_drive(drive: str, receiver: str, seed: int) -> FaultDrive:
    """One of `OTHER_DRIVES`, with one of `RECEIVERS`. UsageError if the plant's package is not installed."""
    plant, name, _ = _COURSES[drive]
    track = plants.load_or_drive(plant, name)
    end = find_lead(drive) + LENGTH
    sensors = replace(owners.make_sensors(plant), speed=_SPEED)
    if receiver == "rtk":
        sensors = replace(sensors, gnss=RTK)
    measurements = [m for m in measure(track, sensors, plants.PLACES, seed) if m.arrival < end * 1e9]
    keep = np.flatnonzero(track.t < end)[::_EVERY]
    truth = np.full((len(keep), len(ESTIMATE_COLUMNS)), np.nan)
    for column in _TRUE:
        truth[:, ESTIMATE_INDEX[column]] = track.columns[column][keep]
    latitude, longitude, height = sensors.find_origin(Equipment())
    origin = WorldOrigin(math.degrees(latitude), math.degrees(longitude), height)
    return FaultDrive(measurements, np.round(track.t[keep] * 1e9).astype(np.int64), truth, origin)
