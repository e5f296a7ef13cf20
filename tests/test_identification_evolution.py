"""Minimisation without derivatives."""

import numpy as np
import pytest

from vehicled.identification.evolution import minimise


def test_a_badly_scaled_quadratic_function_is_minimised():
    scales = np.logspace(0.0, 3.0, 8)
    wanted = np.linspace(-1.0, 1.0, 8)
    counts: list[int] = []
    best = minimise(
        lambda x: float(np.sum(scales * (x - wanted) ** 2)),
        np.zeros(8),
        0.5,
        4000,
        np.random.default_rng(0),
        counts.append,
    )
    assert best == pytest.approx(wanted, abs=1e-4)
    assert counts == sorted(counts)
    assert 4000 <= counts[-1] < 4020


def test_a_rounded_function_that_is_infinite_in_places_is_minimised():
    """Rounding hides the gradient, and the function is infinite in a part of the space."""

    def rough(x: np.ndarray) -> float:
        return np.inf if x[0] > 1.0 else float(np.round(np.log10(1e-9 + np.sum((x - 0.9) ** 2)), 2))

    random = np.random.default_rng(1)
    best = minimise(rough, np.full(5, -2.0), 0.5, 2000, random)
    assert best == pytest.approx(0.9, abs=1e-2)


def test_the_result_is_never_worse_than_the_start():
    start = np.ones(3)
    best = minimise(
        lambda x: 0.0 if np.array_equal(x, start) else 1.0, start, 0.5, 30, np.random.default_rng(0)
    )
    assert np.array_equal(best, start)
