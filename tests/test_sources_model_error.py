"""Variance that innovations show beyond what a filter expects, on drawn innovations."""

import numpy as np
import pytest

from vehicled.sources.model_error import ModelError

EXPECTED = 0.04
"""H P Hᵀ + R of a filter."""


def follow(error: ModelError, variance: float, samples: int, seed: int = 0) -> list[float]:
    """What is added after each of so many innovations of that variance, which the filter counts."""
    found = []
    for innovation in np.random.default_rng(seed).normal(0.0, np.sqrt(variance), samples):
        error.take(float(innovation), EXPECTED + error.variance)
        found.append(error.variance)
    return found


def test_what_is_added_makes_up_the_difference():
    found = follow(ModelError(), 1.0, 20_000)
    # Averages over 250 samples of a square with σ = √2 σ²: ±6 %; of 80 of these, ±1 %.
    assert np.mean(found[1000:]) == pytest.approx(1.0 - EXPECTED, abs=0.03)
    assert np.std(found[1000:]) == pytest.approx(np.sqrt(2 / 500), rel=0.3)


def test_nothing_is_added_where_innovations_are_as_expected_or_less():
    assert np.mean(follow(ModelError(), EXPECTED, 20_000)) < 0.05 * EXPECTED
    assert max(follow(ModelError(), 0.3 * EXPECTED, 20_000)[250:]) == 0.0


def test_it_follows_a_road_that_becomes_even_again():
    error = ModelError()
    follow(error, 1.0, 2000)
    assert follow(error, EXPECTED, 1500)[-1] < 0.02


def test_one_absurd_innovation_counts_as_five_standard_deviations():
    error = ModelError()
    error.take(1e6, EXPECTED)
    assert error.variance == pytest.approx(24 * EXPECTED / 250)
