"""How fast particles advance, and how often the particle filter finds a four-bar linkage that starts anywhere.

The experiment is the source's: the linkage is released from rest at a random crank angle, which the particles do not
know; they start anywhere it could be, and have a gyroscope on the crank. A try has converged when the estimate of the
crank's angle is within 5° of the truth after 1.020 s. The estimate is the circular mean of the heaviest cluster; how
often that of all particles is as near, which lies between clusters while there are several, is told beside.

Of each try that is missed it is asked what the readings say at all: `find_posterior`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.studies.benchmarks.ledger import Ledger
from vehicled.studies.benchmarks.timing import collector_off
from vehicled.studies.particles import four_bar
from vehicled.studies.particles.filter import Noise, ParticleFilter
from vehicled.studies.particles.instruments import AngularRate
from vehicled.studies.particles.swarm import Swarm
from vehicled.studies.particles.weights import circular_deviation, normalised, wrapped

CRANK = "crank"
STEP = 6e-3
"""s"""
TOLERANCE = np.radians(5.0)
COUNTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
SIGMAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""rad"""
TIMED = (100, 1000, 10_000, 100_000, 1_000_000)
USUAL = 10_000
"""Particles that are to keep up with real time; the figure without its count is theirs."""
_BYTES = 600
"""Of memory for a particle, temporary arrays of its step included."""
_TIMED_FOR = 2_000_000
"""Particle steps of each kind per count, at least ten steps."""


@dataclass(frozen=True)
class Experiment:
    """What a try consists of; the defaults are the source's."""

    lengths: tuple[float, float, float, float] = (2.0, 4.0, 3.0, 4.0)
    count: int = 200
    motion: float = 0.02
    """rad, standard deviation of the noise of the crank's angle, in every step"""
    resampling: float = 0.02
    """rad/s, of the crank's speed after every drawing"""
    gyroscope: float = 0.01
    """rad/s"""
    multiplier: float = 10.0
    """Times the gyroscope's noise is what the filter takes for it."""
    steps: int = 170
    keeps_spread: bool = False
    """Whether the noise of motion leaves the swarm as wide as it is, or lets every particle wander."""
    both_branches: bool = False
    """Whether linkage and particles may be assembled either way, or one way only."""


SETTLED = Experiment(count=500, motion=0.01, resampling=0.0, multiplier=2.0, keeps_spread=True)
"""What converges wherever the readings allow it. The source's filter trusts its gyroscope so little that starts look
alike which are not; its noise after every drawing drowns what the speeds have told; and its noise of motion, added up
over a second, lets the particles of a rival start wander to where they read what the truth reads, however many they
are and however well they are weighed (`WANDERING`, `NUMEROUS`)."""
WANDERING = replace(SETTLED, resampling=0.005, keeps_spread=False)
NUMEROUS = replace(SETTLED, count=10_000, multiplier=1.0, keeps_spread=False)
"""Nearly the exact filter for a linkage that is jolted by so much in every step."""
SETTLED_SIGMAS = (0.01, 0.015, 0.02)
FIRST_SEED = 5000
"""Of the tries that are reported. `SETTLED` was found on the seeds from 1000 to 1299, and left as it was then."""


@dataclass(frozen=True)
class Outcome:
    """How a try ended."""

    error: float
    """rad, of the crank's angle by the particles' circular mean"""
    peak_error: float
    """rad, by the heaviest cluster's circular mean, which is the estimate"""
    deviation: float
    """rad, circular standard deviation of the particles: what the filter itself says of the error"""
    start: float
    """rad, where it was released"""
    branch: float
    seconds: float
    """Of processor time, of the particles alone."""

    @property
    def converged(self) -> bool:
        return bool(abs(self.error) <= TOLERANCE)

    @property
    def peak_converged(self) -> bool:
        return bool(abs(self.peak_error) <= TOLERANCE)


