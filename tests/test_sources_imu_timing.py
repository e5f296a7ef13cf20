"""Latency of the IMU from its samples and precise fixes, on a path that is known in closed form."""

import cmath
import math

import numpy as np
import pytest

from vehicled.messages import SlowState
from vehicled.sources.gnss.fix_time import Latency
from vehicled.sources.imu.antenna_path import compare_paths
from vehicled.sources.imu.path_hypotheses import Given, PathHypotheses
from vehicled.sources.imu.path_sums import PathSums
from vehicled.sources.imu.timing import ImuTiming

ARM, HEIGHT = 0.8 + 0.2j, 1.1
ANTENNA = ARM.real, ARM.imag, HEIGHT
RATE, FIX_RATE = 250, 10
BIAS = 0.002
"""rad/s, of the gyroscope."""


def place(t: float) -> complex:
    """A slalom in which the car also accelerates and brakes, m."""
    return 12.0 * t - 8.0 * math.cos(0.5 * t) + 1j * 1.5 * math.sin(1.8 * t)


def velocity(t: float) -> complex:
    return 12.0 + 4.0 * math.sin(0.5 * t) + 2.7j * math.cos(1.8 * t)


def acceleration(t: float) -> complex:
    return 2.0 * math.cos(0.5 * t) - 4.86j * math.sin(1.8 * t)


def yaw(t: float) -> float:
    return cmath.phase(velocity(t))


def yaw_rate(t: float) -> float:
    return (acceleration(t) / velocity(t)).imag


def forces(t: float) -> complex:
    return acceleration(t) * cmath.exp(-1j * yaw(t))


def rises(t: float) -> complex:
    """Roll outwards in bends and pitch under braking, on a slope and a bank."""
    return 0.006 * forces(t).imag * 1j + 0.004 * forces(t).real + (0.03 - 0.02j)


def antenna(t: float, arm: complex = ARM) -> complex:
    return place(t) + (arm - HEIGHT * rises(t)) * cmath.exp(1j * yaw(t))


