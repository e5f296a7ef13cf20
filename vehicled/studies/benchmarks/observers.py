"""Runs of observers on linkages: the truth, a model with errors, and a filter on that model.

The cost of a step is stated beside that of an errorEKF of the same set-up, which runs in turns with the filter in the
same process: if other programs slow down the machine, they slow down both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np

from vehicled.errors import RunError
from vehicled.filter.error_state import StateUpdate
from vehicled.jobs.ledger import Ledger
from vehicled.jobs.run import run_resumable
from vehicled.studies.benchmarks import literal
from vehicled.studies.benchmarks.observer_cases import (
    LEVELS,
    PUBLISHED_SEED,
    RATES,
    H,
    ObserverRun,
    calc_setup_observability,
    get_linkage,
    make_noise,
    make_wrong,
)
from vehicled.studies.benchmarks.observer_filters import NO_FILTER, make_filter
from vehicled.studies.benchmarks.observer_published import find_published
from vehicled.studies.benchmarks.timing import CallTimes
from vehicled.studies.observers.interface import Observer

MOTIONS = ("position", "velocity", "acceleration")
"""Quantities with errors."""
_TURN, _REFERENCE_TURN = 100, 20
"""Steps per turn of the filter, and of the errorEKF with which its cost is compared."""


@dataclass(frozen=True)
class Trace:
    """The run of a filter, until the end or until it broke down."""

    position: np.ndarray
    """(n, f) errors of z after each step."""
    velocity: np.ndarray
    acceleration: np.ndarray
    deviation: np.ndarray
    """(n, f) standard deviations of z by the filter."""
    updates: dict[int, StateUpdate]
    """Updates by the number of the step, from 0."""
    us_per_step: float
    cost: float
    """Cost relative to an errorEKF of the same set-up."""
    repairs: int
    failed_at: float | None
    """Time at which the filter broke down, s; None if it did not."""
    reason: str | None
    last_readings: list[float] | None
    """Last readings before it broke down."""


@dataclass
class _Pass:
    """The state of an observer's run."""

    observer: Observer
    readings: np.ndarray
    """(steps, k)"""
    every: int | None
    """Steps from one reading to the next; None without readings."""
    times: CallTimes = field(default_factory=CallTimes)
    count: int = 0
    """Number of completed steps."""

    def get_reading(self, k: int) -> np.ndarray | None:
        return None if self.every is None or (k + 1) % self.every else self.readings[k]

    def step(self) -> StateUpdate | None:
        reading = self.get_reading(self.count)
        update = self.times.call(reading is not None, self.observer.step, reading)
        self.count += 1
        return update


def run_filter(run: ObserverRun) -> Trace:
    """The three simulations of a run: the truth, the wrong model, and the observer with that model."""
    linkage = get_linkage(run.mechanism, run.sensors, run.literal)
    alone = run.filter == NO_FILTER
    readings = linkage.readings + linkage.sensors.sigma * make_noise(run.seed, linkage.readings.shape[1])

    def start(name: str, every: int | None) -> _Pass:
        wrong = make_wrong(linkage, LEVELS[run.level])
        return _Pass(make_filter(name, wrong, linkage, run.literal), readings, every)

    own = start("errorEKF" if alone else run.filter, None if alone else run.setup.every)
    reference = start("errorEKF", run.setup.every)
    observer = own.observer
    states: list[tuple[np.ndarray, ...]] = []
    updates: dict[int, StateUpdate] = {}
    failed_at = reason = None
    for k in range(len(readings)):
        if k % _TURN == 0:
            own.times.begin_turn()
            _time_reference(reference)
        try:
            update = own.step()
        except (RunError, np.linalg.LinAlgError) as error:
            failed_at, reason = (k + 1) * H, str(error)
            break
        if update is not None:
            updates[k] = update
        states.append((observer.z, observer.zd, observer.zdd, observer.z_deviation))
    shape = (len(states), len(linkage.case.angles))
    z, zd, zdd, deviation = (np.array([s[i] for s in states]).reshape(shape) for i in range(4))
    return Trace(
        position=z - linkage.z[: len(z)],
        velocity=zd - linkage.zd[: len(z)],
        acceleration=zdd - linkage.zdd[: len(z)],
        deviation=deviation,
        updates=updates,
        us_per_step=own.times.calc_us_per_call(),
        cost=own.times.calc_cost(reference.times),
        repairs=observer.repairs,
        failed_at=failed_at,
        reason=reason,
        last_readings=_find_last_reading(own) if failed_at else None,
    )


