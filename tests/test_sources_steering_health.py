"""A steering sensor is checked by its own samples and by the gyroscope."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from vehicled.sources.inputs.steering_health import SteeringHealth

WHEELBASE, SPEED = 2.5, 10.0
OFFSET = 0.01
"""rad: offset of the sensor, which is not a fault."""


def turning(t: float) -> float:
    """Yaw rate of slow bends, rad/s."""
    return 0.4 * math.sin(0.8 * t)


def straight(_: float) -> float:
    return 0.0


def right(t: float, yaw_rate: float) -> float | None:
    """With digits of 0.1 mrad."""
    return 1e-4 * round(1e4 * (WHEELBASE * yaw_rate / SPEED + OFFSET) + math.sin(1e3 * t))


def run(
    sensor: Callable[[float, float], float | None],
    yaw_rate: Callable[[float], float] = turning,
    until: float = 20.0,
    gyroscope: bool = True,
    slides: Callable[[float], bool] = lambda t: False,
) -> Iterator[tuple[float, str, float | None]]:
    """Time, state, and the angle that replaces the sensor's (None: it is used or unknown), every 10 ms."""
    health = SteeringHealth(WHEELBASE)
    for k in range(round(until / 0.01)):
        t, r = 0.01 * k, yaw_rate(0.01 * k)
        angle = sensor(t, r)
        if angle is not None:
            health.take(t, angle)
        instead = health.check(t, SPEED, r if gyroscope else None, slides(t))
        yield t, health.state, instead


def after(t0: float, otherwise: Callable[[float, float], float | None], t1: float = math.inf):
    return lambda t, r: otherwise(t, r) if t0 <= t < t1 else right(t, r)


def test_a_sound_sensor_is_not_replaced():
    assert {(s, i) for _, s, i in run(right)} == {("measured", None)}


def test_before_its_first_sample_a_sensor_is_silent():
    assert {s for _, s, _ in run(lambda t, r: None)} == {"silent"}


@pytest.mark.parametrize("gyroscope", [True, False])
def test_a_silent_sensor_is_replaced_by_the_angle_of_rolling(gyroscope):
    states = list(run(after(8.0, lambda t, r: None), gyroscope=gyroscope))
    assert all(s == "measured" for t, s, _ in states if t < (8.2 if gyroscope else 8.1))
    later = [(t, s, i) for t, s, i in states if t > 8.35]
    assert {s for _, s, _ in later} == {"silent"}
    for t, _, instead in later:
        expected = pytest.approx(right(t, turning(t)), abs=2e-3)
        assert instead == (expected if gyroscope else None)


def test_the_angle_of_rolling_is_right_in_reverse():
    health = SteeringHealth(WHEELBASE)
    assert health.check(1.0, -SPEED, 0.4) == pytest.approx(-WHEELBASE * 0.4 / SPEED)


def test_a_sensor_that_repeats_its_sample_in_a_bend_is_distrusted():
    states = list(run(after(8.0, lambda t, r: 0.02), turning))
    first = next(t for t, s, _ in states if s == "distrusted")
    # By then the road wheels have turned by 0.03 rad and a little more.
    assert 8.3 < first < 9.5
    assert {s for t, s, _ in states if t > first} == {"distrusted"}


def noisy(digit: float) -> Callable[[float, float], float]:
    """A sensor with noise of 0.5 mrad and a digit, rad, stuck from 8 to 12 s."""
    random, last = np.random.default_rng(2), [0.0]

    def measure(t: float, r: float) -> float:
        if not 8.0 <= t < 12.0:
            angle = WHEELBASE * r / SPEED + OFFSET + 5e-4 * float(random.standard_normal())
            last[0] = digit * round(angle / digit)
        return last[0]

    return measure


def test_a_sensor_whose_noise_is_missing_is_distrusted_until_it_is_back():
    states = list(run(noisy(1e-4), turning))
    assert {s for t, s, _ in states if t < 8.08} == {"measured"}
    assert {s for t, s, _ in states if 8.15 < t < 12.0} == {"distrusted"}
    assert {s for t, s, _ in states if t > 12.3} == {"measured"}