def drive(
    timing: ImuTiming,
    late: float = 0.0,
    arm: complex = ARM,
    noise: float = 0.0,
    seed: int = 0,
    seconds: float = 40.0,
    is_levelled: bool = True,
    has_reference: bool = True,
    moved: list[tuple[complex, complex]] | None = None,
) -> float:
    """Feed samples with times `late` (s) after those of the motion, and fixes of an antenna at `arm`.

    Returns the sum of the changes of the latency, s.
    """
    timing.sigma, timing.antenna = 0.02, ANTENNA
    timing.is_levelled, timing.has_reference = is_levelled, lambda: has_reference
    random, changes = np.random.default_rng(seed), 0.0
    for k in range(round(seconds * RATE)):
        t = k / RATE
        force = forces(t) + (0.1 - 0.05j)  # a slope, and a bias
        reading = yaw_rate(t) + BIAS
        means = t + late - timing.latency, reading, force.real, force.imag
        changes += timing.take_means(means, rises(t), yaw(t) + 0.02, BIAS)
        if moved is not None and timing.moved is not None:
            moved.append(timing.moved)
        if k % (RATE // FIX_RATE) == 0:
            error = noise * complex(*random.standard_normal(2))
            timing.take_fix(t, antenna(t, arm) + error, max(noise, 0.001), 0.0)
    return changes


@pytest.mark.parametrize("late", [0.02, -0.02])
@pytest.mark.parametrize("arm", [ARM, ARM - 0.4])
def test_a_latency_is_found_wherever_the_antenna_is(late, arm):
    timing = ImuTiming()
    changes = drive(timing, late, arm, noise=0.01)
    assert timing.latency == pytest.approx(late, abs=0.003)
    assert changes == pytest.approx(timing.latency)
    assert timing.state.value == timing.latency
    assert timing.state.sigma == timing.doubt < 0.006
    assert timing.has_precise_fixes
    # 12 m/s times the uncertainty of the latency.
    assert timing.find_offset(12.0) == (pytest.approx(0.08, abs=0.03) if arm == ARM else 0.0)


def test_a_displaced_antenna_is_found_together_with_late_samples():
    moved: list[tuple[complex, complex]] = []
    drive(ImuTiming(), 0.02, ARM - 0.4, noise=0.01, moved=moved)
    place, sigma = moved[-1]
    for error, known in ((place.real + 0.4, sigma.real), (place.imag, sigma.imag)):
        assert abs(error) < 3.0 * known < 0.15
    moved.clear()
    drive(ImuTiming(), 0.02, noise=0.01, moved=moved)
    assert not moved


def test_a_small_latency_is_not_used_with_the_estimated_attitude():
    """It is part of the uncertainty of the time, and may explain a small displacement of the antenna."""
    timing = ImuTiming()
    assert drive(timing, 0.004, noise=0.01, is_levelled=False) == 0.0
    change, sigma = timing.hypotheses.explain()
    assert timing.doubt > math.hypot(change, sigma) > 0.002
    assert 12 * 0.004 < timing.find_offset(12.0) < 0.5


def test_a_large_latency_is_used_with_the_estimated_attitude():
    timing = ImuTiming()
    drive(timing, 0.02, noise=0.01, is_levelled=False)
    assert timing.latency == pytest.approx(0.02, abs=0.003)


def test_no_latency_is_used_if_the_time_of_fixes_depends_on_the_samples():
    """Otherwise the latency of the fixes and that of the samples would follow each other."""
    timing = ImuTiming()
    assert drive(timing, 0.02, noise=0.01, has_reference=False) == 0.0


@pytest.mark.parametrize("arm", [ARM, ARM - 0.4])
def test_times_that_are_right_are_kept(arm):
    timing = ImuTiming()
    assert drive(timing, 0.0, arm, noise=0.01) == timing.latency == pytest.approx(0.0, abs=0.002)
    # 12 m/s times the uncertainty of the latency, unless the antenna is known to be displaced.
    assert timing.find_offset(12.0) == (pytest.approx(0.07, abs=0.03) if arm == ARM else 0.0)


@pytest.mark.slow
def test_with_noise_a_right_time_is_kept_and_a_wrong_one_is_found():
    """Thirty drives with noise. Windows alone scatter by milliseconds; the mean of both hypotheses is used."""

    def find_errors(late: float) -> np.ndarray:
        """(30, 2) errors of the latency that is used, and of that by windows alone, s."""
        errors = []
        for seed in range(30):
            timing = ImuTiming()
            drive(timing, late, noise=0.02, seed=seed, seconds=30.0)
            errors.append((timing.latency - late, timing.latency + timing.hypotheses.solve()[0] - late))
        return np.array(errors)

    used, alone = np.sqrt(np.mean(find_errors(0.0) ** 2, axis=0))
    assert used < 0.2 * alone
    assert alone > 0.004
    used, alone = np.sqrt(np.mean(find_errors(0.02) ** 2, axis=0))
    assert used < 1.1 * alone


def test_the_latency_of_fixes_is_subtracted_once_it_has_been_found():
    """Fixes are 50 ms late, which the filter knows from 15 s on. The times of the samples are right."""
    timing = ImuTiming()
    timing.sigma, timing.antenna, timing.is_levelled, timing.has_reference = 0.02, ANTENNA, True, lambda: True
    for k in range(40 * RATE):
        t = k / RATE
        force = forces(t)
        means = t - timing.latency, yaw_rate(t), force.real, force.imag
        timing.take_means(means, rises(t), yaw(t), 0.0)
        if k % (RATE // FIX_RATE) == 0:
            timing.take_fix(t, antenna(t - 0.05), 0.01, 0.05 if t > 15.0 else 0.0)
        if t > 32.0:
            assert abs(timing.latency) < 0.002


def test_errors_are_as_large_as_their_standard_deviation():
    """In thirty drives with different noise, the mean of the squared standardised errors is close to 1."""
    squares = []
    for seed in range(30):
        timing = ImuTiming()
        drive(timing, 0.02, noise=0.02, seed=seed, seconds=22.0)
        change, sigma, _ = timing.hypotheses.solve()
        squares.append(((timing.latency + change - 0.02) / sigma) ** 2)
    assert 0.5 < np.mean(squares) < 1.7


@pytest.mark.parametrize("sigma", [0.02, 0.0])
def test_without_precise_fixes_or_with_a_sigma_of_zero_no_latency_is_found(sigma):
    timing = ImuTiming()
    timing.sigma = sigma
    for k in range(30 * RATE):
        t = k / RATE
        means = t + 0.03, yaw_rate(t), forces(t).real, forces(t).imag
        assert timing.take_means(means, rises(t), yaw(t), 0.0) == 0.0
        if k % 25 == 0:
            timing.take_fix(t, antenna(t), 0.5 if sigma else 0.01, 0.0)
    assert (timing.state is None) == (sigma == 0.0)
    # Four of five configured latencies are right.
    assert sigma == 0.0 or timing.state.sigma == pytest.approx(math.sqrt(0.2) * sigma, rel=0.02)


def test_a_latency_found_on_an_earlier_drive_is_used_from_the_start():
    timing = ImuTiming()
    timing.sigma = 0.02
    timing.set(SlowState(0.018, 0.004, "s"), age=0.0)
    assert timing.latency == 0.018
    drive(timing, 0.02, noise=0.01)
    assert timing.latency == pytest.approx(0.02, abs=0.002)
    for useless in (
        SlowState(0.5, 0.004, "s"),
        SlowState(0.01, 0.05, "s"),
        SlowState(math.nan, math.nan, "s"),
    ):
        timing.forget()
        timing.set(useless, age=0.0)
        assert timing.latency == 0.0


@pytest.mark.parametrize("found", [None, SlowState(0.006, 0.004, "s")], ids=["nothing found", "found"])
def test_drives_that_show_nothing_of_the_time_do_not_make_it_certain(found):
    """The odds that the configured latency is right count once, not in each drive again."""
    sigmas = []
    for _ in range(6):
        timing = ImuTiming()
        timing.sigma = 0.02
        if found is not None:
            timing.set(found, age=0.0)
        found = timing.state
        sigmas.append(found.sigma)
    assert sigmas == sorted(sigmas)


def test_a_latency_that_was_found_long_ago_has_been_forgotten():
    fresh, old = ImuTiming(), ImuTiming()
    fresh.sigma = old.sigma = 0.02
    unshown = fresh.state.sigma
    fresh.set(SlowState(0.018, 0.002, "s"), age=3600.0)
    old.set(SlowState(0.018, 0.002, "s"), age=90 * 86400.0)
    assert fresh.latency == pytest.approx(0.018, rel=0.01)
    assert abs(old.latency) < 0.006
    assert fresh.state.sigma < 0.0025 < 0.95 * unshown < old.state.sigma


def test_derivatives_match_differences_of_the_path():
    t = np.arange(0.0, 4.0, 1 / RATE) + 6.0
    at = np.arange(6.3, 9.9, 0.1)

    def compare(
        arm=ARM, yaw0=None, extra=0j, ahead=1.0, left=1.0, turning=0.0, pitch_late=0.0, roll_late=0.0
    ):
        rows = []
        for x in t:
            f, rate = forces(x), (forces(x + 1e-4) - forces(x - 1e-4)) / 2e-4
            force = (
                complex(ahead * f.real + pitch_late * rate.real, left * f.imag + roll_late * rate.imag)
                + extra
            )
            rows.append((x, yaw_rate(x) + turning, force.real, force.imag, rises(x).real, rises(x).imag))
        fixes = np.array([antenna(x) for x in at])
        return compare_paths(np.array(rows), at, fixes, yaw(6.0) if yaw0 is None else yaw0, arm, HEIGHT)

    residual, own, shared = compare()
    assert own.shape == (2 * len(at), 10)
    assert shared.shape == (2 * len(at), 5)
    small = 1e-4
    # The residual decreases by as much as the integrated path increases.
    for column, changed in (
        (own[:, 4], compare(yaw0=yaw(6.0) + small)),
        (own[:, 5], compare(extra=small)),
        (own[:, 6], compare(extra=1j * small)),
        (own[:, 7], compare(ahead=1.0 + small)),
        (own[:, 8], compare(left=1.0 + small)),
        (own[:, 9], compare(roll_late=small)),
        (shared[:, 1], compare(arm=ARM + small)),
        (shared[:, 2], compare(arm=ARM + 1j * small)),
        (shared[:, 3], compare(turning=small)),
        (shared[:, 4], compare(pitch_late=small)),
    ):
        assert (residual - changed[0]) / small == pytest.approx(column, rel=0.02, abs=0.02)


def test_at_constant_speed_a_late_imu_is_not_told_from_a_displaced_antenna():
    """A slalom with an error of the longitudinal acceleration at twice its frequency, as by roll of the body.

    At 13 m/s an antenna 1.3 m ahead and samples 0.1 s late together hardly change the path.
    """
    timing = ImuTiming()
    timing.sigma, timing.antenna, timing.is_levelled = 0.02, (ARM.real, ARM.imag, 0.0), False
    random, frequency = np.random.default_rng(0), 2.3
    for k in range(round(14.5 * RATE)):
        t = k / RATE
        sway, sway_rate = math.sin(frequency * t), frequency * math.cos(frequency * t)
        speed, force = 13.0 + 1.3j * sway_rate, -1.3j * frequency**2 * sway
        heading = cmath.phase(speed)
        measured = force * cmath.exp(-1j * heading) + math.sin(2 * frequency * t)
        turning = (force / speed).imag + BIAS
        means = t - timing.latency, turning, measured.real, measured.imag
        change = timing.take_means(means, 0j, heading, BIAS)
        assert change == 0.0
        if k % (RATE // 50) == 0:
            at = 13.0 * t + 1.3j * sway + ARM * cmath.exp(1j * heading)
            timing.take_fix(t, at + 0.02 * complex(*random.standard_normal(2)), 0.02, 0.0)
    change, sigma, _ = timing.hypotheses.solve()
    assert change > 3.5 * sigma
    assert not timing.hypotheses.is_told_apart
    assert timing.find_offset(13.0) > 0.25


def test_a_latency_set_by_other_sensors_is_uncertain_too():
    """It is relative to the times of fixes, which are just as uncertain."""
    timing = ImuTiming()
    drive(timing, 0.0, noise=0.01, has_reference=False)
    assert timing.found_doubt == 0.0 < timing.doubt
    timing.set_by_others(0.02)
    assert timing.found_doubt == timing.doubt > 0.001


def test_beside_a_speed_of_known_time_the_latency_of_fixes_takes_up_a_part_of_it():
    timing = ImuTiming()
    timing.sigma, timing.has_reference = 0.02, lambda: True
    timing.set_by_others(0.004)
    assert timing.found_doubt == pytest.approx(0.2 * math.hypot(0.004, timing.doubt))
    timing.set_by_others(0.076)
    assert timing.found_doubt == timing.doubt  # never more than without


@pytest.mark.parametrize("arm", [ARM, ARM - 0.4])
def test_windows_deny_a_latency_that_only_the_filter_finds(arm):
    """The filter finds a false latency if wheels slip otherwise than the model's."""
    right, late = ImuTiming(), ImuTiming()
    drive(right, 0.0, arm, noise=0.01, has_reference=False)
    drive(late, 0.02, arm, noise=0.01, has_reference=False)
    for timing in (right, late):
        timing.take_fix(41.0, 0.0j, 0.01, -0.02)
    assert right.hypotheses.denies(0.02)
    assert not late.hypotheses.denies(0.02)
    late.latency = 0.05
    assert not late.hypotheses.denies(-0.02)  # back towards the configured one


def test_without_windows_only_a_large_latency_is_not_denied():
    timing = ImuTiming()
    drive(timing, 0.0, seconds=3.0)
    assert timing.hypotheses.denies(0.01)
    assert not timing.hypotheses.denies(0.02)


def find_fixes(claimed: float, late: float = 0.0, has_reference=False, moved_by=0.0):
    """Corrections of a latency of fixes that the filter finds as `claimed` (s); the fixes are `late`.

    `moved_by`: change of the samples' time by other sensors, s. Samples are in time.
    """
    timing, found = ImuTiming(), []
    timing.sigma = timing.fix_sigma = 0.02
    timing.antenna, timing.is_levelled, timing.has_reference = ANTENNA, True, lambda: has_reference
    timing.set_by_others(moved_by)
    for k in range(60 * RATE):
        t = k / RATE
        means = t - timing.latency, yaw_rate(t), forces(t).real, forces(t).imag
        timing.take_means(means, rises(t), yaw(t), 0.0)
        if timing.fixes is not None:
            found.append((timing.fixes.mean, timing.restored))
            claimed = timing.fixes.mean
        if k % (RATE // FIX_RATE) == 0:
            timing.take_fix(t, antenna(t - late), 0.01, claimed)
    return found


@pytest.mark.parametrize("claimed", [0.015, -0.012])
def test_a_latency_of_fixes_that_tyres_have_caused_is_replaced_by_the_configured_one(claimed):
    ((mean, restored),) = find_fixes(claimed)
    assert mean == pytest.approx(0.0, abs=0.001)
    assert restored == 0.0


def test_a_latency_of_fixes_that_the_path_confirms_or_hardly_contradicts_is_kept():
    assert not find_fixes(0.004)
    assert not find_fixes(0.05, late=0.05)
    assert not find_fixes(-0.02, late=-0.02)
    assert not find_fixes(0.015, has_reference=True)  # then the samples may be late


def test_samples_that_such_a_latency_has_made_late_return_to_their_time():
    ((mean, restored),) = find_fixes(0.0, moved_by=0.012)
    assert restored == -0.012
    assert mean == pytest.approx(0.0, abs=0.001)


@pytest.mark.parametrize(
    ("shown", "sigma", "is_replaced"),
    [(0.006, 0.003, False), (0.004, 0.0015, False), (0.001, 0.004, False), (-0.001, 0.003, True)],
)
def test_only_a_path_that_contradicts_the_filter_replaces_its_latency(monkeypatch, shown, sigma, is_replaced):
    """Even where the configured latency is the most likely one: if samples are late too, it is wrong."""
    given = Given(0.02, SlowState(0.0, 0.0, "s"), 0.0, 0.0095, True, 0)
    hypotheses = PathHypotheses(PathSums(), given)
    monkeypatch.setattr(hypotheses, "_find_fixes_alone", lambda moved: Latency(shown, sigma**2))
    assert (hypotheses.find_fixes(0.02) is not None) == is_replaced
