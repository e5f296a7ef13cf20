"""Parameters of cars that differ from what is believed, from one drive each.

The drive is `mixed_drive`; the car is that of the configuration `prototype` with every parameter that is looked for
off by 10 to 20 %, up or down (the centre of gravity by half to all of what is not known of it), and its sensors have
all their errors, each car those of its own seed.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatch
from multiprocessing import get_context
from typing import Any

import numpy as np

from vehicled import settings
from vehicled.configuration import File, configure
from vehicled.errors import UsageError
from vehicled.identification.vehicle.names import Parameter, apply, choose, with_defaults
from vehicled.identification.vehicle.prediction_error import Drive
from vehicled.identification.vehicle.session import identify
from vehicled.simulation.scenario import PlantErrors, find_scenario
from vehicled.studies.benchmarks.vehicle_observers import CONFIGURATION, DRIVE, make_drive

PARAMETERS = "mass,center_of_mass.x,inertia.yaw,*.tyre_stiffness,*.friction,*.spring,brake_gain"
_OFF = (0.1, 0.2)
_NOT_DRIVEN = ("torque_gain", "steering.*", "gyro_offset.*", "accel_offset.*")
"""What simulated sensors are off by is drawn for each drive, not taken from a configuration."""


def _load() -> tuple[File, str]:
    """The car as it is believed to be, and the text of its configuration."""
    path = settings.config_path(CONFIGURATION)
    return with_defaults(settings.load(path, File)), path.read_text(encoding="utf-8")


def check_names(names: str) -> None:
    """Raises UsageError on parameters that `run_car` does not take."""
    _choose(names, _load()[0])


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
    """Another car: all of these off."""
    random = np.random.default_rng(seed)
    sign = random.choice([-1.0, 1.0], len(parameters))
    off = sign * random.uniform(*_OFF, len(parameters))
    beside = sign * random.uniform(0.5, 1.0, len(parameters)) * [p.sigma for p in parameters]
    theta = [np.log1p(a) if p.positive else b for p, a, b in zip(parameters, off, beside, strict=True)]
    car = apply(file, parameters, theta)
    if fault := settings.find_fault(car.vehicle, "vehicle"):
        raise UsageError(f"seed {seed}: there is no such car: {fault}")
    return car


def bench_cars(
    names: str, seeds: Sequence[int], workers: int, progress: Callable[[float], None]
) -> list[dict[str, Any]]:
    """Rows of `run_car`, in order. `progress` is told how many are done."""
    rows: dict[int, dict[str, Any]] = {}
    # Processes that share nothing: a fork would copy the threads of the numerical libraries in any state.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(run_car, names, seed): seed for seed in seeds}
        for done in as_completed(pending):
            rows[pending[done]] = done.result()
            progress(len(rows))
    return [rows[seed] for seed in seeds]


def run_car(names: str, seed: int) -> dict[str, Any]:
    """One car: what was found of it, and the time that this took from the log on."""
    file, text = _load()
    parameters = _choose(names, file)
    scenario = dataclasses.replace(find_scenario(DRIVE), plant=PlantErrors())
    car = perturb(file, parameters, seed)
    steps, _ = make_drive(configure(car, text), scenario, seed)
    begun, used = time.monotonic(), time.process_time()
    drive = Drive.of(configure(file, text), steps)
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
