"""Resampling, log-weights and circular statistics of the particle filter."""

import numpy as np
import pytest
from scipy.stats import chi2

from vehicled.maths.angles import wrap
from vehicled.particles.resampling import RESAMPLERS
from vehicled.particles.weights import (
    circular_deviation,
    circular_mean,
    circular_mode,
    effective_fraction,
    normalised,
)

WEIGHTS = np.array([0.31, 0.02, 0.0, 0.17, 0.05, 0.25, 0.2])


def counts(name, weights, tries, seed=3):
    random = np.random.default_rng(seed)
    draw = RESAMPLERS[name]
    return np.array([np.bincount(draw(weights, random), minlength=len(weights)) for _ in range(tries)])


@pytest.mark.parametrize("name", RESAMPLERS)
def test_each_particle_is_drawn_in_proportion_to_its_weight(name):
    drawn = counts(name, WEIGHTS, 3000)
    assert np.all(drawn.sum(axis=1) == len(WEIGHTS))
    expected = 3000 * len(WEIGHTS) * WEIGHTS
    some = expected > 0.0
    assert not drawn[:, ~some].any()
    # The bound is that of multinomial counts; counts of the other schemes spread less.
    statistic = np.sum((drawn.sum(axis=0) - expected)[some] ** 2 / expected[some])
    assert statistic < chi2.ppf(0.999, some.sum() - 1)


def test_schemes_spread_less_than_independent_draws():
    spread = {name: counts(name, WEIGHTS, 3000).var(axis=0).sum() for name in RESAMPLERS}
    n = len(WEIGHTS)
    assert spread["multinomial"] == pytest.approx(np.sum(n * WEIGHTS * (1.0 - WEIGHTS)), rel=0.1)
    assert (
        max(spread[name] for name in ("systematic", "stratified", "residual")) < 0.6 * spread["multinomial"]
    )


def test_systematic_resampling_rounds_each_share_down_or_up():
    drawn = counts("systematic", WEIGHTS, 500)
    shares = len(WEIGHTS) * WEIGHTS
    assert np.all(drawn >= np.floor(shares))
    assert np.all(drawn <= np.ceil(shares))


@pytest.mark.parametrize("name", ["systematic", "stratified", "residual"])
def test_equal_weights_keep_every_particle(name):
    drawn = RESAMPLERS[name](np.full(8, 0.125), np.random.default_rng(1))
    assert drawn.tolist() == list(range(8))


@pytest.mark.parametrize("name", RESAMPLERS)
def test_a_particle_with_all_the_weight_is_always_drawn(name):
    assert set(RESAMPLERS[name](np.array([0.0, 0.0, 1.0, 0.0]), np.random.default_rng(1))) == {2}


def test_effective_sample_size_by_hand():
    assert effective_fraction(np.full(5, 0.2)) == pytest.approx(1.0)
    assert effective_fraction(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    # (3 + 1)² / (2 · (9 + 1))
    assert effective_fraction(np.array([3.0, 1.0])) == pytest.approx(0.8)


def test_log_weights_of_any_size_are_normalised():
    assert normalised(np.array([-5000.0, -5000.0 + np.log(3.0)])) == pytest.approx([0.25, 0.75])
    assert normalised(np.array([-np.inf, 900.0])).tolist() == [0.0, 1.0]
    with pytest.raises(FloatingPointError):
        normalised(np.full(3, -np.inf))


def test_circular_mean_of_angles_on_both_sides_of_half_a_turn():
    angles = np.radians([170.0, -170.0, -150.0])
    equal = np.full(3, 1.0 / 3.0)
    assert abs(np.degrees(wrap(circular_mean(angles[:2], np.full(2, 0.5)) - np.pi))) < 1e-9
    turned = circular_mean(angles + 2.0, equal)
    assert wrap(turned - circular_mean(angles, equal) - 2.0) == pytest.approx(0.0, abs=1e-12)


def test_circular_deviation_of_a_wrapped_normal():
    angles = 0.4 * np.random.default_rng(2).standard_normal(20_000) + np.pi
    assert circular_deviation(wrap(angles), np.full(20_000, 1.0)) == pytest.approx(0.4, rel=0.02)


def test_the_mode_is_at_the_larger_of_two_clusters_and_the_mean_at_neither():
    random = np.random.default_rng(2)
    angles = wrap(
        np.concatenate((np.pi + 0.05 * random.standard_normal(700), 1.0 + 0.05 * random.standard_normal(300)))
    )
    equal = np.full(1000, 1e-3)
    assert abs(wrap(circular_mode(angles, equal) - np.pi)) < 0.01
    assert abs(wrap(circular_mean(angles, equal) - np.pi)) > 0.3
    # By weight, not by number.
    heavy = np.where(np.abs(angles - 1.0) < 0.5, 4.0, 1.0)
    assert circular_mode(angles, heavy / heavy.sum()) == pytest.approx(1.0, abs=0.01)
