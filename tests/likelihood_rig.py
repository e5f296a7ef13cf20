"""What a filter whose noise is found by likelihood must hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def check_score(run: Callable[[np.ndarray], Any], logs: np.ndarray, rel: float = 1e-5) -> None:
    """The score is the derivative of the likelihood, by central differences of whole filters.

    `run`: a filter of the same readings by logarithms (m,) that stay as they are, with `noise` and `log_likelihood`.
    """
    score, information = run(logs).noise.window.calc_score()
    for k in range(len(logs)):
        away = np.zeros(len(logs))
        away[k] = 1e-4
        slope = (run(logs + away).log_likelihood - run(logs - away).log_likelihood) / 2e-4
        assert score[k] == pytest.approx(slope, rel=rel)
    assert np.linalg.eigvalsh(information).min() > 0.0
