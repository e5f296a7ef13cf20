"""How well suspension travel, wheel loads and slip are estimated, for cars in other engines, on even and rough roads.

The estimator has the configuration of an owner of the published vehicle: once as it is, and once with drive
torques and brake pressure measured, and the brakes in its file. The car differs from it as in `plants`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replay.csv_log import Table
from replay.problems import Problems
from replay.steps import make_steps
from vehicled.configuration import Configuration, load_configuration
from vehicled.estimator import Estimator
from vehicled.messages import WHEELS, Measurement
from vehicled.scoring import scores
from vehicled.simulation.drive import TRUTH_EVERY, Plant, drive_plant
from vehicled.simulation.plant import MultibodyPlant
from vehicled.simulation.random_course import RandomDrive
from vehicled.simulation.road import Edge
from vehicled.simulation.scenario import Ground, PlantErrors, Scenario
from vehicled.simulation.sensor_settings import SimulatedSensors
from vehicled.simulation.sensors import Track, measure
from vehicled.stepping import run_steps
from vehicled.studies.robustness import owners
from vehicled.studies.robustness.engine_plant import BRAKE_GAINS, EnginePlant
from vehicled.studies.robustness.plants import (
    OWN_CONTACTS,
    PLACES,
    get_engine,
    is_installed,
    make_other_vehicle,
)
from vehicled.studies.robustness.runs import PERIOD_NS
from vehicled.studies.robustness.scores import SETTLED
from vehicled.vehicle.parameters import Vehicle

OWN = "own"
PLANTS = {OWN: None, "mujoco": "mujoco", "exudyn": "exudyn", **OWN_CONTACTS}
"""For each plant: the package that it needs."""
ROADS = {
    "flat": Ground(),
    "class B": Ground(roughness="B"),
    "class C": Ground(roughness="C"),
    "kerbs": Ground(
        edges=[Edge(at=at + k, height=h) for at in (10.0, 40.0, 80.0) for k, h in ((0, 0.1), (1, -0.1))]
    ),
}
"""Kerbs of 10 cm are 1 m wide; the drive crosses them at about 15 m/s."""
QUANTITIES = {
    "deflection": "suspension.{}.deflection",
    "load": "tyre.{}.fz",
    "slip_angle": "slip.{}.angle",
    "slip_ratio": "slip.{}.ratio",
}
"""Columns of the estimate: m, N, rad, and a ratio."""
_DRIVE = RandomDrive(duration=30.0, number=8)
"""Up to 6 m/s² lateral acceleration, 5 to 20 m/s."""


@dataclass(frozen=True)
class SuspensionJob:
    """One row of the table."""

    plant: str
    road: str
    seed: int


def list_plants() -> list[str]:
    """Plants whose packages are installed."""
    return [name for name, engine in PLANTS.items() if engine is None or is_installed(engine)]


def run_job(job: SuspensionJob) -> dict[str, Any]:
    """The row of a job, as `bench suspension --json` has it."""
    track = drive_car(job.plant, replace(_DRIVE, ground=ROADS[job.road]))
    configuration, sensors = owners.configure("mujoco", 0.0), owners.make_sensors("mujoco")
    row = score(estimate(configuration, measure(track, sensors, PLACES, job.seed)), track)
    usual = SimulatedSensors()
    sensors = replace(sensors, wheel_torques=usual.wheel_torques, brake_pressure=usual.brake_pressure)
    configuration = replace(configuration, vehicle=_add_brakes(configuration.vehicle))
    with_torques = score(estimate(configuration, measure(track, sensors, PLACES, job.seed)), track)
    return dataclasses.asdict(job) | row | {"rmse_with_torques": with_torques["rmse"]}


def drive_car(plant: str, scenario: Scenario) -> Track:
    """Motion of the car in that plant."""
    made = _make_plant(plant)
    try:
        return drive_plant(scenario, made, None)[0]
    finally:
        if isinstance(made, EnginePlant):
            made.close()


def _make_plant(name: str) -> Plant:
    vehicle = make_other_vehicle()
    if name != OWN:
        return EnginePlant(vehicle, PLACES, get_engine(name))
    published = load_configuration("reference_vehicle")
    return MultibodyPlant(replace(published, vehicle=_add_brakes(vehicle)), PlantErrors())


def _add_brakes(vehicle: Vehicle) -> Vehicle:
    """Add the brakes that the car has in the engines."""
    front, rear = (
        replace(axle, brake=replace(axle.brake, gain=gain))
        for axle, gain in ((vehicle.front, BRAKE_GAINS[0]), (vehicle.rear, BRAKE_GAINS[2]))
    )
    return replace(vehicle, front=front, rear=rear)


def estimate(configuration: Configuration, measurements: list[Measurement]) -> Table:
    """Result of the estimator with these measurements."""
    steps = make_steps(measurements, PERIOD_NS, Problems("log"))
    results = run_steps(Estimator(configuration), steps, raises=True)
    return scores.tabulate([r.estimate for r in results if r.estimate is not None])


def score(estimates: Table, track: Track) -> dict[str, Any]:
    """RMSE, and standard deviation of the truth about each wheel's mean; all wheels together, after `SETTLED` s.

    `airborne`: share of the wheels' time without load.
    """
    keep = slice(None, None, TRUTH_EVERY)
    names = ["vx", *(pattern.format(w) for pattern in QUANTITIES.values() for w in WHEELS)]
    t = np.round(track.t[keep] * 1e9).astype(np.int64)
    truth = Table(t, {name: track.columns[name][keep] for name in names}, Problems("truth"))
    compared = scores.compare(estimates, truth)
    scored = compared.t >= max(estimates.t[0], t[0]) + round(SETTLED * 1e9)
    row: dict[str, Any] = {"rmse": {}, "spread": {}}
    for quantity, pattern in QUANTITIES.items():
        errors, true = (
            np.array([columns[pattern.format(w)][scored] for w in WHEELS])
            for columns in (compared.errors, compared.truth)
        )
        row["rmse"][quantity] = math.sqrt(float(np.nanmean(errors**2)))
        row["spread"][quantity] = math.sqrt(float(np.nanmean(np.nanvar(true, axis=1))))
    loads = np.array([truth.columns[f"tyre.{w}.fz"] for w in WHEELS])
    return row | {"airborne": float(np.mean(loads[:, t >= round(SETTLED * 1e9)] <= 0.0))}