def test_a_sensor_that_is_quiet_while_the_car_stands_is_used():
    random, health = np.random.default_rng(2), SteeringHealth(WHEELBASE)
    for k in range(2000):
        t, stands = 0.01 * k, 8.0 <= 0.01 * k < 12.0
        angle = OFFSET if stands else OFFSET + 1e-4 * round(5.0 * float(random.standard_normal()))
        health.take(t, angle)
        health.check(t, 0.0 if stands else SPEED, 0.0)
        assert health.state == "measured"


def test_without_a_gyroscope_a_sensor_that_repeats_its_sample_is_used():
    assert {s for _, s, _ in run(noisy(1e-4), turning, gyroscope=False)} == {"measured"}


def test_a_coarse_sensor_that_repeats_its_sample_is_used_until_the_car_turns_otherwise():
    states = list(run(noisy(5e-3), lambda t: 0.1))
    assert {s for t, s, _ in states} == {"measured"}


def test_a_sensor_that_drops_to_zero_is_distrusted_at_once():
    states = list(run(after(9.0, lambda t, r: 0.0), turning))
    assert {s for t, s, _ in states if t >= 9.06} == {"distrusted"}


def test_only_the_outlier_and_the_late_sample_are_left_out():
    health = SteeringHealth(WHEELBASE)
    followed = []
    for k in range(500):
        t = 0.01 * k
        followed.append(health.take(t, 0.5 if k == 200 else 0.001 * math.sin(t)))
        if k == 300:
            assert not health.take(t - 0.04, 0.3)
        health.check(t, SPEED, 0.0)
        assert health.state == "measured"
    assert [k for k, f in enumerate(followed) if not f] == [200]


def test_a_steering_wheel_held_still_in_a_slide_is_used():
    """A coarse sensor repeats its sample, and the car does not go where its front wheels point."""
    states = list(run(after(5.0, lambda t, r: 0.05), lambda t: min(0.2 * t, 0.2) if t < 5.0 else 0.9))
    assert {s for t, s, _ in states if t > 0} == {"measured"}


def test_a_sensor_distrusted_at_the_end_of_a_drift_is_used_again_once_the_car_rolls():
    """On ice the driver steers against the drift, holds the wheel still, and the car swings to the other side."""

    def drifts(t: float) -> float:
        return 0.25 if t < 10.0 else -0.2 if t < 11.0 else 0.0

    def against(t: float, r: float) -> float:
        share = min(max(min(t - 3.0, 11.6 - t), 0.0), 1.0)
        held = 10.0 <= t < 10.6
        return -0.2 * share + (0.0 if held else 1e-4 * math.sin(1e3 * t))

    states = list(run(against, drifts, until=14.0))
    assert {s for t, s, _ in states if 0.1 < t < 10.0} == {"measured"}
    assert any(s == "distrusted" for t, s, _ in states if 10.0 < t < 11.0)
    assert {s for t, s, _ in states if t > 12.0} == {"measured"}


def test_a_steering_wheel_held_still_is_used_if_the_car_is_known_to_slide():
    """As on ice, where a car slides at much less lateral acceleration than on asphalt."""

    def swings(t: float) -> float:
        return 0.3 * math.sin(1.5 * t) if t > 5.0 else 0.0

    def held(t: float, r: float) -> float:
        return 0.1 if t > 5.0 else right(t, r) + 0.1

    assert {s for _, s, _ in run(held, swings)} == {"measured", "distrusted"}
    assert {s for t, s, _ in run(held, swings, slides=lambda t: t > 5.0)} == {"measured"}


def test_a_steering_wheel_held_still_without_a_slide_is_used():
    """On a straight road, and in a bend of constant radius."""
    assert {s for _, s, _ in run(lambda t, r: OFFSET, straight)} == {"measured"}
    states = list(run(after(5.0, lambda t, r: WHEELBASE * r / SPEED + OFFSET), lambda t: min(0.1 * t, 0.5)))
    assert {s for _, s, _ in states} == {"measured"}


def test_a_sensor_that_changes_again_is_used_after_a_while():
    states = list(run(after(8.0, lambda t, r: 0.02, 12.0), turning))
    again = next(t for t, s, _ in states if t > 12.0 and s == "measured")
    assert 12.15 < again < 12.6
    assert {s for t, s, _ in states if t > again} == {"measured"}


