"""Most probable noise of sensors and model from drives, within the time that the drives themselves took.

The search begins with the noise that the drives show directly (`adapted.py`), so that even grossly wrong
settings do not matter. A few passes with derivatives follow; settings that the drives do not determine are
left out after the first. The Gauss–Newton step is one of the variances, σ² (1 + 2 δ) for a step δ of ln σ:
covariances of innovations are linear in them, and for a variance that is far too large, δ is near −½. A pass
without derivatives, which takes a quarter of the work or less, shows whether a step improves the criterion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from vehicled.configuration import File
from vehicled.errors import RunError
from vehicled.identification.vehicle.estimate import (
    SETTLED,
    Drives,
    FitResult,
    FoundParameter,
    ParameterCombination,
    Progress,
    Search,
    leave_unknown,
    make_result,
)
from vehicled.identification.vehicle.names import Parameter
from vehicled.identification.vehicle.noise import OF_SENSORS
from vehicled.identification.vehicle.prediction_error import Derivatives
from vehicled.jobs.interface import SharingExecutor

_PASSES = 3
"""Number of passes with derivatives."""
_TRIALS = 2
"""Number of trials of a step; the second one is shorter."""
_LEAST_OF_MODEL = math.log(0.5)
"""Least logarithm of the ratio of model noise to the file's: drives on which the model is right most of the
time are best explained by far less noise, and the seconds in which it is wrong, for example when the car
starts, by far more."""
_LARGEST_STEP = 0.8
"""Largest change of the logarithm of a standard deviation: after larger steps, other settings compensate for
those that went too far."""


def tune(
    file: File,
    text: str,
    parameters: Sequence[Parameter],
    drives: Drives,
    progress: Progress,
    start: np.ndarray,
    unexcited: Mapping[str, str],
    executor: SharingExecutor | None = None,
) -> FitResult:
    """Estimate noise of a configuration (with its defaults written out) from drives, on an executor if given.

    `start`: (p,) logarithms of the first values over those of the file; `unexcited`: settings that keep their
    values from the file, with the reason. Raises RunError if the filter does not start on one of the drives.
    """
    f = Search(file, text, parameters, (), drives, progress, executor)
    free = np.array([p.name not in unexcited for p in parameters])
    reasons, combinations = dict(unexcited), list[ParameterCombination]()
    least = np.array([-np.inf if p.name in OF_SENSORS else _LEAST_OF_MODEL for p in parameters])
    f.theta = np.where(free, np.maximum(start, least), 0.0)
    try:
        derivatives = _differentiate(f, free)
    except RunError:  # the filter diverges with the start values
        f.theta[:] = 0.0
        derivatives = _differentiate(f, free)
    excited = free.copy()
    leave_unknown(f, derivatives, free, reasons, combinations)
    derivatives = derivatives.of(np.flatnonzero(free[excited]).tolist())
    if np.any(f.theta[~free]):
        f.theta[~free] = 0.0
        f.best = _calc_cost(f, f.theta)
    for _ in range(_PASSES - 1):
        if not free.any() or not _step(f, derivatives, free, least):
            break
        derivatives = _differentiate(f, free)
    else:
        _step(f, derivatives, free, least)
    return make_result(f, derivatives, free, reasons, combinations)


def describe_bounds(found: Sequence[FoundParameter]) -> list[str]:
    """A line about model noise that ended at its least allowed value, if there is any."""
    least = math.exp(_LEAST_OF_MODEL)
    names = [
        f.parameter.name
        for f in found
        if f.identified and f.parameter.name not in OF_SENSORS and f.value <= f.prior * least * (1.0 + 1e-9)
    ]
    if not names:
        return []
    return [
        f"{', '.join(names)}: the drives show less, but noise of the model stays at {least:.3g} of the file's or more"
        " (tune the result again for less)"
    ]


def _differentiate(f: Search, free: np.ndarray) -> Derivatives:
    error, derivatives = f.evaluate(f.theta, free)
    f.redundancy = f.find_redundancy(derivatives)
    f.best = f.cost(f.theta, error)
    return derivatives


def _calc_cost(f: Search, theta: np.ndarray) -> float:
    error = f.measure(theta)
    return np.inf if error is None else f.cost(theta, error)


def _step(f: Search, derivatives: Derivatives, free: np.ndarray, least: np.ndarray) -> bool:
    """Step the free parameters, not below (p,) `least`; False if no improvement is found or expected."""
    prior, damping = 1.0 / f.sigma[free] ** 2, 0.0
    matrix = derivatives.information / f.redundancy + np.diag(prior)
    gradient = derivatives.gradient / f.redundancy + f.theta[free] * prior
    for _ in range(_TRIALS):
        step = -np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), gradient)
        if -0.5 * gradient @ step < SETTLED / (1.0 + damping):
            return False
        smallest = np.exp(-2.0 * _LARGEST_STEP)
        trial = f.theta.copy()
        trial[free] += np.minimum(0.5 * np.log(np.maximum(1.0 + 2.0 * step, smallest)), _LARGEST_STEP)
        trial[free] = np.maximum(trial[free], least[free])
        cost = _calc_cost(f, trial)
        if cost < f.best:
            f.theta, f.best = trial, cost
            return True
        damping = max(10.0 * damping, 2.0)
    return False
