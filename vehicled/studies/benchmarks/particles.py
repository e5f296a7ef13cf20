"""`vehicled bench particles`: the cost of a particle, and how often the particle filter finds the linkage.

For each missed try it is calculated whether the readings determine the state at all: `find_posterior`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.jobs.ledger import Ledger
from vehicled.studies.benchmarks.particle_ambiguity import SURE, find_posterior, find_similar_starts
from vehicled.studies.benchmarks.particle_tries import (
    CRANK,
    NUMEROUS,
    SETTLED,
    STEP,
    WANDERING,
    Experiment,
    Outcome,
    Try,
)
from vehicled.studies.benchmarks.timing import CallTimes, collector_off

COUNTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
SIGMAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""rad"""
TIMED = (100, 1000, 10_000, 100_000, 1_000_000)
USUAL = 10_000
"""Number of particles that must run in real time; `us_per_particle_step` is for this number."""
_BYTES = 600
"""Of memory for a particle, temporary arrays of its step included."""
_TIMED_FOR = 2_000_000
"""Particle steps of each kind per count, at least ten steps."""


SETTLED_SIGMAS = (0.01, 0.015, 0.02)
FIRST_SEED = 5000
"""Of the tries that are reported. `SETTLED` was found on the seeds from 1000 to 1299, and not changed since."""


def bench_costs(
    progress: Callable[[float], None], counts: Sequence[int] = TIMED, effort: int = _TIMED_FOR
) -> list[dict[str, float]]:
    """`costs` of `vehicled bench particles --json`: a row for each count, medians over steps of processor time, µs.

    `step` is a whole step of the filter (noise, reading and, where it is needed, resampling included), `drawing` one
    that resamples in any case, `keeping` one whose noise preserves the particles' covariance, `advance` the motion
    alone with projection.
    `ratio` compares a step's cost with that at the count where it is least. Counts that need more memory than there
    is are left out.
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


def open_ledger(path: Path | None) -> Ledger[str]:
    """The ledger of tries. Raises UsageError for a file of something else."""

    def name(row: dict[str, Any]) -> str:
        Outcome(**row["outcome"])
        return str(row["try"])

    return Ledger(path, name, "a try of an earlier sweep")


def run_try(experiment: Experiment, seed: int, ledger: Ledger[str]) -> Outcome:
    """The outcome of this try, made now or earlier."""
    name = f"{seed} {json.dumps(asdict(experiment))}"
    if ledger.missing([name]):
        ledger.enter({"try": name, "outcome": asdict(Try(experiment, seed).run())})
    return Outcome(**ledger[name]["outcome"])


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
) -> Iterator[tuple[str, Experiment]]:
    """The sweeps: (what is varied, experiment), the rest as in the source.

    Then `SETTLED`, the same for a linkage that may be assembled either way, and with noise that adds to the
    covariance.
    """
    for count in counts:
        yield "count", Experiment(count=count)
    for sigma in sigmas:
        yield "motion", Experiment(motion=sigma)
    for sigma in SETTLED_SIGMAS:
        yield "settled", replace(SETTLED, motion=sigma)
    for sigma in SETTLED_SIGMAS:
        yield "either_way", replace(SETTLED, motion=sigma, both_branches=True)
    for kind in (WANDERING, NUMEROUS):
        for sigma in SETTLED_SIGMAS:
            yield "wandering", replace(kind, motion=sigma)


def _describe_missed(experiment: Experiment, seed: int, outcome: Outcome) -> dict[str, Any]:
    # The readings do not depend on the filter.
    near = _mass_near(
        Experiment(
            experiment.lengths,
            gyroscope=experiment.gyroscope,
            steps=experiment.steps,
            both_branches=experiment.both_branches,
        ),
        seed,
    )
    return {
        "seed": seed,
        "start": outcome.start,
        "branch": outcome.branch,
        "error": outcome.peak_error,
        "deviation": outcome.deviation,
        "posterior_near": near,
        "observable": near >= SURE,
    }


@cache
def _mass_near(experiment: Experiment, seed: int) -> float:
    return find_posterior(experiment, seed).near


def sweep(
    todo: Sequence[tuple[str, Experiment]], tries: int, ledger: Ledger[str], progress: Callable[[float], None]
) -> dict[str, list[dict[str, Any]]]:
    """`sweeps` of `vehicled bench particles --json`, by what is varied; `progress` receives how many are made."""
    found: dict[str, list[dict[str, Any]]] = {}
    done = 0
    for varied, experiment in todo:
        outcomes = []
        for seed in range(FIRST_SEED, FIRST_SEED + tries):
            outcomes.append(run_try(experiment, seed, ledger))
            done += 1
            progress(done)
        missed = [
            _describe_missed(experiment, FIRST_SEED + k, x)
            for k, x in enumerate(outcomes)
            if not x.peak_converged
        ]
        row = {
            "count": experiment.count,
            "motion_sigma": experiment.motion,
            "resampling_sigma": experiment.resampling,
            "multiplier": experiment.multiplier,
            "keeps_spread": experiment.keeps_covariance,
            "both_branches": experiment.both_branches,
            "tries": tries,
            "converged": tries - len(missed),
            "converged_mean": sum(x.converged for x in outcomes),
            "seconds": sum(x.seconds for x in outcomes),
            "missed": missed,
            "unobservable": sum(not miss["observable"] for miss in missed),
        }
        found.setdefault(varied, []).append(row)
    return found
