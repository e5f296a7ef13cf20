"""Fixes that go another way than the car."""

import cmath
import math

import numpy as np
import pytest

from vehicled.sources.gnss.fix_jumps import FixJumps, PlacedFix

SECOND = 1_000_000_000


def play(
    rate: float,
    sigma,
    error,
    seconds: float = 8.0,
    speed: float = 15.0,
    turn: float = 0.3,
    late: float = 0.0,
    strays=lambda t: 0.0,
    followed: list[complex] | None = None,
):
    """Times (s) at which a receiver is in doubt that drives a circle; `error(t)`: of its fixes to the east, m.

    `sigma`: of fixes, m, a number or by time.

    The estimate is at the true place, or at that of `late` s ago, `strays(t)` m to the east of it. The gate accepts
    what is within 10 σ. `followed`: takes what is found at the end of a doubt.
    """
    random, jumps, doubtful = np.random.default_rng(3), FixJumps(), []
    radius = speed / turn
    for k in range(round(seconds * rate)):
        t = k / rate
        s = sigma(t) if callable(sigma) else sigma
        noise = s * random.standard_normal(2)
        true = np.array([radius * math.sin(turn * t), radius * (1 - math.cos(turn * t))])
        behind = np.array([radius * math.sin(turn * (t - late)), radius * (1 - math.cos(turn * (t - late)))])
        place = true + noise + (error(t), 0.0)
        apart = place - behind - (strays(t), 0.0)
        fix = PlacedFix(complex(*place), complex(*apart), s, speed, cmath.rect(speed, turn * t))
        found = jumps.take(round(t * SECOND), fix, bool(np.abs(apart).max() < 10 * s))
        if followed is not None and found:
            followed.append(found)
        if jumps.is_in_doubt(round(t * SECOND)):
            doubtful.append(t)
    return doubtful


@pytest.mark.parametrize(("rate", "sigma"), [(50.0, 0.02), (5.0, 1.0), (1.0, 0.02), (10.0, 0.3)])
def test_a_healthy_receiver_is_not_in_doubt(rate, sigma):
    assert play(rate, sigma, lambda t: 0.0, 60.0) == []


@pytest.mark.parametrize("error", [0.0, 1.5])
def test_nor_is_one_that_becomes_precise_and_is_so_no_more(error):
    def is_fixed(t: float) -> bool:
        return 15.0 < t < 30.0

    def sigma(t: float) -> float:
        return 0.02 if is_fixed(t) else 1.5

    assert play(10.0, sigma, lambda t: 0.0 if is_fixed(t) else error, 45.0) == []


def test_fixes_that_become_precise_are_not_held_against_vague_ones_that_were_off():
    """As of a receiver behind a tunnel: it claims 0.5 m and is 3.3 m off, which the estimate has followed."""

    def is_vague(t: float) -> bool:
        return t < 10.0

    def error(t: float) -> float:
        return 3.3 if is_vague(t) else 0.0

    doubtful = play(10.0, lambda t: 0.5 if is_vague(t) else 0.05, error, 60.0, strays=lambda t: 3.3)
    assert max(doubtful, default=0.0) < 22.0


def test_a_drift_is_not_over_as_long_as_a_good_part_of_it_is_left():
    """Of 4 m that reflected signals make, at 1 m of σ: the estimate would follow them from there."""

    def error(t: float) -> float:
        return 4.0 * min(max(t - 10.0, 0.0) / 4.0, 1.0) - 0.1 * min(max(t - 20.0, 0.0), 14.0)

    doubtful = play(10.0, 1.0, error, 45.0)
    assert max(doubtful) > 30.0


@pytest.mark.parametrize("late", [-0.1, 0.1])
def test_nor_is_one_whose_times_are_wrong(late):
    assert play(50.0, 0.02, lambda t: 0.0, 30.0, late=late) == []


@pytest.mark.parametrize(("rate", "sigma"), [(50.0, 0.02), (5.0, 1.0)])
def test_a_jump_is_doubted_at_once_until_the_receiver_is_back(rate, sigma):
    doubtful = play(rate, sigma, lambda t: 100.0 if 3.0 <= t < 6.0 else 0.0)
    assert doubtful[0] == pytest.approx(3.0, abs=1.0 / rate)
    assert doubtful[-1] < 6.0 + 2.5


def test_a_slow_drift_is_doubted_beside_the_velocity():
    doubtful = play(50.0, 0.02, lambda t: 0.5 * max(t - 3.0, 0.0))
    assert 3.2 < doubtful[0] < 4.2


@pytest.mark.parametrize("drift", [0.3, 0.5, 2.0])
def test_a_drift_is_doubted_before_half_a_second_of_rejections(drift):
    """Rejected from 0.2 m on; the policy moves the estimate after 25 of them."""
    doubtful = play(50.0, 0.02, lambda t: drift * max(t - 3.0, 0.0))
    assert doubtful[0] < 3.0 + 0.2 / drift + 0.5


@pytest.mark.parametrize("late", [0.0, 0.1])
@pytest.mark.parametrize("drift", [0.3, 2.0])
def test_an_estimate_that_strays_from_fixes_and_velocity_does_not_make_them_doubtful(drift, late):
    assert play(50.0, 0.02, lambda t: 0.0, late=late, strays=lambda t: drift * max(t - 3.0, 0.0)) == []


def test_at_the_end_of_a_doubt_it_is_known_how_far_the_estimate_has_followed():
    """It follows the first 0.15 m of a drift that ends after three seconds."""
    followed = []
    moved = lambda t: 0.5 * max(t - 3.0, 0.0) if t < 6.0 else 0.0  # noqa: E731
    play(50.0, 0.02, moved, 12.0, strays=lambda t: min(moved(t), 0.15), followed=followed)
    assert len(followed) == 1
    assert followed[0] == pytest.approx(0.15, abs=0.1)


