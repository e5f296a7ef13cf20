"""Fixes that move otherwise than the car."""

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
    """Times (s) at which a receiver is in doubt on a circle.

    `error(t)`: error of its fixes to the east, m; `sigma`: of fixes, m, a number or a function of time. The
    estimate is `strays(t)` m to the east of the true place of `late` s ago. The gate accepts fixes within 10 σ.
    `followed`: list to which the result at the end of a doubt is added.
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
def test_a_receiver_that_is_precise_for_a_while_is_not_in_doubt(error):
    def is_fixed(t: float) -> bool:
        return 15.0 < t < 30.0

    def sigma(t: float) -> float:
        return 0.02 if is_fixed(t) else 1.5

    assert play(10.0, sigma, lambda t: 0.0 if is_fixed(t) else error, 45.0) == []


def test_precise_fixes_after_vague_wrong_ones_are_doubted_for_a_short_time_only():
    """As after a tunnel: the receiver claims 0.5 m of σ and is 3.3 m off, and the estimate has followed it."""

    def is_vague(t: float) -> bool:
        return t < 10.0

    def error(t: float) -> float:
        return 3.3 if is_vague(t) else 0.0

    doubtful = play(10.0, lambda t: 0.5 if is_vague(t) else 0.05, error, 60.0, strays=lambda t: 3.3)
    assert max(doubtful, default=0.0) < 22.0


def test_a_drift_is_doubted_while_a_good_part_of_it_is_left():
    """Reflected signals cause 4 m at 1 m of σ. Otherwise the estimate would follow the rest of the drift."""

    def error(t: float) -> float:
        return 4.0 * min(max(t - 10.0, 0.0) / 4.0, 1.0) - 0.1 * min(max(t - 20.0, 0.0), 14.0)

    doubtful = play(10.0, 1.0, error, 45.0)
    assert max(doubtful) > 30.0


@pytest.mark.parametrize("late", [-0.1, 0.1])
def test_a_receiver_with_wrong_times_is_not_in_doubt(late):
    assert play(50.0, 0.02, lambda t: 0.0, 30.0, late=late) == []


@pytest.mark.parametrize(("rate", "sigma"), [(50.0, 0.02), (5.0, 1.0)])
def test_a_jump_is_doubted_at_once_until_the_receiver_is_back(rate, sigma):
    doubtful = play(rate, sigma, lambda t: 100.0 if 3.0 <= t < 6.0 else 0.0)
    assert doubtful[0] == pytest.approx(3.0, abs=1.0 / rate)
    assert doubtful[-1] < 6.0 + 2.5


def test_a_slow_drift_is_found_by_the_velocity():
    doubtful = play(50.0, 0.02, lambda t: 0.5 * max(t - 3.0, 0.0))
    assert 3.2 < doubtful[0] < 4.2


@pytest.mark.parametrize("drift", [0.3, 0.5, 2.0])
def test_a_drift_is_doubted_before_half_a_second_of_rejections(drift):
    """Fixes are rejected from 0.2 m on. After 25 rejections, the policy would reset the estimate to them."""
    doubtful = play(50.0, 0.02, lambda t: drift * max(t - 3.0, 0.0))
    assert doubtful[0] < 3.0 + 0.2 / drift + 0.5


@pytest.mark.parametrize("late", [0.0, 0.1])
@pytest.mark.parametrize("drift", [0.3, 2.0])
def test_a_drift_of_the_estimate_does_not_put_the_receiver_in_doubt(drift, late):
    assert play(50.0, 0.02, lambda t: 0.0, late=late, strays=lambda t: drift * max(t - 3.0, 0.0)) == []


def test_the_end_of_a_doubt_tells_how_far_the_estimate_has_followed():
    """The estimate follows the first 0.15 m of a drift that ends after three seconds."""
    followed = []
    moved = lambda t: 0.5 * max(t - 3.0, 0.0) if t < 6.0 else 0.0  # noqa: E731
    play(50.0, 0.02, moved, 12.0, strays=lambda t: min(moved(t), 0.15), followed=followed)
    assert len(followed) == 1
    assert followed[0] == pytest.approx(0.15, abs=0.1)


def test_fixes_after_an_outage_are_not_doubted():
    """They are 0.5 m away from the estimate, and stay there."""
    random, jumps = np.random.default_rng(3), FixJumps()
    for k in [*range(500), *range(2000, 2100)]:
        apart = 0.02 * random.standard_normal(2) + (0.5 if k >= 2000 else 0.0, 0.0)
        place = complex(0.3 * k + apart[0], apart[1])
        fix = PlacedFix(place, complex(*apart), 0.02, 15.0, 15.0 + 0j)
        jumps.take(k * SECOND // 50, fix, k < 2000)
        assert not jumps.is_in_doubt(k * SECOND // 50)


@pytest.mark.parametrize("back", [23.0, 200.0])
def test_a_receiver_that_has_drifted_is_doubted_until_it_is_back_or_for_a_minute(back):
    """The receiver drifts for 10 s, to 5 m."""
    drifted = lambda t: 0.5 * min(max(t - 3.0, 0.0), 10.0) if t < back else 0.0  # noqa: E731
    doubtful = play(50.0, 0.02, drifted, 80.0)
    assert doubtful[0] < 4.2
    assert doubtful[-1] == pytest.approx(min(back + 2.0, doubtful[0] + 60.0), abs=2.1)
    assert len(doubtful) == pytest.approx(50.0 * (doubtful[-1] - doubtful[0]), abs=2)


@pytest.mark.parametrize("drift", [0.5, 1.0])
def test_a_drift_of_a_receiver_without_carrier_phase_is_found_within_its_noise(drift):
    """White noise of 0.5 m, and a drift of 3 or 6 m within 6 s."""
    # With one fix per second, only the larger drift is found.
    once = play(1.0, 0.5, lambda t: drift * min(max(t - 12.0, 0.0), 6.0), 30.0)
    assert bool(once) == (drift > 0.5)
    slowly = lambda t: drift * min(max(t - 12.0, 0.0), 6.0) if t < 30.0 else 0.0  # noqa: E731
    doubtful = play(5.0, 0.5, slowly, 50.0)
    assert 14.0 < doubtful[0] < 20.0
    assert 30.0 < doubtful[-1] < 41.0
    assert play(5.0, 0.5, lambda t: 0.3 * math.sin(0.05 * t), 200.0) == []


@pytest.mark.parametrize("rate", [1.0, 4.0])
def test_a_receiver_with_few_fixes_per_second_is_not_in_doubt_in_a_bend(rate):
    """The velocity turns by 29° and 7° between two fixes."""
    assert play(rate, 0.02, lambda t: 0.0, 60.0, speed=20.0, turn=0.5) == []


@pytest.mark.parametrize("seed", [3, 5, 6, 15, 17, 18])
def test_bends_that_begin_between_two_fixes_are_not_drift(seed):
    """Random speed, random yaw rates of up to 0.6 rad/s at intervals of 1.5 s, and one fix per second."""
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


def test_a_receiver_that_stays_where_it_jumped_is_in_doubt_for_ten_seconds():
    doubtful = play(10.0, 0.02, lambda t: 100.0 if t >= 3.0 else 0.0, 20.0)
    assert doubtful[-1] == pytest.approx(13.0, abs=0.2)


@pytest.mark.parametrize(("expected", "is_doubted"), [(0.09, True), (2.0, False)])
def test_a_fix_after_a_pause_is_doubted_if_the_estimate_is_certain(expected, is_doubted):
    """A fix 5 m off, after 8 s at 15 m/s without one, is doubted only if the filter expects a much smaller error."""
    jumps = FixJumps()
    for k in range(200):
        t = 0.02 * k
        jumps.take(round(t * SECOND), PlacedFix(15.0 * t + 0j, 0j, 0.02, 15.0, 15.0 + 0j), True)
    t = 12.0
    jumps.take(
        round(t * SECOND), PlacedFix(15.0 * t + 5j, 5j, 0.02, 15.0, 15.0 + 0j, expected=expected), False
    )
    assert jumps.is_in_doubt(round(t * SECOND)) == is_doubted


def test_while_a_receiver_is_in_doubt_the_position_is_less_certain():
    jumps = FixJumps()
    doubts = []
    for k in range(1000):
        t = 0.02 * k
        off = 100.0 if 8.0 <= t < 11.0 else 0.0
        apart = complex(off, 0.0)
        jumps.take(round(t * SECOND), PlacedFix(15.0 * t + apart, apart, 0.02, 15.0, 15.0 + 0j), not off)
        doubts.append(jumps.calc_doubt(round(t * SECOND)))
    assert set(doubts[:400]) == {0.0}
    # A share of the distance, but at most of 5 m: beyond it, the receiver itself has jumped.
    assert 1.0 < min(doubts[410:550]) <= max(doubts[410:550]) < 2.0
    assert max(doubts[560:]) == 0.0


@pytest.mark.parametrize("back", [20.0, 200.0])
def test_a_drift_ends_while_the_car_stands_and_the_receiver_gives_no_course(back):
    """The car drives at 15 m/s until 10 s and then stands. Before, the receiver drifts to 3 m at a claimed 1 m."""
    random, jumps, doubtful = np.random.default_rng(3), FixJumps(), []
    for k in range(800):
        t = 0.1 * k
        error = 0.75 * min(max(t - 5.0, 0.0), 4.0) if t < back else 0.0
        speed, sigma = (15.0, 0.02) if t < 10.0 else (0.0, 1.0 if t < back else 0.02)
        apart = complex(error, 0.0) + 0.02 * complex(*random.standard_normal(2))
        velocity = 15.0 + 0j if speed else None
        place = 15.0 * min(t, 10.0) + apart
        fix = PlacedFix(place, apart, sigma, speed, velocity, estimated=speed + 0j)
        jumps.take(round(t * SECOND), fix, abs(apart) < 4.5 * math.hypot(sigma, 0.3))
        if jumps.is_in_doubt(round(t * SECOND)):
            doubtful.append(t)
    assert doubtful[-1] == pytest.approx(min(back + 5.0, doubtful[0] + 60.0), abs=2.1)