def test_a_gap_does_not_end_the_distrust():
    states = list(run(after(8.0, lambda t, r: None if 12.0 < t < 12.5 else 0.02), turning))
    assert {s for t, s, _ in states if t > 12.5} == {"distrusted"}


def test_a_gap_is_not_a_jump():
    assert {s for t, s, _ in run(after(8.0, lambda t, r: None, 8.25)) if t > 0} == {"measured"}


def test_a_jump_back_ends_the_fault_even_in_a_fast_bend():
    """At 6 m/s² the angle of rolling cannot check the sensor."""
    states = list(run(after(8.0, lambda t, r: right(t, r) + 0.09, 12.0), lambda t: 0.6))
    assert all(s == "distrusted" for t, s, _ in states if 8.1 < t < 11.9)
    assert all(s == "measured" for t, s, _ in states if t > 12.1)


def test_a_second_jump_to_another_value_does_not_end_the_fault():
    def jumping(t: float, r: float) -> float:
        return right(t, r) + (0.09 if t < 10.0 else 0.2)

    states = list(run(after(8.0, jumping), lambda t: 0.6))
    assert all(s == "distrusted" for t, s, _ in states if t > 8.1)


def test_without_a_gyroscope_a_sensor_counts_as_silent_sooner():
    for gyroscope, silent in ((True, 0.3), (False, 0.15)):
        states = run(after(8.0, lambda t, r: None), until=9.0, gyroscope=gyroscope)
        assert next(t for t, s, _ in states if t > 8.0 and s == "silent") == pytest.approx(
            8.0 + silent, abs=0.03
        )


def test_a_noisy_sensor_is_distrusted_as_long_as_the_noise_lasts():
    random = np.random.default_rng(3)
    states = list(
        run(after(8.0, lambda t, r: right(t, r) + 5e-3 * float(random.standard_normal()), 12.0), turning)
    )
    first = next(t for t, s, _ in states if s == "distrusted")
    assert 8.02 < first < 8.5
    assert {s for t, s, _ in states if first <= t < 12.0} == {"distrusted"}
    assert all(i == pytest.approx(right(t, turning(t)), abs=3e-3) for t, _, i in states if first < t < 12.0)
    assert {s for t, s, _ in states if t > 12.8} == {"measured"}


@pytest.mark.parametrize("period", [0.01, 0.05])
@pytest.mark.parametrize("step", [0.0, 1.5e-3])
def test_usual_noise_coarse_steps_and_fast_turns_are_not_noise_of_a_fault(period, step):
    """A slalom with 2 rad/s at the road wheels. At 20 Hz its second differences are 30 mrad."""
    random, health = np.random.default_rng(4), SteeringHealth(WHEELBASE)
    for k in range(round(30.0 / period)):
        t = k * period
        angle = 0.3 * math.sin(6.5 * t) + 1e-3 * float(random.standard_normal())
        health.take(t, step * round(angle / step) if step else angle)
        assert not health.is_noisy


def test_samples_that_a_logger_repeats_in_a_slalom_are_no_noise():
    """50 Hz in a table of 100 Hz: stairs of up to 13 mrad."""
    health = SteeringHealth(WHEELBASE)
    for k in range(3000):
        health.take(0.01 * k, 0.15 * math.sin(4.4 * 0.02 * (k // 2)))
        assert not health.is_noisy


def test_an_outlier_is_not_taken_for_noise():
    health = SteeringHealth(WHEELBASE)
    for k in range(500):
        health.take(0.01 * k, 0.3 if k == 200 else 0.0)
        assert not health.is_noisy


def test_a_sensor_that_comes_back_after_a_silence_in_bends_is_used_at_once():
    silence = after(8.0, lambda t, r: None, 16.0)
    states = {s for t, s, _ in run(silence) if t >= 16.0}
    assert states == {"measured"}


def test_a_sensor_that_has_lost_its_zero_during_a_silence_is_distrusted():
    def sensor(t: float, r: float) -> float | None:
        return None if 8.0 <= t < 10.0 else right(t, r) + (0.08 if t >= 10.0 else 0.0)

    states = [s for t, s, _ in run(sensor) if t >= 10.2]
    assert set(states) == {"distrusted"}
