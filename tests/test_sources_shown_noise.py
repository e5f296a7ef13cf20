"""White noise of a receiver's velocities beyond its claim."""

import cmath

import numpy as np
import pytest

from vehicled.sources.gnss.shown_noise import ShownNoise

CLAIMED = 0.02


def play(
    noise: float, rate: float = 50.0, seconds: float = 20.0, error=lambda t: 0j, seed: int = 2
) -> list[float]:
    """Factors over time for a receiver with white `noise`, m/s per axis; `error(t)`: additional deviation, m/s."""
    random, shown, factors = np.random.default_rng(seed), ShownNoise(), []
    for k in range(round(rate * seconds)):
        t = k / rate
        deviation = complex(*random.normal(0.0, noise, 2)) + error(t)
        shown.take(t, deviation, CLAIMED * shown.factor)
        factors.append(shown.factor)
    return factors


@pytest.mark.parametrize("seed", range(5))
def test_a_receiver_with_the_claimed_noise_gets_a_factor_of_one(seed):
    assert max(play(CLAIMED, seconds=120.0, seed=seed)) == 1.0


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_receiver_with_less_noise_than_claimed_gets_no_more_weight(share):
    assert set(play(share * CLAIMED)) == {1.0}


@pytest.mark.parametrize(
    ("factor", "rate", "within"), [(3.0, 50.0, 3.0), (5.0, 50.0, 4.0), (15.0, 50.0, 6.0), (5.0, 5.0, 40.0)]
)
def test_more_noise_is_found_within_seconds(factor, rate, within):
    found = play(factor * CLAIMED, rate, 3.0 * within)[round(within * rate) :]
    assert min(found) > 0.6 * factor
    assert max(found) < 1.5 * factor


def test_noise_that_is_over_is_forgotten():
    random, shown = np.random.default_rng(7), ShownNoise()
    for k in range(3000):
        noise = 0.2 if k < 500 else CLAIMED
        shown.take(0.02 * k, complex(*random.normal(0.0, noise, 2)), CLAIMED * shown.factor)
    assert shown.factor < 1.5


@pytest.mark.parametrize(
    "error",
    [
        lambda t: cmath.rect(1.0, 0.7 * t),  # of an estimate with a wrong heading, in a turn
        lambda t: 2.0 if t > 7.0 else 0.0,  # of a receiver that is spoofed
        lambda t: 0.3 * t,
    ],
)
def test_deviations_that_change_slowly_are_not_taken_for_noise(error):
    assert max(play(CLAIMED, error=error)) == 1.0


def test_velocities_a_second_apart_do_not_change_the_factor():
    assert set(play(10 * CLAIMED, rate=1.0, seconds=300.0)) == {1.0}
