"""What samples and fixes may be late together, against draws from the same prior."""

import cmath
import math

import numpy as np
import pytest

from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX
from vehicled.sources.added_doubt import AddedDoubt
from vehicled.sources.gnss.fix_time import Latency
from vehicled.sources.imu.common_lateness import Configured, find_common_lateness
from vehicled.sources.imu.timing import ImuTiming

SIGMA = 0.0015
"""s, 1 σ of the relative latency that the filter finds."""
FIXES, SAMPLES = Configured(0.01, 0.02), Configured(0.004, 0.02)


def find(relative: float, fixes=FIXES, samples=SAMPLES) -> float:
    return find_common_lateness(Latency(relative, SIGMA**2), fixes, samples)


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Latencies of samples relative to the configured one, and found latencies of fixes relative to theirs, s."""
    random, n = np.random.default_rng(1), 3_000_000
    late = np.where(random.random((2, n)) < 0.2, 0.02, 0.001) * random.standard_normal((2, n))
    of_samples, of_fixes = late[:, (late[0] > -SAMPLES.latency) & (late[1] > -FIXES.latency)]
    noise = math.hypot(SIGMA, 0.0012) * random.standard_normal(len(of_samples))
    return of_samples, of_fixes - of_samples + noise


@pytest.mark.parametrize("relative", [0.0, 0.006, 0.02, -0.008])
def test_it_is_the_error_of_cars_with_the_same_relative_latency(drawn, relative):
    of_samples, found = drawn
    alike = of_samples[np.abs(found - relative) < 0.0005]
    expected = math.sqrt(np.mean(alike**2) - 0.001**2)
    assert find(relative) == pytest.approx(expected, rel=0.1, abs=0.0002)


def test_fixes_of_the_same_time_as_samples_leave_little_doubt():
    assert find(0.0, fixes=Configured(0.0, 0.02), samples=Configured(0.0, 0.02)) < 0.0008


def test_fixes_from_the_future_show_samples_to_be_late():
    at_once = Configured(0.0, 0.02)
    assert 0.01 < find(-0.01, fixes=at_once, samples=at_once) < 0.012


def test_a_latency_of_samples_that_all_sensors_have_shown_is_taken_as_configured():
    """As fixes have shown it, they now agree with the samples."""
    timing = ImuTiming()
    timing.sigma, timing.has_reference = 0.02, lambda: False
    at_once = Configured(0.0, 0.02)
    assert timing.find_common(Latency(-0.02, SIGMA**2), at_once) > 0.02
    timing.set_by_others(0.02)
    assert timing.find_common(Latency(0.0, SIGMA**2), at_once) < 0.001


@pytest.mark.parametrize(("has_reference", "sigma"), [(True, 0.02), (False, 0.0)])
def test_with_a_speed_of_known_time_or_a_known_time_of_samples_nothing_is_in_doubt(has_reference, sigma):
    timing = ImuTiming()
    timing.sigma, timing.has_reference = sigma, lambda: has_reference
    assert timing.find_common(Latency(0.02, SIGMA**2), FIXES) == 0.0


def test_sigma_of_the_latency_contains_it():
    timing = ImuTiming()
    timing.sigma, timing.has_reference = 0.02, lambda: False
    before = timing.state.sigma
    late = timing.find_common(Latency(0.02, SIGMA**2), FIXES)
    assert timing.state.sigma == pytest.approx(math.hypot(before, late))
    assert timing.find_common(None, FIXES) == 0.0


def test_the_position_is_uncertain_along_the_velocity_and_the_heading_by_the_turn():
    late, yaw, velocity, yaw_rate = 0.005, 0.4, 20.0 + 1.0j, 0.5
    values = np.zeros(len(ESTIMATE_COLUMNS))
    given = {"yaw": yaw, "vx": velocity.real, "vy": velocity.imag, "wz": yaw_rate}
    given |= {"sigma.x": 0.02, "sigma.y": 0.03, "sigma.yaw": 0.001, "sigma.sideslip": 0.002}
    for name, value in given.items():
        values[ESTIMATE_INDEX[name]] = value
    correlation = AddedDoubt(late=late).add_to(values, 0.3)
    x, y, turned, sideslip = (
        values[ESTIMATE_INDEX[f"sigma.{name}"]] for name in ("x", "y", "yaw", "sideslip")
    )
    way = late * velocity * cmath.rect(1.0, yaw)
    added = np.outer(*[[way.real, way.imag]] * 2)
    before = np.array([[0.02**2, 0.3 * 0.02 * 0.03], [0.3 * 0.02 * 0.03, 0.03**2]])
    assert np.array([[x * x, correlation * x * y], [correlation * x * y, y * y]]) == pytest.approx(
        before + added
    )
    assert turned == pytest.approx(math.hypot(0.001, late * yaw_rate))
    assert sideslip == 0.002


def test_the_speed_is_uncertain_by_its_change_within_that_time():
    """In a bend the velocity also turns in the axes of the car: its forward part changes by more than `ax`."""
    late, ahead, yaw_rate, left = 0.008, -4.0, 0.5, 1.0
    values = np.zeros(len(ESTIMATE_COLUMNS))
    for name, value in {"ax": ahead, "wz": yaw_rate, "vx": 20.0, "vy": left, "sigma.vx": 0.01}.items():
        values[ESTIMATE_INDEX[name]] = value
    AddedDoubt(late=late).add_to(values)
    change = late * (ahead + yaw_rate * left)
    assert values[ESTIMATE_INDEX["sigma.vx"]] == pytest.approx(math.hypot(0.01, change))
    AddedDoubt().add_to(values)
    assert values[ESTIMATE_INDEX["sigma.vx"]] == pytest.approx(math.hypot(0.01, change))
