"""`vehicled bench particles`: the cost of a particle, and how often the particle filter finds the linkage.

For each missed try it is calculated whether the readings determine the state at all: `find_posterior`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vehicled.garbage import collector_off
from vehicled.jobs.ledger import Ledger
from vehicled.jobs.run import run_jobs, run_resumable
from vehicled.studies.benchmarks.particle_ambiguity import SURE, find_posterior, find_similar_starts
from vehicled.studies.benchmarks.particle_tries import (
    CRANK,
    NUMEROUS,
    PUBLISHED,
    SETTLED,
    STEP,
    WANDERING,
    Experiment,
    Outcome,
    Try,
)
from vehicled.studies.benchmarks.timing import CallTimes

COUNTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
SIGMAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""rad"""
TIMED = (100, 1000, 10_000, 100_000, 1_000_000)
USUAL = 10_000
"""Number of particles that must run in real time; `us_per_particle_step` is for this number."""
_BYTES = 600
"""Bytes of memory per particle, including temporary arrays of its step."""
_TIMED_FOR = 2_000_000
"""Number of particle steps of each kind per count, at least ten steps."""


STEPS = (0.006, 0.01, 0.02, 0.05, 0.1, 0.2, 0.29, 0.5, 1.0)
"""Times between readings, s."""
_LONG = 3.06
"""Length of a try in that sweep, s: three times the usual length, for three readings at the longest time."""
SETTLED_SIGMAS = (0.01, 0.015, 0.02)
SETTINGS = {"as published": PUBLISHED, "wandering": WANDERING, "settled": SETTLED}
"""Settings that are compared."""
COMPARED = (
    *((count, 0.01) for count in (50, 100, 200, 500, 1000, 2000)),
    *((500, sigma) for sigma in (0.001, 0.005, 0.02, 0.05, 0.1)),
)
"""Numbers of particles, and motion noise (rad), at which the settings are compared."""
FIRST_SEED = 5000
"""First seed of the reported tries. `SETTLED` was found with the seeds 1000 to 1299, and has not been changed
since."""


