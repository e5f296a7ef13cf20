"""Data of all particles in one try, over time: angles, weights, speeds, effective sample size."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vehicled.studies.benchmarks.particle_tries import CRANK, Experiment, Try, advance


@dataclass(frozen=True)
class Snapshot:
    """The particles with their weights after a reading, before any resampling."""

    t: float
    """s"""
    truth: float
    """rad"""
    reading: float
    """rad/s"""
    mean: float
    """rad, circular mean of all particles"""
    cluster: float
    """rad, circular mean of the heaviest cluster"""
    effective: float
    """Effective sample size as a share of the particles."""
    resampled: bool
    """Whether they are resampled afterwards."""
    angles: np.ndarray
    """(N,) rad"""
    weights: np.ndarray
    """(N,) of sum 1"""
    speeds: np.ndarray
    """(N,) rad/s"""


def trace(experiment: Experiment, seed: int) -> Iterator[Snapshot]:
    """Run a try, reading by reading; the same as `Try.run`."""
    trial = Try(experiment, seed)
    particles, swarm = trial.filter, trial.swarm
    for k in range(experiment.steps):
        reading = trial.read()
        particles.predict(advance(swarm, experiment.step, but=1))
        particles.weigh([reading])
        resampled = particles.effective < particles.threshold
        yield Snapshot(
            (k + 1) * experiment.step,
            trial.angle,
            reading,
            particles.estimate_angle(CRANK),
            particles.find_peak(CRANK),
            particles.effective,
            resampled,
            swarm.get_angles(CRANK),
            particles.weights.copy(),
            swarm.get_rates(CRANK),
        )
        if resampled:
            particles.resample()


_OF_RUN = ("truth", "reading", "mean", "cluster", "effective", "resampled")
_OF_PARTICLES = ("angles", "weights", "speeds")


def write_logs(directory: Path, settings: Mapping[str, Experiment], seed: int) -> None:
    """Write a folder for each setting: `run.csv`, and a column per particle in `angles.csv` and so on.

    Raises OSError.
    """
    for name, experiment in settings.items():
        folder = directory / name.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        snapshots = list(trace(experiment, seed))
        times = [f"{s.t:.6f}" for s in snapshots]
        _write(folder / "run.csv", _OF_RUN, times, [[getattr(s, k) for k in _OF_RUN] for s in snapshots])
        for kind in _OF_PARTICLES:
            columns = [str(k) for k in range(experiment.count)]
            _write(folder / f"{kind}.csv", columns, times, [getattr(s, kind) for s in snapshots])


def _write(path: Path, columns: Sequence[str], times: list[str], rows: Sequence[Iterable[float]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["t", *columns])
        writer.writerows([t, *(f"{x:.9g}" for x in row)] for t, row in zip(times, rows, strict=True))
