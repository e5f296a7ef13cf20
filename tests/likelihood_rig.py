"""A check of filters that estimate their noise by maximum likelihood."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def check_score(run: Callable[[np.ndarray], Any], logs: np.ndarray, rel: float = 1e-5) -> None:
    """The score equals the derivative of the log-likelihood by central differences of whole runs.

    `run`: takes logarithms (m,) of noise, which stay fixed, and returns a filter after the same readings, with
    `noise` and `log_likelihood`.
    """
    score, information = run(logs).noise.window.calc_score()
    for k in range(len(logs)):
        away = np.zeros(len(logs))
        away[k] = 1e-4
        slope = (run(logs + away).log_likelihood - run(logs - away).log_likelihood) / 2e-4
        assert score[k] == pytest.approx(slope, rel=rel)
    assert np.linalg.eigvalsh(information).min() > 0.0