def bench_costs(
    progress: Callable[[float], None], counts: Sequence[int] = TIMED, effort: int = _TIMED_FOR
) -> list[dict[str, float]]:
    """`costs` of `vehicled bench particles --json`: a row for each count, medians over steps of processor time, µs.

    `step` is a whole step of the filter (noise, reading and, if needed, resampling), `drawing` a step that
    always resamples, `keeping` a step whose noise preserves the particles' covariance, `advance` the motion
    with projection only. `ratio` compares the cost of a step with that at the count where it is least. Counts
    that need more memory than available are omitted.
    """
    rows: list[dict[str, float]] = []
    kinds = {"step": (0.5, False), "drawing": (2.0, False), "keeping": (0.5, True)}
    with collector_off():
        for n, count in enumerate(counts):
            if count * _BYTES > os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
                continue
            trial, times = Try(Experiment(count=count), seed=1), CallTimes()
            times.begin_turn()
            for _ in range(max(10, effort // count)):
                times.call("advance", trial.swarm.advance, STEP)
                for kind, (trial.filter.threshold, trial.filter.noise.keeps_covariance) in kinds.items():
                    reading = float(np.median(trial.swarm.get_rates(CRANK)[:1001]))
                    times.call(kind, trial.filter.step, STEP, [reading])
            row = {kind: float(np.median(times.get_us(kind))) / count for kind in ("advance", *kinds)}
            rows.append({"count": count, **row})
            progress(n + 1)
    least = min(row["step"] for row in rows)
    return [{**row, "ratio": row["step"] / least} for row in rows]


class TryJob(NamedTuple):
    """One try of one experiment."""

    experiment: Experiment
    seed: int


def open_ledger(path: Path | None) -> Ledger[TryJob]:
    """The ledger of tries. Raises UsageError for a file of another kind."""

    def find_job(row: dict[str, Any]) -> TryJob:
        Outcome(**row["outcome"])
        x = row["experiment"]
        return TryJob(Experiment(**(x | {"lengths": tuple(x["lengths"])})), int(row["seed"]))

    return Ledger(path, find_job, "a try of an earlier sweep")


def run_try(job: TryJob) -> dict[str, Any]:
    """Run a try and return its row."""
    outcome = Try(job.experiment, job.seed).run()
    return {"experiment": asdict(job.experiment), "seed": job.seed, "outcome": asdict(outcome)}


def bench_similar_starts() -> list[dict[str, Any]]:
    """`rivals` of `vehicled bench particles --json`: shares of the starts with a similar one within 3 σ."""
    rows = []
    for both in (False, True):
        similar = find_similar_starts(Experiment(both_branches=both))
        for multiplier in (1.0, SETTLED.multiplier, Experiment.multiplier):
            share = similar.share_below(3.0 * multiplier)
            rows.append({"both_branches": both, "multiplier": multiplier, "share": share})
    return rows


def experiments(
    counts: Sequence[int] = COUNTS, sigmas: Sequence[float] = SIGMAS
) -> dict[str, list[Experiment]]:
    """The sweeps by the quantity that is varied; other settings as in the source.

    Also the time between readings; `SETTLED`, the same for a linkage that can be assembled either way, and
    with noise that adds to the covariance; and the three settings of `SETTINGS` compared.
    """
    return {
        "count": [Experiment(count=count) for count in counts],
        "motion": [Experiment(motion=sigma) for sigma in sigmas],
        "step": [
            replace(setting, step=step, steps=max(1, round(_LONG / step)))
            for setting in (PUBLISHED, SETTLED)
            for step in STEPS
        ],
        "settled": [replace(SETTLED, motion=sigma) for sigma in SETTLED_SIGMAS],
        "either_way": [replace(SETTLED, motion=sigma, both_branches=True) for sigma in SETTLED_SIGMAS],
        "wandering": [
            replace(kind, motion=sigma) for kind in (WANDERING, NUMEROUS) for sigma in SETTLED_SIGMAS
        ],
        "settings": [
            replace(setting, count=count, motion=sigma)
            for count, sigma in COMPARED
            for setting in SETTINGS.values()
        ],
    }


def find_setting(row: dict[str, Any]) -> str:
    """Name in `SETTINGS` of the setting of a row of the sweeps `step` and `settings`."""
    for name, x in SETTINGS.items():
        if (row["multiplier"], row["resampling_sigma"], row["keeps_spread"]) == (
            x.multiplier,
            x.resampling,
            x.keeps_covariance,
        ):
            return name
    raise ValueError(f"a row of none of the settings {', '.join(SETTINGS)}")


def find_mass_near(job: TryJob) -> float:
    """Probability of the exact posterior near the truth."""
    return find_posterior(job.experiment, job.seed).near


def _without_filter(experiment: Experiment) -> Experiment:
    """The settings on which the readings depend, without those of the filter."""
    return Experiment(
        experiment.lengths,
        gyroscope=experiment.gyroscope,
        steps=experiment.steps,
        step=experiment.step,
        both_branches=experiment.both_branches,
    )


def _list_jobs(todo: Mapping[str, Sequence[Experiment]], tries: int) -> list[TryJob]:
    """All tries of the sweeps, each once."""
    experiments = dict.fromkeys(x for sweep in todo.values() for x in sweep)
    return [TryJob(x, seed) for x in experiments for seed in range(FIRST_SEED, FIRST_SEED + tries)]


def _list_missed(jobs: Sequence[TryJob], ledger: Ledger[TryJob]) -> list[TryJob]:
    """Tries that were missed, without the filter's settings, each once."""
    missed = (job for job in jobs if not Outcome(**ledger[job]["outcome"]).peak_converged)
    return list(dict.fromkeys(TryJob(_without_filter(job.experiment), job.seed) for job in missed))


def _tabulate(
    todo: Mapping[str, Sequence[Experiment]], tries: int, ledger: Ledger[TryJob], near: Mapping[TryJob, float]
) -> dict[str, list[dict[str, Any]]]:
    """Rows by the quantity that is varied; `near`: results of `find_mass_near` for the tries of `_list_missed`."""
    return {
        varied: [_tabulate_row(x, tries, ledger, near) for x in experiments]
        for varied, experiments in todo.items()
    }


def _tabulate_row(
    x: Experiment, tries: int, ledger: Ledger[TryJob], near: Mapping[TryJob, float]
) -> dict[str, Any]:
    seeds = range(FIRST_SEED, FIRST_SEED + tries)
    outcomes = {seed: Outcome(**ledger[TryJob(x, seed)]["outcome"]) for seed in seeds}
    missed = [
        _describe_missed(seed, outcome, near[TryJob(_without_filter(x), seed)])
        for seed, outcome in outcomes.items()
        if not outcome.peak_converged
    ]
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    return {
        "count": x.count,
        "motion_sigma": x.motion,
        "resampling_sigma": x.resampling,
        "multiplier": x.multiplier,
        "keeps_spread": x.keeps_covariance,
        "both_branches": x.both_branches,
        "step": x.step,
        "readings": x.steps,
        "tries": tries,
        "converged": tries - len(missed),
        "converged_mean": sum(outcome.converged for outcome in outcomes.values()),
        "seconds": seconds,
        "of_real_time": seconds / (tries * x.steps * x.step),
        "missed": missed,
        "unobservable": sum(not miss["observable"] for miss in missed),
    }


def _describe_missed(seed: int, outcome: Outcome, near: float) -> dict[str, Any]:
    return {
        "seed": seed,
        "start": outcome.start,
        "branch": outcome.branch,
        "error": outcome.peak_error,
        "deviation": outcome.deviation,
        "posterior_near": near,
        "observable": near >= SURE,
    }


def sweep(
    todo: Mapping[str, Sequence[Experiment]],
    tries: int,
    executor: Executor,
    ledger: Ledger[TryJob],
    progress: Callable[[float], None],
    explaining: Callable[[float], None] = lambda _: None,
) -> dict[str, list[dict[str, Any]]]:
    """`sweeps` of `vehicled bench particles --json`, by the quantity that is varied.

    `progress` receives the number of new tries made, `explaining` the number of missed tries with a
    calculated exact posterior.
    """
    jobs = _list_jobs(todo, tries)
    run_resumable(run_try, jobs, executor, progress, ledger)
    missed = _list_missed(jobs, ledger)
    near = run_jobs(find_mass_near, missed, executor, explaining)
    return _tabulate(todo, tries, ledger, dict(zip(missed, near, strict=True)))
