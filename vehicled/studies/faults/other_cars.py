"""Drives of cars that are not the estimator's model: CommonRoad's, configured by handbook figures.

Their IMU measures 100 times a second, nothing measures torques and brake pressure, the wheels are 2 % smaller than
configured, and the time of the car's own speed is not known.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from vehicled.configuration import Configuration
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX
from vehicled.simulation.drive import TRUTH_EVERY
from vehicled.simulation.equipment import Equipment
from vehicled.studies.faults.drives import BEGIN, LENGTH, FaultDrive
from vehicled.studies.robustness import owners
from vehicled.studies.robustness.drives import TRUE_COLUMNS

_COURSES = {
    "CommonRoad 1 mixed": ("commonroad 1", "mixed", 34.93),
    "CommonRoad 2 hard": ("commonroad 2", "hard", 25.79),
}
"""By name: plant, its drive, and when it begins to turn in, s: then a fault begins."""
OTHER_DRIVES = tuple(_COURSES)
_RADIUS_ERROR = 0.02


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
    track, measured = owners.measure_drive(plant, name, receiver == "rtk", seed, has_speed=True)
    end = find_lead(drive) + LENGTH
    measurements = [m for m in measured if m.arrival < end * 1e9]
    keep = np.flatnonzero(track.t < end)[::TRUTH_EVERY]
    truth = np.full((len(keep), len(ESTIMATE_COLUMNS)), np.nan)
    for column in TRUE_COLUMNS:
        truth[:, ESTIMATE_INDEX[column]] = track.columns[column][keep]
    latitude, longitude, height = owners.make_sensors(plant).find_origin(Equipment())
    origin = WorldOrigin(math.degrees(latitude), math.degrees(longitude), height)
    return FaultDrive(measurements, np.round(track.t[keep] * 1e9).astype(np.int64), truth, origin)
