"""Parameters of cars that differ from their configuration, each identified from one drive.

The drive is `mixed_drive`; the car is that of the configuration `prototype` with every parameter to be identified
off by 10 to 20 %, up or down (the centre of gravity by half to all of its prior standard deviation), and its sensors
have all their errors, each car those of its own seed.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from fnmatch import fnmatch
from functools import partial
from typing import Any

import numpy as np

from vehicled.configuration import File, configure
from vehicled.errors import UsageError
from vehicled.identification.vehicle.filter_form import calc_filter_form
from vehicled.identification.vehicle.names import Parameter, apply, choose, with_defaults
from vehicled.identification.vehicle.prediction_error import ScoredDrive
from vehicled.identification.vehicle.session import identify
from vehicled.jobs.run import run_jobs
from vehicled.reading import settings
from vehicled.reading.number_faults import find_fault
from vehicled.simulation.scenario import PlantErrors, find_scenario
from vehicled.studies.benchmarks.vehicle_observers import CONFIGURATION, DRIVE, make_drive

PARAMETERS = "mass,center_of_mass.x,inertia.yaw,*.tyre_stiffness,*.friction,*.spring,brake_gain"
_OFF = (0.1, 0.2)
_NOT_DRIVEN = ("torque_gain", "steering.*", "gyro_offset.*", "accel_offset.*")
"""Errors of simulated sensors are drawn for each drive, not taken from a configuration."""


def _load() -> tuple[File, str]:
    """The configured car, and the text of its configuration."""
    path = settings.config_path(CONFIGURATION)
    return settings.load(path, File), path.read_text(encoding="utf-8")


def check_names(names: str) -> None:
    """Check names of parameters. Raises UsageError for those that `run_car` does not accept."""
    _choose(names, with_defaults(_load()[0]))


def _choose(names: str, file: File) -> list[Parameter]:
    """Parameters whose truth is known in a simulation."""
    parameters = choose(names, file)
    for p in parameters:
        if any(fnmatch(p.name, pattern) for pattern in _NOT_DRIVEN):
            raise UsageError(
                f"parameter '{p.name}': the sensors of a simulated drive have errors of their own"
            )
    return parameters


def perturb(file: File, parameters: Sequence[Parameter], seed: int) -> File:
    """Another car, with errors in all of these parameters. Raises UsageError for a seed whose car is not possible."""
    random = np.random.default_rng(seed)
    sign = random.choice([-1.0, 1.0], len(parameters))
    off = sign * random.uniform(*_OFF, len(parameters))
    beside = sign * random.uniform(0.5, 1.0, len(parameters)) * [p.sigma for p in parameters]
    theta = [np.log1p(a) if p.positive else b for p, a, b in zip(parameters, off, beside, strict=True)]
    car = apply(file, parameters, theta)
    if fault := find_fault(car.vehicle, "vehicle"):
        raise UsageError(f"seed {seed}: there is no such car: {fault}")
    return car


def bench_cars(
    names: str, seeds: Sequence[int], executor: Executor, progress: Callable[[float], None]
) -> list[dict[str, Any]]:
    """Rows of `run_car`, in order. `progress` receives the number of completed cars."""
    return run_jobs(partial(run_car, names), seeds, executor, progress)


def run_car(names: str, seed: int) -> dict[str, Any]:
    """One car: its identified parameters, and the time for this, starting with the log."""
    given, text = _load()
    # The simulated sensors have all errors that the configuration describes.
    file = with_defaults(calc_filter_form(given, tuning=False)[0])
    parameters = _choose(names, file)
    scenario = dataclasses.replace(find_scenario(DRIVE), plant=PlantErrors())
    car = perturb(with_defaults(given), parameters, seed)
    steps, _ = make_drive(configure(car, text), scenario, seed)
    begun, used = time.monotonic(), time.process_time()
    drive = ScoredDrive.of(configure(file, text), steps)
    estimate = identify(file, text, parameters, [drive], lambda *_: None)
    row: dict[str, Any] = {
        "seed": seed,
        "driven_s": drive.length,
        "wall_s": time.monotonic() - begun,
        "processor_s": time.process_time() - used,
        "passes": estimate.passes,
        "plant_noise": estimate.plant_noise,
        "parameters": [],
    }
    for f in estimate.found:
        true = f.parameter.get(car)
        row["parameters"].append(
            {
                "name": f.parameter.name,
                "prior": f.prior,
                "true": true,
                "value": f.value,
                "sigma": f.sigma,
                "identified": f.identified,
                "reason": f.reason or None,
            }
        )
    return row
