"""Filters on the vehicle: the same drive for all of them, by a plant that differs from their model.

The drive is `mixed_drive` with its standard errors of the plant (mass, inertia, tyre stiffness, friction); the
car and its sensors are those of the configuration `prototype`, with nothing but the filter's kind changed. The cost
of a step is given relative to that of an errorEKF that takes the same steps, in turns in the same process: if other
programs slow down the machine, they slow down both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from replay.csv_log import Table
from replay.problems import Problems
from replay.steps import make_steps, sort_by_arrival
from vehicled.configuration import Configuration, load_configuration
from vehicled.errors import VehicledError
from vehicled.estimator import Estimator
from vehicled.filter.settings import Kind
from vehicled.garbage import collector_off
from vehicled.jobs.ledger import Ledger
from vehicled.jobs.run import run_resumable
from vehicled.messages import ESTIMATE_COLUMNS, WHEELS, Estimate, Innovation, Step
from vehicled.scoring.scores import compare, score, tabulate
from vehicled.simulation.drive import simulate
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import Scenario, find_scenario
from vehicled.studies.benchmarks.timing import CallTimes

CONFIGURATION, DRIVE = "prototype", "mixed_drive"
VEHICLE = "vehicle"
"""Used in place of the name of a linkage."""
KINDS: tuple[Kind, ...] = get_args(Kind)
Receiver = Literal["rtk", "conventional"]
RECEIVERS: tuple[Receiver, ...] = get_args(Receiver)
RATE_HZ = 250
_PERIOD_NS = 1_000_000_000 // RATE_HZ
_TURN, _REFERENCE_TURN = 250, 50
"""Steps per turn of the filter, and of the errorEKF for comparison."""


@dataclass(frozen=True)
class ObservedDrive:
    """One filter on one drive, measured with one receiver and one realisation of all noise."""

    receiver: Receiver
    seed: int
    kind: Kind


def get_drive(row: Mapping[str, Any]) -> ObservedDrive:
    """The drive of a row. Raises KeyError for a row of another kind."""
    if row["mechanism"] != VEHICLE:
        raise KeyError(row["mechanism"])
    return ObservedDrive(row["sensors"], row["seed"], row["filter"])


@dataclass
class TimedEstimator:
    """An estimator and the processor time of its steps, by turns."""

    estimator: Estimator
    times: CallTimes = field(default_factory=CallTimes)

    @classmethod
    def of(cls, configuration: Configuration, kind: Kind) -> TimedEstimator:
        """An estimator with another kind of filter than configured."""
        chosen = dataclasses.replace(configuration.filter, kind=kind)
        return cls(Estimator(dataclasses.replace(configuration, filter=chosen)))

    def take(self, steps: Sequence[Step]) -> Iterator[tuple[Estimate | None, list[Innovation]]]:
        """Make the steps of one turn. Raises what the estimator raises."""
        self.times.begin_turn()
        for step in steps:
            estimate = self.times.call("step", self.estimator.step, step.t, step.measurements)
            yield estimate, self.estimator.innovations()


def bench_vehicle(
    jobs: Sequence[ObservedDrive],
    executor: Executor,
    ledger: Ledger[ObservedDrive],
    progress: Callable[[float], None],
) -> list[dict[str, Any]]:
    """Rows of `run_job`, in order, from the ledger or calculated now.

    `progress` receives the number of completed rows.
    """
    return run_resumable(run_job, jobs, executor, progress, ledger)


def run_job(job: ObservedDrive) -> dict[str, Any]:
    """A row with keys as in `bench observers`.

    Position is horizontal (m) and velocity that of the car in its own axes (m/s); in addition heading,
    sideslip and suspension, and `sensors`: NIS by sensor.
    """
    return run_drive(*_make_measured_drive(job.receiver, job.seed), job.kind, job.seed)


@lru_cache(maxsize=1)
def _make_measured_drive(receiver: Receiver, seed: int) -> tuple[Scenario, list[Step], Table]:
    """Kept, as several filters use the same drive one after the other."""
    scenario = find_scenario(DRIVE)
    sensors = dataclasses.replace(scenario.sensors, gnss=receiver)
    scenario = dataclasses.replace(scenario, sensors=sensors)
    return scenario, *make_drive(load_configuration(CONFIGURATION), scenario, seed)


def make_drive(configuration: Configuration, scenario: Scenario, seed: int) -> tuple[list[Step], Table]:
    """A drive of the configured car as steps of the filter, and its truth."""
    measurements, truth = simulate(scenario, make_plant(configuration, scenario.plant), seed)
    problems = Problems(DRIVE)
    steps = list(make_steps(sort_by_arrival(measurements, problems), _PERIOD_NS, problems))
    columns = dict(zip(ESTIMATE_COLUMNS, truth.values.T, strict=True))
    return steps, Table(truth.t, columns, problems)


def run_drive(
    scenario: Scenario, steps: Sequence[Step], truth: Table, kind: Kind, seed: int
) -> dict[str, Any]:
    """Run one filter over given steps."""
    configuration = load_configuration(CONFIGURATION)
    timed = TimedEstimator.of(configuration, kind)
    reference = TimedEstimator.of(configuration, "errorEKF")
    estimates: list[Estimate] = []
    innovations: list[Innovation] = []
    failed_at = reason = None
    with collector_off():  # as in the daemon
        for turn, begin in enumerate(range(0, len(steps), _TURN)):
            for _ in reference.take(steps[turn * _REFERENCE_TURN : (turn + 1) * _REFERENCE_TURN]):
                pass
            try:
                for estimate, records in timed.take(steps[begin : begin + _TURN]):
                    innovations += records
                    if estimate is not None:
                        estimates.append(estimate)
            except (VehicledError, np.linalg.LinAlgError, FloatingPointError) as error:
                # The time of the step that raised was measured too.
                failed_at, reason = (begin + timed.times.in_turn - 1) / RATE_HZ, str(error)
                break
    row: dict[str, Any] = {
        "mechanism": VEHICLE,
        "sensors": scenario.sensors.gnss,
        "rate_hz": RATE_HZ,
        "level": _describe_plant(scenario),
        "filter": kind,
        "seed": seed,
        "failed_at": failed_at,
        "reason": reason,
    }
    row |= _calc_costs(timed, reference)
    return row | (_calc_errors(estimates, innovations, truth) if failed_at is None else UNKNOWN)


def _describe_plant(scenario: Scenario) -> str:
    plant = {name: share for name, share in dataclasses.asdict(scenario.plant).items() if share}
    return ", ".join(f"{name.replace('_', ' ')} {100 * share:+g} %" for name, share in plant.items())


def _calc_costs(timed: TimedEstimator, reference: TimedEstimator) -> dict[str, Any]:
    """Times, and how often the filter was restarted and its covariance repaired."""
    us, status = timed.times.get_us("step"), timed.estimator.status()
    return {
        "us_per_step": float(np.median(us)),
        "us_p999": float(np.percentile(us, 99.9)),
        "cost": timed.times.calc_cost(reference.times),
        "restarts": status["restarts"],
        "repairs": status["repairs"],
    }


UNKNOWN: dict[str, Any] = dict.fromkeys(
    (
        *(f"{what}_rmse{part}" for what in ("position", "velocity") for part in ("", "_second_half")),
        *("yaw_rmse", "sideslip_rmse", "suspension_rmse", "nis", "sensors_nis"),
    )
)


def _calc_errors(
    estimates: Sequence[Estimate], innovations: Sequence[Innovation], truth: Table
) -> dict[str, Any]:
    """Errors over the whole drive and over its second half, and consistency."""
    compared = compare(tabulate(estimates), truth)
    scores = score(compared, innovations)
    second = compared.t > 0.5 * (truth.t[0] + truth.t[-1])

    def rms(names: Sequence[str], keep: np.ndarray) -> float:
        """Root mean square of the vector of these errors."""
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
