"""Filters on the vehicle: one drive by a plant that differs from what they believe, for all of them.

The drive is `mixed_drive` with its standard errors of the plant (mass, inertia, tyre stiffness, friction); the
car and its sensors are those of the configuration `prototype`, with nothing but the filter's kind changed. A
step's time is that of the processor, told beside an errorEKF that takes the same steps by turns in the same process:
on a machine that does other things too, both are slowed alike.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Literal, get_args

import numpy as np

from replay.csv_log import Table
from replay.problems import Problems
from replay.steps import make_steps, sort_by_arrival
from vehicled.configuration import Configuration, load_configuration
from vehicled.errors import VehicledError
from vehicled.estimator import Estimator
from vehicled.filter.settings import Kind
from vehicled.messages import ESTIMATE_COLUMNS, WHEELS, Estimate, Innovation, Step
from vehicled.scoring import compare, score
from vehicled.simulation.drive import simulate
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import Scenario, find_scenario

CONFIGURATION, DRIVE = "prototype", "mixed_drive"
KINDS: tuple[str, ...] = get_args(Kind)
Receiver = Literal["rtk", "conventional"]
RECEIVERS: tuple[Receiver, ...] = get_args(Receiver)
RATE_HZ = 250
_PERIOD_NS = 1_000_000_000 // RATE_HZ
_TURN, _REFERENCE_TURN = 250, 50
"""Steps of the filter, and of the errorEKF beside it, in turns."""


@dataclass(frozen=True)
class Job:
    """One drive as one receiver and one draw of all noise saw it, for several filters."""

    receiver: Receiver
    seed: int
    kinds: tuple[str, ...]


class _Timed:
    """An estimator and the processor time of its steps, by turns."""

    def __init__(self, configuration: Configuration, kind: str):
        chosen = dataclasses.replace(configuration.filter, kind=kind)  # type: ignore[arg-type]  # checked before
        self.estimator = Estimator(dataclasses.replace(configuration, filter=chosen))
        self.turns: list[list[int]] = []

    def take(self, steps: Sequence[Step]) -> list[tuple[Estimate | None, list[Innovation]]]:
        """A turn. Raises what the estimator raises."""
        times: list[int] = []
        found = []
        self.turns.append(times)
        for step in steps:
            begin = time.process_time_ns()
            estimate = self.estimator.step(step.t, step.measurements)
            times.append(time.process_time_ns() - begin)
            found.append((estimate, self.estimator.innovations()))
        return found


def bench_vehicle(
    jobs: Iterable[Job], workers: int, progress: Callable[[float], None]
) -> list[dict[str, Any]]:
    """Rows of `run_job`, in order. `progress` is told how many are done."""
    ordered = list(jobs)
    rows: dict[Job, list[dict[str, Any]]] = {}
    # Processes that share nothing: a fork would copy the threads of the numerical libraries in any state.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(run_job, job): job for job in ordered}
        for done in as_completed(pending):
            rows[pending[done]] = done.result()
            progress(sum(len(r) for r in rows.values()))
    return [row for job in ordered for row in rows[job]]


def run_job(job: Job) -> list[dict[str, Any]]:
    """A row per filter: keys as of `bench observers`, position being horizontal (m) and velocity that of the car in
    its own axes (m/s); beside them heading, sideslip and suspension, and `sensors`: NIS by sensor."""
    scenario = find_scenario(DRIVE)
    sensors = dataclasses.replace(scenario.sensors, gnss=job.receiver)
    scenario = dataclasses.replace(scenario, sensors=sensors)
    steps, truth = make_drive(load_configuration(CONFIGURATION), scenario, job.seed)
    return [run_drive(scenario, kind, job.seed, steps, truth) for kind in job.kinds]


def make_drive(configuration: Configuration, scenario: Scenario, seed: int) -> tuple[list[Step], Table]:
    """A drive of the configured car as steps of the filter, and its truth."""
    measurements, truth = simulate(scenario, make_plant(configuration, scenario.plant), seed)
    problems = Problems(DRIVE)
    steps = list(make_steps(sort_by_arrival(measurements, problems), _PERIOD_NS, problems))
    columns = dict(zip(ESTIMATE_COLUMNS, truth.values.T, strict=True))
    return steps, Table(truth.t, columns, problems)


def run_drive(
    scenario: Scenario, kind: str, seed: int, steps: Sequence[Step], truth: Table
) -> dict[str, Any]:
    """One filter over steps that were made."""
    configuration = load_configuration(CONFIGURATION)
    timed, reference = _Timed(configuration, kind), _Timed(configuration, "errorEKF")
    estimates: list[Estimate] = []
    innovations: list[Innovation] = []
    failed_at = reason = None
    for turn, begin in enumerate(range(0, len(steps), _TURN)):
        reference.take(steps[turn * _REFERENCE_TURN : (turn + 1) * _REFERENCE_TURN])
        try:
            found = timed.take(steps[begin : begin + _TURN])
        except (VehicledError, np.linalg.LinAlgError, FloatingPointError) as error:
            failed_at, reason = (begin + len(timed.turns[-1])) / RATE_HZ, str(error)
            break
        estimates += [e for e, _ in found if e is not None]
        innovations += [i for _, records in found for i in records]
    status = timed.estimator.status()
    plant = {name: share for name, share in dataclasses.asdict(scenario.plant).items() if share}
    own, other = ([np.median(t) for t in x.turns if t] for x in (timed, reference))
    times = np.concatenate([t for t in timed.turns if t])
    row: dict[str, Any] = {
        "mechanism": "vehicle",
        "sensors": scenario.sensors.gnss,
        "rate_hz": RATE_HZ,
        "level": ", ".join(f"{name.replace('_', ' ')} {100 * share:+g} %" for name, share in plant.items()),
        "filter": kind,
        "seed": seed,
        "us_per_step": 1e-3 * float(np.median(times)),
        "us_p999": 1e-3 * float(np.percentile(times, 99.9)),
        "cost": float(np.median([a / b for a, b in zip(own, other, strict=True)])),
        "restarts": status["restarts"],
        "repairs": status["repairs"],
        "failed_at": failed_at,
        "reason": reason,
    }
    return row | (_calc_errors(estimates, innovations, truth) if failed_at is None else _UNKNOWN)


_UNKNOWN: dict[str, Any] = dict.fromkeys(
    (
        *(f"{what}_rmse{part}" for what in ("position", "velocity") for part in ("", "_second_half")),
        *("yaw_rmse", "sideslip_rmse", "suspension_rmse", "nis", "sensors_nis"),
    )
)


def _calc_errors(
    estimates: Sequence[Estimate], innovations: Sequence[Innovation], truth: Table
) -> dict[str, Any]:
    """Errors over the whole drive and over its second half, and consistency."""
    t = np.array([e.t for e in estimates], dtype=np.int64)
    values = np.array([e.values for e in estimates])
    columns = dict(zip(ESTIMATE_COLUMNS, values.T, strict=True))
    compared = compare(Table(t, columns, Problems("estimates")), truth)
    scores = score(compared, innovations)
    second = compared.t > 0.5 * (truth.t[0] + truth.t[-1])

    def rms(names: Sequence[str], keep: np.ndarray) -> float:
        """Of the vector of these errors."""
        squares = np.sum([compared.errors[n][keep] ** 2 for n in names], axis=0)
        return math.sqrt(float(np.nanmean(squares)))

    every = np.ones_like(second)
    found: dict[str, Any] = {}
    for what, names in (("position", ("x", "y")), ("velocity", ("vx", "vy"))):
        found[f"{what}_rmse"] = rms(names, every)
        found[f"{what}_rmse_second_half"] = rms(names, second)
    quantities = scores.quantities
    found["yaw_rmse"], found["sideslip_rmse"] = quantities["yaw"].rmse, quantities["sideslip"].rmse
    found["suspension_rmse"] = max(quantities[f"suspension.{w}.deflection"].rmse for w in WHEELS)
    by_sensor = {name: s.nis for name, s in scores.sensors.items() if s.fused}
    found["nis"] = float(np.mean(list(by_sensor.values())))
    found["sensors_nis"] = by_sensor
    return found
