"""Motions that excite all base parameters of a set: one for each of the source's sets, from several starts.

The criterion is the condition of W with its columns scaled to one, which does not depend on units. It is near
the inverse of the rounding error, so that it is not smooth and has no useful gradient: the search uses no
derivatives (`evolution`). As in the source, the wheels spin in one harmonic, and the other harmonics are
free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from vehicled.errors import RunError
from vehicled.identification import evolution
from vehicled.identification.excitation import FourierTrajectory, Ranges
from vehicled.jobs.run import run_jobs
from vehicled.studies.benchmarks.identify_sets import REJECTED, VALID
from vehicled.studies.benchmarks.identify_study import FREQUENCY, Effort, Study

PUBLISHED = dict(zip([*VALID, REJECTED], (1.13e12, 1.11e14, 9.55e13, 1.42e14, 1.21e19), strict=True))
"""Table 5.7, for another suspension of this topology."""
_REACH = np.array([0.08, 0.08, 25.0, 25.0, 0.06])
"""Amplitudes, m and rad, of travels, spins and rack; they cannot all be reached at once."""
_SPINS = [2, 3]
_HARMONICS = 5
_SAMPLES = 100
_DEVIATION = 0.3


@dataclass(frozen=True)
class MotionJob:
    """One search from one start."""

    name: str
    seed: int


@cache
def _make_study() -> Study:
    return Study(Effort(tries=0))


def find_motions(
    starts: int, evaluations: int, executor: Executor, progress: Callable[[float], None]
) -> list[dict[str, Any]]:
    """Rows by set: conditions of the random motions, of the best motion found, and the published condition.

    `progress` receives the number of completed searches.
    """
    jobs = [MotionJob(name, seed) for name in VALID for seed in range(starts)]
    found = run_jobs(partial(search, evaluations), jobs, executor, progress)
    rows = [_summarise(name, [row for row in found if row["set"] == name]) for name in VALID]
    # The invalid set is singular in any motion: its condition, due to rounding, is given for the best motion.
    best = min(rows, key=lambda row: float(row["condition"]))
    trajectory = _make_trajectory(np.array(best["coefficients"]))
    study = _make_study()
    w, _ = study.observe(trajectory, _SAMPLES)
    columns = w[..., study.get_independent(REJECTED)].reshape(-1, len(study.first.independent))
    rows.append(
        {
            "set": REJECTED,
            "condition": calc_scaled_condition(columns),
            "unscaled": float(np.linalg.cond(columns)),
            "published": PUBLISHED[REJECTED],
        }
    )
    return rows


def _summarise(name: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    best = min(found, key=lambda row: float(row["condition"]))
    drawn = sorted(row["drawn"] for row in found)
    return {
        **best,
        "drawn": drawn,
        "found": sorted(r["condition"] for r in found),
        "published": PUBLISHED[name],
    }


def search(evaluations: int, job: MotionJob) -> dict[str, Any]:
    """The best motion from one start, validated with twice as many samples."""
    study = _make_study()
    chosen = study.sets[job.name]
    random = np.random.default_rng(job.seed)

    def observe(coefficients: np.ndarray, samples: int) -> np.ndarray:
        w, _ = study.observe(_make_trajectory(coefficients), samples)
        return chosen.reduce(w[..., : study.inertial]).reshape(-1, len(chosen.independent))

    def calc(coefficients: np.ndarray) -> float:
        try:
            return float(np.log10(calc_scaled_condition(observe(coefficients, _SAMPLES))))
        except RunError:  # the mechanism has no such position
            return np.inf

    start = random.normal(size=6 * _HARMONICS)
    while not np.isfinite(calc(start)):
        start = random.normal(size=6 * _HARMONICS)
    best = evolution.minimise(calc, start, _DEVIATION, evaluations, random)
    w = observe(best, 2 * _SAMPLES)
    return {
        "set": job.name,
        "drawn": 10.0 ** calc(start),
        "condition": calc_scaled_condition(w),
        "unscaled": float(np.linalg.cond(w)),
        "coefficients": best.tolist(),
    }


def calc_scaled_condition(w: np.ndarray) -> float:
    """Condition of W (rows, r) with columns scaled to one."""
    return float(np.linalg.cond(w / np.linalg.norm(w, axis=0)))


def _make_trajectory(coefficients: np.ndarray) -> FourierTrajectory:
    """Trajectory from coefficients of travels and rack (30,), scaled so that the whole range is used."""
    centre = _make_study().ranges
    middle = 0.5 * (centre.low + centre.high)
    ranges = Ranges(middle - _REACH, middle + _REACH)
    values = np.zeros((2, len(middle), _HARMONICS))
    others = [k for k in range(len(middle)) if k not in _SPINS]
    values[:, others] = coefficients.reshape(2, len(others), _HARMONICS)
    values[0, _SPINS, 0] = 1.0
    trajectory = FourierTrajectory(FREQUENCY, middle, values)
    return trajectory.fit(ranges)