def _time_reference(reference: _Pass) -> None:
    reference.times.begin_turn()
    try:
        for _ in range(_REFERENCE_TURN):
            reference.step()
    except (RunError, np.linalg.LinAlgError):
        pass  # the time until then counts


def _find_last_reading(broken: _Pass) -> list[float] | None:
    """Readings of the step that failed, or else the last ones before it."""
    read = (broken.get_reading(k) for k in range(broken.count, -1, -1))
    last = next((r for r in read if r is not None), None)
    return None if last is None else last.tolist()


@cache
def calc_wrong_rmse(mechanism: str, level: str) -> dict[str, float]:
    """Errors of the wrong model without a filter, by `MOTIONS`."""
    trace = run_filter(ObserverRun(mechanism, "encoders", RATES[-1], level, NO_FILTER, PUBLISHED_SEED))
    return {what: calc_rmse(getattr(trace, what)) for what in MOTIONS}


def run_case(run: ObserverRun) -> dict[str, Any]:
    """One row: the run, observability with its sensors, errors against the truth, consistency and cost.

    Errors are root mean squares over all steps, or those after 5 s, of each coordinate, averaged over
    coordinates (rad, rad/s, rad/s²); `…_relative` are over those of the wrong model alone. `nis` is the mean over
    steps with readings. Of a filter that breaks down they are None, with the time (s), the reason and the last
    readings. `cost`: over that of an errorEKF of the same set-up. `readings`: how many at a time, which is the mean
    nis of a consistent filter. `rank` of the `states` by the exact dynamics, `rank_free_masses` for filters that
    propagate errors as those of free masses. `notice`: of a literal run, how it differs from the published filter
    of that name, None if it does not. `published`: figures of the published run that a literal one repeats, None
    without such: `find_published`.
    """
    observability, trace = calc_setup_observability(run.setup), run_filter(run)
    failed = trace.failed_at is not None
    row: dict[str, Any] = asdict(run)
    row["notice"] = literal.NOTICES.get(run.filter) if run.literal else None
    row["published"] = find_published(run)
    wrong = calc_wrong_rmse(run.mechanism, run.level)
    linkage = get_linkage(run.mechanism, run.sensors, run.literal)
    for what in MOTIONS:
        error = getattr(trace, what)
        rmse = None if failed else calc_rmse(error)
        row[f"{what}_rmse"] = rmse
        row[f"{what}_rmse_second_half"] = None if failed else calc_rmse(error[len(linkage.z) // 2 :])
        row[f"{what}_relative"] = None if rmse is None else rmse / wrong[what]
    nis = [update.nis for update in trace.updates.values()]
    row["nis"] = float(np.mean(nis)) if nis and not failed else None
    row |= {name: getattr(trace, name) for name in ("us_per_step", "cost", "repairs")}
    row |= {name: getattr(trace, name) for name in ("failed_at", "reason", "last_readings")}
    row |= {
        "readings": linkage.readings.shape[1],
        "observable": observability.exact.complete,
        "rank": observability.exact.rank,
        "rank_free_masses": observability.free_masses.rank,
        "states": len(observability.exact.values),
        "unseen": observability.exact.unobservable,
    }
    return row


def get_run(row: Mapping[str, Any]) -> ObserverRun:
    """The run of a row. Raises KeyError for a row of another kind."""
    return ObserverRun(**{f.name: row[f.name] for f in fields(ObserverRun)})


def bench_observers(
    runs: Iterable[ObserverRun],
    executor: Executor,
    ledger: Ledger[ObserverRun],
    progress: Callable[[float], None],
) -> list[dict[str, Any]]:
    """`vehicled bench observers --json`: a row for each run, in their order, from the ledger or calculated now.

    `progress` receives the number of completed runs. Raises WorkerLostError if a process is killed
    repeatedly.
    """
    return run_resumable(run_case, runs, executor, progress, ledger)


def calc_rmse(error: np.ndarray) -> float:
    """Root mean square of errors (steps, f), averaged over the coordinates."""
    return float(np.sqrt(np.mean(error**2, axis=0)).mean())
