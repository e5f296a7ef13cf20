"""How fast particles advance, and how often the particle filter finds a four-bar linkage that starts anywhere.

The experiment is the source's: the linkage is released from rest at a random crank angle, which the particles do not
know; they start anywhere it could be, and have a gyroscope on the crank. A try has converged when the circular mean
of the crank's angle is within 5° of the truth after 1.020 s.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.benchmarks.timing import collector_off
from vehicled.errors import UsageError
from vehicled.observers.particles import four_bar
from vehicled.observers.particles.filter import Noise, ParticleFilter
from vehicled.observers.particles.instruments import AngularRate
from vehicled.observers.particles.swarm import Swarm
from vehicled.observers.particles.weights import circular_deviation, wrapped

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


SETTLED = Experiment(count=500, motion=0.01, resampling=0.005, multiplier=3.0)
"""What converges nearly always: the source's filter trusts its gyroscope so little that starts look alike which are
not, and its noise after every drawing drowns what the speeds have told. What is still missed, is missed by twenty
thousand particles as well: noise of motion in every step lets the particles of a rival start wander to where they
read what the truth reads, so that nothing but less of it tells them apart."""
SETTLED_SIGMAS = (0.01, 0.015, 0.02)


@dataclass(frozen=True)
class Outcome:
    """How a try ended."""

    error: float
    """rad, of the crank's angle by the particles' mean, the source's criterion"""
    peak_error: float
    """rad, where the particles lie densest"""
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
        x, random = experiment, np.random.default_rng(seed)
        description = four_bar.describe(x.lengths)
        self.truth, self.swarm = Swarm(description, 1), Swarm(description, x.count, [CRANK])
        for swarm in (self.truth, self.swarm):
            angles = four_bar.random_angles(x.lengths, swarm.count, random)
            branches = np.ones(swarm.count)
            if x.both_branches:
                branches = four_bar.random_branches(swarm.count, random)
            swarm.set_states(*four_bar.assemble(x.lengths, angles, branches))
            if swarm is self.truth:
                self.start, self.branch = float(angles[0]), float(branches[0])
        gyroscope = AngularRate(CRANK, x.gyroscope, x.multiplier)
        noise = Noise(motion=x.motion, resampling=x.resampling, keeps_spread=x.keeps_spread)
        self.filter = ParticleFilter(self.swarm, [gyroscope], noise, random)
        self._random = random
        self.seconds = 0.0

    @property
    def angle(self) -> float:
        """Of the true crank, rad."""
        return float(self.truth.get_angles(CRANK)[0])

    def step(self) -> None:
        self.truth.advance(STEP)
        reading = self.truth.get_rates(CRANK)[0] + self.experiment.gyroscope * self._random.standard_normal()
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


def bench_costs(
    progress: Callable[[float], None], counts: Sequence[int] = TIMED, effort: int = _TIMED_FOR
) -> list[dict[str, float]]:
    """`costs` of `vehicled bench particles --json`: a row for each count, medians over steps, µs.

    `step` is a whole step of the filter (noise, reading and, where it has to be, drawing included), `drawing` one
    that draws in any case, `advance` the motion alone with projection.
    """
    rows: list[dict[str, float]] = []
    clock = time.perf_counter_ns
    with collector_off():
        for n, count in enumerate(counts):
            trial = Try(Experiment(count=count), seed=1)
            times: dict[str, list[int]] = {"advance": [], "step": [], "drawing": []}
            for _ in range(max(10, effort // count)):
                begin = clock()
                trial.swarm.advance(STEP)
                times["advance"].append(clock() - begin)
                for kind, threshold in (("step", 0.5), ("drawing", 2.0)):
                    trial.filter.threshold = threshold
                    reading = float(np.median(trial.swarm.get_rates(CRANK)[:1001]))
                    begin = clock()
                    trial.filter.step(STEP, [reading])
                    times[kind].append(clock() - begin)
            row = {kind: float(np.median(t)) * 1e-3 / count for kind, t in times.items()}
            rows.append({"count": count, **row})
            progress(n + 1)
    return rows


class Ledger:
    """Tries that have been made, a line of JSON each in a file, so that an interrupted sweep goes on where it was."""

    def __init__(self, path: Path | None):
        """None keeps them for the run alone. Raises UsageError for a file of something else."""
        self._path = path
        self._known: dict[str, Outcome] = {}
        if path is None or not path.exists():
            return
        text = path.read_text()
        whole = text[: text.rfind("\n") + 1]
        for n, line in enumerate(whole.splitlines(), 1):
            try:
                entry = json.loads(line)
                self._known[entry["try"]] = Outcome(**entry["outcome"])
            except (ValueError, KeyError, TypeError):
                raise UsageError(f"{path}:{n}: expected a try of an earlier sweep") from None
        if whole != text:  # cut off while it was written
            path.write_text(whole)

    def run(self, experiment: Experiment, seed: int) -> Outcome:
        """What came of this try, now or earlier."""
        name = f"{seed} {json.dumps(asdict(experiment))}"
        if name not in self._known:
            outcome = self._known[name] = Try(experiment, seed).run()
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps({"try": name, "outcome": asdict(outcome)}) + "\n")
        return self._known[name]


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
    ranges = four_bar.input_ranges(x.lengths)
    # The ends of its travel, where the branches meet, lie between two starts.
    inside = [np.linspace(a, b, per_turn, endpoint=False) + 0.5 * (b - a) / per_turn for a, b in ranges]
    branches = (1.0, -1.0) if x.both_branches else (1.0,)
    start = np.tile(np.concatenate(inside), len(branches))
    branch = np.repeat(branches, len(start) // len(branches))
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
    """The sweeps: (what is varied, experiment), the rest as in the source; then `SETTLED`."""
    for count in counts:
        yield "count", Experiment(count=count)
    for sigma in sigmas:
        yield "motion", Experiment(motion=sigma)
    for sigma in SETTLED_SIGMAS:
        yield "settled", replace(SETTLED, motion=sigma)


def sweep(
    todo: Sequence[tuple[str, Experiment]], tries: int, ledger: Ledger, progress: Callable[[float], None]
) -> dict[str, list[dict[str, Any]]]:
    """`sweeps` of `vehicled bench particles --json`, by what is varied; `progress` is told the tries made."""
    found: dict[str, list[dict[str, Any]]] = {}
    done = 0
    for varied, experiment in todo:
        outcomes = []
        for seed in range(tries):
            outcomes.append(ledger.run(experiment, seed))
            done += 1
            progress(done)
        row = {
            "count": experiment.count,
            "motion_sigma": experiment.motion,
            "resampling_sigma": experiment.resampling,
            "multiplier": experiment.multiplier,
            "tries": tries,
            "converged": sum(x.converged for x in outcomes),
            "converged_peak": sum(x.peak_converged for x in outcomes),
            "seconds": sum(x.seconds for x in outcomes),
            "missed": [
                {
                    "seed": seed,
                    "start": x.start,
                    "branch": x.branch,
                    "error": x.error,
                    "deviation": x.deviation,
                }
                for seed, x in enumerate(outcomes)
                if not x.converged
            ],
        }
        found.setdefault(varied, []).append(row)
    return found
