"""Information in the readings of a try, independent of the filter.

Indistinguishable starts, and the exact posterior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vehicled.maths.angles import wrap
from vehicled.particles.swarm import Swarm
from vehicled.particles.weights import normalised
from vehicled.studies.benchmarks import four_bar
from vehicled.studies.benchmarks.particle_tries import CRANK, TOLERANCE, Experiment, Try, advance

SURE = 0.95
"""Probability near the truth below which a try counts as unobservable, as the exact posterior itself is ambiguous."""
_LIKELY = 200.0
"""Logarithm of the likelihood ratio to the best start of the grid up to which a start is refined: the
likelihood may be so narrow that the whole grid lies on its flanks."""


@dataclass(frozen=True)
class SimilarStarts:
    """For each start, the one with the most similar readings whose end is different.

    (n,) each, on a grid over angles and branches.
    """

    start: np.ndarray
    """rad"""
    branch: np.ndarray
    rates: np.ndarray
    """(steps, n) rad/s, what a gyroscope without noise reads"""
    nearest: np.ndarray
    """Index of the start with the most similar readings whose end differs by more than 5°."""
    distance: np.ndarray
    """√Σ (ω − ω_nearest)² / σ, with σ of the gyroscope only: difference of the readings in standard deviations."""

    def share_below(self, distance: float) -> float:
        """Share of the starts for which the distance is less than this."""
        return float(np.mean(self.distance < distance))


def find_similar_starts(experiment: Experiment, per_turn: int = 720) -> SimilarStarts:
    """Which starts a gyroscope cannot distinguish in the time of a try, for any filter.

    Log-likelihoods of two starts differ by half the distance squared. For a filter that assumes k times the noise,
    the distance is a k-th.
    """
    x = experiment
    start, branch = _grid(x, per_turn)
    swarm = Swarm(four_bar.describe(x.lengths), len(start))
    swarm.set_states(*four_bar.assemble(x.lengths, start, branch))
    rates = np.empty((x.steps, len(start)))
    for row in rates:
        advance(swarm, x.step)
        row[:] = swarm.get_rates(CRANK)
    end = swarm.get_angles(CRANK)
    size = np.sum(rates**2, axis=0)
    squared = size[:, None] + size - 2.0 * rates.T @ rates
    squared[np.abs(wrap(end[:, None] - end)) <= TOLERANCE] = np.inf
    nearest = np.argmin(squared, axis=1)
    distance = np.linalg.norm(rates - rates[:, nearest], axis=0) / x.gyroscope
    distance[~np.isfinite(np.min(squared, axis=1))] = np.inf
    return SimilarStarts(start, branch, rates, nearest, distance)


@dataclass(frozen=True)
class Posterior:
    """Posterior of the start of a try given its readings: exact, without particles or motion noise."""

    start: np.ndarray
    """(n,) rad"""
    branch: np.ndarray
    end: np.ndarray
    """(n,) rad, crank at the end of the try."""
    probability: np.ndarray
    """(n,) of sum 1."""
    truth: float
    """Angle of the crank at the end, rad."""

    @property
    def near(self) -> float:
        """Probability that the crank is within the tolerance of the truth."""
        return float(np.sum(self.probability[np.abs(wrap(self.end - self.truth)) <= TOLERANCE]))


def find_posterior(experiment: Experiment, seed: int, per_turn: int = 3600, finer: int = 40) -> Posterior:
    """Exact posterior by Bayes' rule from all readings of a try.

    The likelihood is calculated for each start on a dense grid, which is refined by `finer` where the
    likelihood is high. The prior is that of the particles: at rest at any angle and, if the linkage can be
    assembled in two ways, either way; the noise is the gyroscope's.
    """
    trial = Try(replace(experiment, count=1), seed)
    readings = np.array([trial.read() for _ in range(experiment.steps)])
    start, branch = _grid(experiment, per_turn)
    log_likelihood, end = _likelihood(experiment, start, branch, readings)
    likely = np.flatnonzero(log_likelihood > np.max(log_likelihood) - _LIKELY)
    within = ((np.arange(finer) + 0.5) / finer - 0.5) * 2.0 * np.pi / per_turn
    start, branch = (start[likely, None] + within).ravel(), np.repeat(branch[likely], finer)
    # The ends of a rocker's travel lie between two starts of the grid: angles beyond them are impossible.
    inside = np.any(
        [(start >= a) & (start <= b) for a, b in four_bar.input_ranges(experiment.lengths)], axis=0
    )
    full = four_bar.classify(experiment.lengths).turns_fully
    start, branch = (x if full else x[inside] for x in (start, branch))
    log_likelihood, end = _likelihood(experiment, start, branch, readings)
    return Posterior(start, branch, end, normalised(log_likelihood), trial.angle)


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
        advance(swarm, x.step)
        total -= 0.5 * ((reading - swarm.get_rates(CRANK)) / x.gyroscope) ** 2
    return total, swarm.get_angles(CRANK)