class Try:
    """One linkage that is released, and the filter that looks for it. Reproduced by its seed."""

    def __init__(self, experiment: Experiment, seed: int):
        self.experiment = experiment
        # The readings are the same for any filter.
        x, (plant, random) = experiment, np.random.default_rng(seed).spawn(2)
        description = four_bar.describe(x.lengths)
        self.truth, self.swarm = Swarm(description, 1), Swarm(description, x.count, [CRANK])
        self.start, self.branch = (float(x[0]) for x in _release(self.truth, experiment, plant))
        _release(self.swarm, experiment, random)
        gyroscope = AngularRate(CRANK, x.gyroscope, x.multiplier)
        noise = Noise(motion=x.motion, resampling=x.resampling, keeps_spread=x.keeps_spread)
        self.filter = ParticleFilter(self.swarm, [gyroscope], noise, random)
        self._plant = plant
        self.readings: list[float] = []
        """rad/s"""
        self.seconds = 0.0

    @property
    def angle(self) -> float:
        """Of the true crank, rad."""
        return float(self.truth.get_angles(CRANK)[0])

    def read(self) -> float:
        """The linkage goes on by a step; what the gyroscope reads there, rad/s."""
        self.truth.advance(STEP)
        rate = self.truth.get_rates(CRANK)[0] + self.experiment.gyroscope * self._plant.standard_normal()
        self.readings.append(float(rate))
        return self.readings[-1]

    def step(self) -> None:
        reading = self.read()
        begin = time.process_time()
        self.filter.step(STEP, [reading])
        self.seconds += time.process_time() - begin

    def run(self) -> Outcome:
        for _ in range(self.experiment.steps):
            self.step()
        error = float(wrapped(self.filter.estimate_angle(CRANK) - self.angle))
        peak_error = float(wrapped(self.filter.find_peak(CRANK) - self.angle))
        deviation = circular_deviation(self.swarm.get_angles(CRANK), self.filter.weights)
        return Outcome(error, peak_error, deviation, self.start, self.branch, self.seconds)


