"""Minimisation without derivatives, for functions that are not smooth because of rounding.

Evolution strategy with adaptation of a diagonal covariance (Ros and Hansen, "A simple modification in CMA-ES
achieving linear time and space complexity", 2008); constants as in Hansen, "The CMA evolution strategy: a
tutorial", 2016.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def minimise(
    function: Callable[[np.ndarray], float],
    start: np.ndarray,
    deviation: float,
    evaluations: int,
    random: np.random.Generator,
    progress: Callable[[int], None] = lambda _: None,
) -> np.ndarray:
    """The best x (n,) of about `evaluations` evaluations, including the start.

    `deviation`: standard deviation of the first samples in each direction. Infinite values are allowed: they
    are the worst. `progress` receives the number of evaluations done.
    """
    n = len(start)
    size = 4 + int(3 * np.log(n))
    weights = np.log(0.5 * (size + 1)) - np.log(np.arange(1, size // 2 + 1))
    weights /= weights.sum()
    effective = 1.0 / np.sum(weights**2)
    path_share = (effective + 2) / (n + effective + 5)
    damping = 1 + 2 * max(0.0, np.sqrt((effective - 1) / (n + 1)) - 1) + path_share
    rank_one_share = 4 / (n + 4)
    one = 2 / ((n + 1.3) ** 2 + effective) * (n + 2) / 3
    many = min(1 - one, (n + 2) / 3 * 2 * (effective - 2 + 1 / effective) / ((n + 2) ** 2 + effective))
    expected = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
    mean, variances = start.copy(), np.ones(n)
    path, rank_one = np.zeros(n), np.zeros(n)
    best, least = start, function(start)
    done = 1
    while done < evaluations:
        normal = random.normal(size=(size, n))
        steps = normal * np.sqrt(variances)
        values = np.array([function(mean + deviation * step) for step in steps])
        done += size
        progress(done)
        order = np.argsort(values, kind="stable")[: len(weights)]
        if values[order[0]] < least:
            least, best = float(values[order[0]]), mean + deviation * steps[order[0]]
        step = weights @ steps[order]
        mean = mean + deviation * step
        rate = np.sqrt(path_share * (2 - path_share) * effective)
        path = (1 - path_share) * path + rate * (weights @ normal[order])
        deviation *= float(np.exp(path_share / damping * (np.linalg.norm(path) / expected - 1)))
        rate = np.sqrt(rank_one_share * (2 - rank_one_share) * effective)
        rank_one = (1 - rank_one_share) * rank_one + rate * step
        variances = (1 - one - many) * variances + one * rank_one**2 + many * (weights @ steps[order] ** 2)
    return best