def test_after_an_outage_the_estimate_is_not_held_where_it_is():
    """0.5 m off, and still so after the receiver is back."""
    random, jumps = np.random.default_rng(3), FixJumps()
    for k in [*range(500), *range(2000, 2100)]:
        apart = 0.02 * random.standard_normal(2) + (0.5 if k >= 2000 else 0.0, 0.0)
        place = complex(0.3 * k + apart[0], apart[1])
        fix = PlacedFix(place, complex(*apart), 0.02, 15.0, 15.0 + 0j)
        jumps.take(k * SECOND // 50, fix, k < 2000)
        assert not jumps.is_in_doubt(k * SECOND // 50)


@pytest.mark.parametrize("back", [23.0, 200.0])
def test_one_that_has_drifted_is_doubted_until_it_is_back_for_a_minute_at_most(back):
    """It drifts for 10 s, to 5 m."""
    drifted = lambda t: 0.5 * min(max(t - 3.0, 0.0), 10.0) if t < back else 0.0  # noqa: E731
    doubtful = play(50.0, 0.02, drifted, 80.0)
    assert doubtful[0] < 4.2
    assert doubtful[-1] == pytest.approx(min(back + 2.0, doubtful[0] + 60.0), abs=2.1)
    assert len(doubtful) == pytest.approx(50.0 * (doubtful[-1] - doubtful[0]), abs=2)


@pytest.mark.parametrize("drift", [0.5, 1.0])
def test_a_receiver_without_a_carrier_drifts_by_less_than_single_fixes_show(drift):
    """White noise of 0.5 m: 3 and 6 m within 6 s."""
    # With a fix per second only the larger one shows.
    once = play(1.0, 0.5, lambda t: drift * min(max(t - 12.0, 0.0), 6.0), 30.0)
    assert bool(once) == (drift > 0.5)
    slowly = lambda t: drift * min(max(t - 12.0, 0.0), 6.0) if t < 30.0 else 0.0  # noqa: E731
    doubtful = play(5.0, 0.5, slowly, 50.0)
    assert 14.0 < doubtful[0] < 20.0
    assert 30.0 < doubtful[-1] < 41.0
    assert play(5.0, 0.5, lambda t: 0.3 * math.sin(0.05 * t), 200.0) == []


@pytest.mark.parametrize("rate", [1.0, 4.0])
def test_a_slow_receiver_in_a_bend_does_not_drift(rate):
    """Its velocity turns by 29° and 7° between two fixes."""
    assert play(rate, 0.02, lambda t: 0.0, 60.0, speed=20.0, turn=0.5) == []


@pytest.mark.parametrize("seed", [3, 5, 6, 15, 17, 18])
def test_bends_that_begin_between_two_fixes_are_no_drift(seed):
    """At any speed, a turning rate of up to 0.6 rad/s that changes all 1.5 s, with a fix per second."""
    random, jumps = np.random.default_rng(seed), FixJumps()
    times, fine = np.arange(0.0, 31.0, 1.5), 0.01
    rates, speed = random.uniform(-0.6, 0.6, len(times)), random.uniform(8.0, 16.0)
    place, heading = 0j, 0.0
    for k in range(30_00):
        t = k * fine
        if k % 100 == 0:
            jumps.take(round(t * SECOND), PlacedFix(place, 0j, 0.02, speed, cmath.rect(speed, heading)), True)
            assert not jumps.is_in_doubt(round(t * SECOND)), t
        heading += fine * np.interp(t, times, rates)
        place += cmath.rect(speed, heading) * fine


def test_a_receiver_that_stays_is_in_doubt_for_ten_seconds():
    doubtful = play(10.0, 0.02, lambda t: 100.0 if t >= 3.0 else 0.0, 20.0)
    assert doubtful[-1] == pytest.approx(13.0, abs=0.2)


@pytest.mark.parametrize(("expected", "is_doubted"), [(0.09, True), (2.0, False)])
def test_a_fix_after_a_pause_is_doubted_beside_an_estimate_that_is_certain(expected, is_doubted):
    """8 s at 15 m/s without fixes, then one 5 m off: the estimate may be so wrong only where it says so."""
    jumps = FixJumps()
    for k in range(200):
        t = 0.02 * k
        jumps.take(round(t * SECOND), PlacedFix(15.0 * t + 0j, 0j, 0.02, 15.0, 15.0 + 0j), True)
    t = 12.0
    jumps.take(
        round(t * SECOND), PlacedFix(15.0 * t + 5j, 5j, 0.02, 15.0, 15.0 + 0j, expected=expected), False
    )
    assert jumps.is_in_doubt(round(t * SECOND)) == is_doubted


def test_while_a_receiver_is_in_doubt_the_place_is_too():
    jumps = FixJumps()
    doubts = []
    for k in range(1000):
        t = 0.02 * k
        off = 100.0 if 8.0 <= t < 11.0 else 0.0
        apart = complex(off, 0.0)
        jumps.take(round(t * SECOND), PlacedFix(15.0 * t + apart, apart, 0.02, 15.0, 15.0 + 0j), not off)
        doubts.append(jumps.calc_doubt(round(t * SECOND)))
    assert set(doubts[:400]) == {0.0}
    # A share of the distance, but not of one that no car can be off by.
    assert 1.0 < min(doubts[410:550]) <= max(doubts[410:550]) < 2.0
    assert max(doubts[560:]) == 0.0