def _release(swarm: Swarm, x: Experiment, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """All particles at rest, anywhere the linkage could be: (N,) angles and branches."""
    angles = four_bar.random_angles(x.lengths, swarm.count, random)
    branches = np.ones(swarm.count)
    if x.both_branches:
        branches = four_bar.random_branches(swarm.count, random)
    swarm.set_states(*four_bar.assemble(x.lengths, angles, branches))
    return angles, branches


def bench_costs(
    progress: Callable[[float], None], counts: Sequence[int] = TIMED, effort: int = _TIMED_FOR
) -> list[dict[str, float]]:
    """`costs` of `vehicled bench particles --json`: a row for each count, medians over steps of processor time, µs.

    `step` is a whole step of the filter (noise, reading and, where it has to be, drawing included), `drawing` one
    that draws in any case, `keeping` one whose noise keeps the spread, `advance` the motion alone with projection.
    `ratio` compares a step's cost with that at the count where it is least. Counts that the memory does not hold are
    left out.
    """
    rows: list[dict[str, float]] = []
    clock = time.process_time_ns
    with collector_off():
        for n, count in enumerate(counts):
            if count * _BYTES > os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
                continue
            trial = Try(Experiment(count=count), seed=1)
            kinds = {"step": (0.5, False), "drawing": (2.0, False), "keeping": (0.5, True)}
            times: dict[str, list[int]] = {kind: [] for kind in ("advance", *kinds)}
            for _ in range(max(10, effort // count)):
                begin = clock()
                trial.swarm.advance(STEP)
                times["advance"].append(clock() - begin)
                for kind, (trial.filter.threshold, trial.filter.noise.keeps_spread) in kinds.items():
                    reading = float(np.median(trial.swarm.get_rates(CRANK)[:1001]))
                    begin = clock()
                    trial.filter.step(STEP, [reading])
                    times[kind].append(clock() - begin)
            row = {kind: float(np.median(t)) * 1e-3 / count for kind, t in times.items()}
            rows.append({"count": count, **row})
            progress(n + 1)
    least = min(row["step"] for row in rows)
    return [{**row, "ratio": row["step"] / least} for row in rows]


def open_ledger(path: Path | None) -> Ledger[str]:
    """Tries that have been made. Raises UsageError for a file of something else."""

    def name(row: dict[str, Any]) -> str:
        Outcome(**row["outcome"])
        return str(row["try"])

    return Ledger(path, name, "a try of an earlier sweep")


def run_try(experiment: Experiment, seed: int, ledger: Ledger[str]) -> Outcome:
    """What came of this try, now or earlier."""
    name = f"{seed} {json.dumps(asdict(experiment))}"
    if ledger.missing([name]):
        ledger.enter({"try": name, "outcome": asdict(Try(experiment, seed).run())})
    return Outcome(**ledger[name]["outcome"])


@dataclass(frozen=True)
class Rivals:
    """Of each start the most alike one that ends elsewhere: (n,) each, on a grid over angles and branches."""

    start: np.ndarray
    """rad"""
    branch: np.ndarray
    rates: np.ndarray
    """(steps, n) rad/s, what a gyroscope without noise reads"""
    rival: np.ndarray
    """Index of the most alike start that ends more than 5° elsewhere."""
    distance: np.ndarray
    """√Σ (ω − ω_rival)² / σ, σ of the gyroscope alone: the standard deviations that tell the two apart."""

    def share_below(self, distance: float) -> float:
        """Of all starts, how many have a rival nearer than this."""
        return float(np.mean(self.distance < distance))


def find_rivals(experiment: Experiment, per_turn: int = 720) -> Rivals:
    """Which starts a gyroscope cannot tell apart in the time of a try, whatever filter listens to it.

    Log-likelihoods of two starts differ by half the distance squared. A filter that takes the noise for k times as
    large sees a k-th of the distance.
    """
    x = experiment
    start, branch = _grid(x, per_turn)
    swarm = Swarm(four_bar.describe(x.lengths), len(start))
    swarm.set_states(*four_bar.assemble(x.lengths, start, branch))
    rates = np.empty((x.steps, len(start)))
    for row in rates:
        swarm.advance(STEP)
        row[:] = swarm.get_rates(CRANK)
    end = swarm.get_angles(CRANK)
    size = np.sum(rates**2, axis=0)
    squared = size[:, None] + size - 2.0 * rates.T @ rates
    squared[np.abs(wrapped(end[:, None] - end)) <= TOLERANCE] = np.inf
    rival = np.argmin(squared, axis=1)
    distance = np.linalg.norm(rates - rates[:, rival], axis=0) / x.gyroscope
    distance[~np.isfinite(np.min(squared, axis=1))] = np.inf
    return Rivals(start, branch, rates, rival, distance)


@dataclass(frozen=True)
class Posterior:
    """What the readings of a try say of where it was released: exactly, without particles or noise of motion."""

    start: np.ndarray
    """(n,) rad"""
    branch: np.ndarray
    end: np.ndarray
    """(n,) rad, crank at the end of the try."""
    probability: np.ndarray
    """(n,) of sum 1."""
    truth: float
    """rad, where the crank is at the end."""

    @property
    def near(self) -> float:
        """Probability that the crank is within the tolerance of the truth."""
        return float(np.sum(self.probability[np.abs(wrapped(self.end - self.truth)) <= TOLERANCE]))


def find_posterior(experiment: Experiment, seed: int, per_turn: int = 3600, finer: int = 40) -> Posterior:
    """By Bayes' rule from all readings of a try: the likelihood of each start on a dense grid, which is made `finer`
    again where the likelihood is. The prior is that of the particles: at rest, anywhere and, where they may be
    assembled in two ways, either way; the noise is the gyroscope's."""
    trial = Try(replace(experiment, count=1), seed)
    readings = np.array([trial.read() for _ in range(experiment.steps)])
    start, branch = _grid(experiment, per_turn)
    log_likelihood, end = _likelihood(experiment, start, branch, readings)
    likely = np.flatnonzero(log_likelihood > np.max(log_likelihood) - _LIKELY)
    within = ((np.arange(finer) + 0.5) / finer - 0.5) * 2.0 * np.pi / per_turn
    start, branch = (start[likely, None] + within).ravel(), np.repeat(branch[likely], finer)
    # The ends of a rocker's travel lie between two starts of the grid: beyond them it cannot be.
    inside = np.any(
        [(start >= a) & (start <= b) for a, b in four_bar.input_ranges(experiment.lengths)], axis=0
    )
    full = four_bar.classify(experiment.lengths).turns_fully
    start, branch = (x if full else x[inside] for x in (start, branch))
    log_likelihood, end = _likelihood(experiment, start, branch, readings)
    return Posterior(start, branch, end, normalised(log_likelihood), trial.angle)


SURE = 0.95
"""Probability near the truth below which a try counts as unobservable: the exact answer is itself in doubt."""
_LIKELY = 200.0
"""Logarithm of how many times less likely than the best start of the grid one may be that is looked at closely: the
likelihood may be so narrow that all of the grid are on its flanks."""


def _grid(x: Experiment, per_turn: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and branches, (n,) each. The ends of a rocker's travel, where the branches meet, lie between two."""
    inside = []
    for a, b in four_bar.input_ranges(x.lengths):
        count = round((b - a) * per_turn / (2.0 * np.pi))
        inside.append(a + (np.arange(count) + 0.5) * (b - a) / count)
    branches = (1.0, -1.0) if x.both_branches else (1.0,)
    start = np.tile(np.concatenate(inside), len(branches))
    return start, np.repeat(branches, len(start) // len(branches))


def _likelihood(
    x: Experiment, start: np.ndarray, branch: np.ndarray, readings: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n,) logarithm of the likelihood of each start, and the crank's angle at the end."""
    swarm = Swarm(four_bar.describe(x.lengths), len(start))
    swarm.set_states(*four_bar.assemble(x.lengths, start, branch))
    total = np.zeros(len(start))
    for reading in readings:
        swarm.advance(STEP)
        total -= 0.5 * ((reading - swarm.get_rates(CRANK)) / x.gyroscope) ** 2
    return total, swarm.get_angles(CRANK)


def bench_rivals() -> list[dict[str, Any]]:
    """`rivals` of `vehicled bench particles --json`: shares of the starts that have one within 3 σ."""
    rows = []
    for both in (False, True):
        rivals = find_rivals(Experiment(both_branches=both))
        for multiplier in (1.0, SETTLED.multiplier, Experiment.multiplier):
            share = rivals.share_below(3.0 * multiplier)
            rows.append({"both_branches": both, "multiplier": multiplier, "share": share})
    return rows


def experiments(
    counts: Sequence[int] = COUNTS, sigmas: Sequence[float] = SIGMAS
) -> Iterator[tuple[str, Experiment]]:
    """The sweeps: (what is varied, experiment), the rest as in the source; then `SETTLED`, and for a
    linkage that may be assembled either way, and with particles that wander."""
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


def _describe_miss(experiment: Experiment, seed: int, outcome: Outcome) -> dict[str, Any]:
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
    """`sweeps` of `vehicled bench particles --json`, by what is varied; `progress` is told the tries made."""
    found: dict[str, list[dict[str, Any]]] = {}
    done = 0
    for varied, experiment in todo:
        outcomes = []
        for seed in range(FIRST_SEED, FIRST_SEED + tries):
            outcomes.append(run_try(experiment, seed, ledger))
            done += 1
            progress(done)
        missed = [
            _describe_miss(experiment, FIRST_SEED + k, x)
            for k, x in enumerate(outcomes)
            if not x.peak_converged
        ]
        row = {
            "count": experiment.count,
            "motion_sigma": experiment.motion,
            "resampling_sigma": experiment.resampling,
            "multiplier": experiment.multiplier,
            "keeps_spread": experiment.keeps_spread,
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
