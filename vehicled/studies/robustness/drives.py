"""Drives for the estimators: measurements, truth, and the configuration that describes the car.

Any process can make a drive from its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from replay.csv_log import Table, read_estimates
from replay.log import open_log
from replay.problems import Problems
from replay.steps import sort_by_arrival
from vehicled.configuration import Configuration, load_configuration
from vehicled.errors import UsageError
from vehicled.messages import Measurement
from vehicled.simulation.drive import TRUTH_EVERY, drive_plant
from vehicled.simulation.hills import Hills
from vehicled.simulation.plant import make_plant
from vehicled.simulation.random_course import RandomDrive
from vehicled.simulation.road import Roughness
from vehicled.simulation.scenario import STANDARD_ERRORS, Ground, Scenario, find_scenario
from vehicled.simulation.sensors import SensorPlaces, Track, measure
from vehicled.studies.robustness import owners, plants

Receiver = Literal["rtk", "conventional", "none"]

OWN, OUTAGE = "own", "outage"
OUTAGE_TIMES = (60.0, 120.0)
"""Start and end, s, of the time without GNSS."""
TRUE_COLUMNS = ("x", "y", "yaw", "vx", "vy", "wz", "sideslip")
"""Columns of the truth that are compared."""
_SEPARATOR = "|"
ROUGH: dict[Roughness, str] = {"B": "own, class B", "C": "own, class C", "D": "own, class D"}
"""The program's own plant on roads of ISO 8608, by class."""
HILLS = "own, hills"
"""The program's own plant on hilly roads, such as country roads."""
_SCENARIOS = {
    OWN: find_scenario("mixed_drive"),
    **{
        drive: replace(find_scenario("mixed_drive"), ground=Ground(roughness=roughness))
        for roughness, drive in ROUGH.items()
    },
    HILLS: RandomDrive(
        duration=90.0, number=5, plant=STANDARD_ERRORS, ground=Ground(hills=Hills(slope=0.08, bank=0.03))
    ),
    OUTAGE: RandomDrive(duration=OUTAGE_TIMES[1] + 5.0, number=4, plant=STANDARD_ERRORS),
}


@dataclass(frozen=True)
class LoggedDrive:
    """Measurements and truth of a drive, as an estimator with the true configuration receives them."""

    configuration: Configuration
    measurements: list[Measurement]
    """In order of arrival."""
    truth: Table


def name_foreign(plant: str, drive: str, radius_error: float = 0.0) -> str:
    """The name of a drive of a third-party plant."""
    return _SEPARATOR.join(("foreign", plant, drive, f"{radius_error:g}"))


def name_recorded(log: Path, truth: Path, configuration: str | Path) -> str:
    """The name of a recorded drive."""
    return _SEPARATOR.join(("recorded", str(log), str(truth), str(configuration)))


def is_installed(drive: str) -> bool:
    """Whether the packages that its plant needs are installed."""
    kind, *rest = drive.split(_SEPARATOR)
    return kind != "foreign" or plants.is_installed(rest[0])


def is_simulated_at_length(drive: str) -> bool:
    """Whether its plant takes long and this program has not simulated the drive yet."""
    kind, *rest = drive.split(_SEPARATOR)
    return kind == "foreign" and not plants.is_driven(rest[0], rest[1])


@lru_cache(maxsize=2)
def make_drive(drive: str, receiver: Receiver, seed: int) -> LoggedDrive:
    """The drive of that name; the most recent ones are kept. Raises UsageError."""
    kind, *rest = drive.split(_SEPARATOR)
    if kind == "foreign":
        plant, name, error = rest
        track, measurements = owners.measure_drive(plant, name, receiver == "rtk", seed)
        return LoggedDrive(owners.configure(plant, float(error)), measurements, _make_truth(track, drive))
    if kind == "recorded":
        return _read(*map(Path, rest))
    driven, scenario = _drive_own(kind), _SCENARIOS[kind]
    sensors = replace(scenario.sensors, gnss=None if receiver == "none" else receiver)
    if kind == OUTAGE:
        sensors = replace(sensors, outages={"gnss": [OUTAGE_TIMES]})
    measurements = measure(driven.track, sensors, driven.places, seed)
    return LoggedDrive(load_configuration("prototype"), measurements, _make_truth(driven.track, kind))


@dataclass(frozen=True)
class _Driven:
    """Result of a plant's drive."""

    track: Track
    places: SensorPlaces


@lru_cache(maxsize=2)
def _drive_own(kind: str) -> _Driven:
    """The prototype's own plant, with the errors of built-in drives."""
    scenario: Scenario = _SCENARIOS[kind]
    plant = make_plant(load_configuration("prototype"), scenario.plant)
    track, _ = drive_plant(scenario, plant, None)
    return _Driven(track, plant.mounting)


def _make_truth(track: Track, name: str) -> Table:
    """The truth for comparisons, at every few steps of a plant."""
    keep = slice(None, None, TRUTH_EVERY)
    t = np.round(track.t[keep] * 1e9).astype(np.int64)
    return Table(t, {c: track.columns[c][keep] for c in TRUE_COLUMNS}, Problems(f"truth of {name}"))


def _read(log: Path, truth: Path, configuration: Path) -> LoggedDrive:
    try:
        opened = open_log(log, {})
        measurements = list(sort_by_arrival(opened.measurements(), opened.problems))
        table = read_estimates(truth)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    return LoggedDrive(load_configuration(configuration), measurements, table)
