"""Fixes that go another way than the car."""

import math

import numpy as np
import pytest

from vehicled.sources.fix_jumps import FixJumps, PlacedFix

SECOND = 1_000_000_000


def play(
    rate: float,
    sigma: float,
    error,
    seconds: float = 8.0,
    speed: float = 15.0,
    turn: float = 0.3,
    late: float = 0.0,
):
    """Times (s) at which a receiver is in doubt that drives a circle; `error(t)`: of its fixes to the east, m.

    The estimate knows the true place, or that of `late` s ago. The gate accepts what is within 10 σ.
    """
    random, jumps, doubtful = np.random.default_rng(3), FixJumps(), []
    radius = speed / turn
    for k in range(round(seconds * rate)):
        t = k / rate
        noise = sigma * random.standard_normal(2)
        true = np.array([radius * math.sin(turn * t), radius * (1 - math.cos(turn * t))])
        behind = np.array([radius * math.sin(turn * (t - late)), radius * (1 - math.cos(turn * (t - late)))])
        place = true + noise + (error(t), 0.0)
        apart = place - behind
        fix = PlacedFix(tuple(place), tuple(apart), sigma, speed, math.pi / 2 - turn * t)
        jumps.take(round(t * SECOND), fix, bool(np.abs(apart).max() < 10 * sigma))
        if jumps.is_in_doubt(round(t * SECOND)):
            doubtful.append(t)
    return doubtful


@pytest.mark.parametrize(("rate", "sigma"), [(50.0, 0.02), (5.0, 1.0), (1.0, 0.02), (10.0, 0.3)])
def test_a_healthy_receiver_is_not_in_doubt(rate, sigma):
    assert play(rate, sigma, lambda t: 0.0, 60.0) == []


@pytest.mark.parametrize("late", [-0.1, 0.1])
def test_nor_is_one_whose_times_are_wrong(late):
    assert play(50.0, 0.02, lambda t: 0.0, 30.0, late=late) == []


@pytest.mark.parametrize(("rate", "sigma"), [(50.0, 0.02), (5.0, 1.0)])
def test_a_jump_is_doubted_at_once_until_the_receiver_is_back(rate, sigma):
    doubtful = play(rate, sigma, lambda t: 100.0 if 3.0 <= t < 6.0 else 0.0)
    assert doubtful[0] == pytest.approx(3.0, abs=1.0 / rate)
    assert doubtful[-1] < 6.0 + 1.5


def test_a_slow_drift_is_doubted_beside_the_velocity():
    doubtful = play(50.0, 0.02, lambda t: 0.5 * max(t - 3.0, 0.0))
    assert 3.2 < doubtful[0] < 4.2


def test_a_receiver_that_stays_is_in_doubt_for_ten_seconds():
    doubtful = play(10.0, 0.02, lambda t: 100.0 if t >= 3.0 else 0.0, 20.0)
    assert doubtful[-1] == pytest.approx(13.0, abs=0.2)
