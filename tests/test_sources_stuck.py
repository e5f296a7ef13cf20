"""Detection of channels that repeat their values."""

import math

import numpy as np
import pytest

from vehicled.messages import Measurement
from vehicled.sources.checks.stuck import StuckChannels
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES

SPEED = 10.0
"""m/s"""
AXES = (*GYROSCOPES, *ACCELEROMETERS)
STOPS = 200


def fix(name: str, k: int, lat: float, lon: float = 11.0) -> Measurement:
    values = {f"{name}.lat": lat, f"{name}.lon": lon, f"{name}.speed": SPEED, f"{name}.course": 0.5}
    return Measurement("receiver", k * 100_000_000, k * 100_000_000, values)


@pytest.mark.parametrize(("name", "other"), [("gnss", "gnss2"), ("gnss2", "gnss")])
def test_a_receiver_that_repeats_its_place_is_stuck_and_the_other_one_is_not(name, other):
    stuck = StuckChannels(1.5)
    found = []
    for k in range(4):
        found.append(stuck.find(fix(name, k, 48.0), SPEED))
        assert stuck.find(fix(other, k, 48.0 + 1e-5 * k), SPEED) == []
    # Speed and course are as old as the place.
    assert found == [[], [], list(fix(name, 0, 0.0).values), list(fix(name, 0, 0.0).values)]
    assert stuck.find(fix(name, 4, 48.1), SPEED) == []


def test_two_receivers_in_one_message_are_checked_separately():
    stuck = StuckChannels(1.5)
    for k in range(3):
        both = fix("gnss", k, 48.0 + 1e-5 * k).values | fix("gnss2", k, 48.0).values
        found = stuck.find(Measurement("receiver", k * 10**8, k * 10**8, both), SPEED)
    assert found == list(fix("gnss2", 0, 0.0).values)


def test_a_car_at_rest_may_measure_the_same_place_again():
    stuck = StuckChannels(1.5)
    assert [stuck.find(fix("gnss", k, 48.0), 0.1) for k in range(20)] == [[]] * 20


@pytest.mark.parametrize("digits", [1e-6, 1e-4 / 60.0])
@pytest.mark.parametrize("speed", [2.1, 5.0])
@pytest.mark.parametrize("begin", [48.0, 70.0])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_fast_receiver_whose_places_have_coarse_digits_is_not_stuck(digits, speed, begin, noise):
    """50 Hz; a car that drives north moves by less than a digit from fix to fix."""
    stuck, rng = StuckChannels(1.5), np.random.default_rng(3)
    for k in range(500):
        north, east = (speed * k / 50.0, 0.0) + noise * rng.normal(size=2)
        lat, lon = begin + north / 111e3, 11.0 + east / (111e3 * np.cos(np.radians(begin)))
        at = fix("gnss", k, *(round(angle / digits) * digits for angle in (lat, lon)))
        m = Measurement("receiver", k * 20_000_000, k * 20_000_000, at.values)
        assert stuck.find(m, speed) == []


@pytest.mark.parametrize(
    ("times", "period_ns", "speed", "expected"),
    [
        pytest.param(10, 2_000_000, 3.0, [False, False, *[True] * 8], id="the second repetition, little way"),
        pytest.param(2, 10_000_000, 15.0, [False, True], id="the first, far more way than a digit"),
    ],
)
def test_a_receiver_whose_fine_places_are_sent_again_is_stuck(times, period_ns, speed, expected):
    """Each fix is sent several times, as by a gateway that sends more often than it receives."""
    stuck, rng, found = StuckChannels(1.5), np.random.default_rng(3), []
    for k in range(200):
        if k % times == 0:
            north, east = speed * k * period_ns * 1e-9 + rng.normal() * 0.01, rng.normal() * 0.01
        m = fix("gnss", k, round(48.0 + north / 111e3, 9), round(11.0 + east / 74e3, 9))
        m = Measurement(m.source, k * period_ns, k * period_ns, m.values)
        found.append(bool(stuck.find(m, speed)))
    assert found[100:] == expected * (100 // times)


def test_a_single_axis_of_an_imu_is_found_to_be_stuck():
    stuck = StuckChannels(1.5)
    found = [
        stuck.find(Measurement("imu", k * 10**7, k * 10**7, {"imu.wz": 0.1, "imu.ax": 0.01 * k}), SPEED)
        for k in range(20)
    ]
    assert found[:10] == [[]] * 10
    assert found[10:] == [["imu.wz"]] * 10


def repeat(
    coarse: float = 1e-6, sent: int = 1, stops: int = 10**6, speed: float = 15.0, rate: float = 250.0
) -> list[int]:
    """Numbers of the samples with a stuck channel: noise of 1 in steps of `coarse`, each sample `sent` times."""
    random, check, found, values = np.random.default_rng(5), StuckChannels(1.5), [], dict.fromkeys(AXES, 0.0)
    for k in range(2 * STOPS):
        if k % sent == 0 and k < stops:
            values = {c: round(random.standard_normal() / coarse) * coarse for c in AXES}
        t = round(k / rate * 1e9)
        if check.find(Measurement("imu", t, t, dict(values)), speed):
            found.append(k)
    return found


def test_an_imu_that_stops_is_found_with_the_fourth_repetition():
    assert repeat(stops=STOPS) == list(range(STOPS + 3, 2 * STOPS))


def test_an_imu_at_rest_may_measure_the_same_again():
    assert repeat(stops=STOPS, speed=0.5) == []


def test_coarse_axes_with_noise_are_not_stuck():
    assert repeat(coarse=2.0) == []


def find_in_quiet_imu(stops: int) -> list[int]:
    """Numbers of the samples with a stuck channel: axes that oscillate within a few steps, without noise."""
    check, found, values = StuckChannels(1.5), [], dict.fromkeys(AXES, 0.0)
    for k in range(2 * stops):
        if k < stops:
            values = {c: 0.05 * round(3.0 * np.sin(0.01 * (1.0 + 0.3 * n) * k)) for n, c in enumerate(AXES)}
        t = k * 10_000_000
        if check.find(Measurement("imu", t, t, dict(values)), SPEED):
            found.append(k)
    return found


def test_a_coarse_imu_without_noise_is_not_stuck_once_its_steps_are_known():
    stops = 5000
    found = find_in_quiet_imu(stops)
    while_measuring = [k for k in found if k < stops]
    assert len(while_measuring) < 0.01 * stops
    assert max(while_measuring, default=0) < 1000
    # The longest run of such an axis, at a turning point, is of 100 samples or less.
    assert found[len(while_measuring) :] == list(range(found[len(while_measuring)], 2 * stops))
    assert found[len(while_measuring)] < stops + 3 * 110


def test_a_stuck_imu_is_found_again_as_soon_after_a_stop_of_the_car():
    stuck, found = StuckChannels(1.5), []
    for k in range(600):
        # The IMU is stuck after 100 samples. The car stands from the 300th to the 400th.
        values = {c: 1e-6 * float((min(k, 100) * (7 + n) ** 3) % 997) for n, c in enumerate(AXES)}
        t, speed = k * 4_000_000, 0.0 if 300 <= k < 400 else SPEED
        if stuck.find(Measurement("imu", t, t, values), speed):
            found.append(k)
    assert found[0] <= 105
    assert next(k for k in found if k >= 400) <= 405


@pytest.mark.parametrize("sent", [2, 8, 20])
def test_samples_that_are_always_repeated_are_left_out_in_the_first_run_at_most(sent):
    assert all(k < sent for k in repeat(sent=sent))


def test_an_imu_sent_at_ten_times_its_rate_is_not_stuck():
    assert repeat(sent=10, rate=2500.0) == []


def of_speed(k: int, value: float, channel: str = "vehicle.speed") -> Measurement:
    return Measurement("can", k * 10_000_000, k * 10_000_000, {channel: value})


@pytest.mark.parametrize("channel", ["vehicle.speed", "gnss.speed"])
def test_a_speed_that_stays_constant_while_the_car_brakes_is_stuck(channel):
    stuck = StuckChannels(1.5)
    found = [bool(stuck.find(of_speed(k, 15.0, channel), 15.0 - 0.05 * k)) for k in range(40)]
    assert found == [k > 20 for k in range(40)]
    assert stuck.find(of_speed(40, 13.0, channel), 13.0) == []


def test_a_coarse_speed_that_steps_is_not_stuck():
    stuck = StuckChannels(1.5)
    for k in range(400):
        speed = 15.0 - 0.03 * k
        assert stuck.find(of_speed(k, round(speed / 0.447) * 0.447), speed) == []


def test_a_speed_that_is_zero_below_walking_pace_is_not_stuck():
    stuck = StuckChannels(1.5)
    for k in range(100):
        assert stuck.find(of_speed(k, 0.0), 0.015 * k) == []


def test_a_coarse_speed_that_has_not_changed_since_before_initialisation_is_not_stuck():
    """Before initialisation there is no estimate, and the speed given to the check is zero."""
    stuck = StuckChannels(1.5)
    assert stuck.find(of_speed(0, 25.0), 0.0) == []
    stuck.begin()
    assert [stuck.find(of_speed(k, 25.0), 25.0) for k in range(1, 100)] == [[]] * 99


def test_a_stuck_speed_remains_stuck_when_the_filter_is_initialised_again():
    stuck = StuckChannels(1.5)
    for k in range(40):
        stuck.find(of_speed(k, 15.0), 15.0 - 0.05 * k)
    stuck.begin()
    assert [bool(stuck.find(of_speed(k, 15.0), 12.5)) for k in range(40, 100)] == [True] * 60
    assert stuck.find(of_speed(100, 12.4), 12.5) == []


def cruise(*, noise: float, gains: float, channel: str = "vehicle.speed", digit: float = 0.01) -> list[float]:
    """Times (s) at which a speed of 100 Hz, constant from 5 s on, is found to be stuck by averages of another one.

    `noise`: of those averages, m/s; `gains`: acceleration of the car, m/s².
    """
    stuck, rng, found, other = StuckChannels(1.5), np.random.default_rng(2), [], 20.0
    for k in range(1500):
        speed = 20.0 + gains * 0.01 * k
        if k % 50 == 0:
            other = speed + noise * rng.standard_normal()
        reading = round(min(speed, 20.0 + gains * 5.0) / digit) * digit + (
            0.0 if k > 500 else digit * (k % 2)
        )
        averages = {"gnss.speed": other, "vehicle.speed": other}
        if stuck.find(of_speed(k, reading, channel), 20.0, averages):
            found.append(0.01 * k)
    return found


@pytest.mark.parametrize("channel", ["vehicle.speed", "gnss.speed"])
def test_a_constant_speed_is_stuck_if_another_sensor_shows_that_the_car_is_faster(channel):
    """Even though the estimate follows the stuck speed."""
    assert 6.5 < cruise(noise=0.005, gains=0.1, channel=channel)[0] < 8.5


@pytest.mark.parametrize("noise", [0.005, 0.06, 0.2])
def test_a_steady_speed_is_not_stuck_if_the_other_one_has_noise(noise):
    assert cruise(noise=noise, gains=0.0) == []


def test_a_speed_of_zero_is_not_stuck_if_the_receiver_has_slow_errors():
    """The car stands between houses, where reflected signals come and go for seconds."""
    stuck = StuckChannels(1.5)
    stuck.find(of_speed(-1, 0.03), 0.03)  # its last digit is known
    for k in range(2000):
        of_receiver = 0.3 * max(0.0, np.sin(2.0 * np.pi * 0.01 * (k // 50 * 50) / 10.0))
        assert stuck.find(of_speed(k, 0.0), 0.0, {"gnss.speed": of_receiver}) == []


def test_a_speed_of_zero_is_stuck_if_another_sensor_shows_that_the_car_drives():
    stuck = StuckChannels(1.5)
    stuck.find(of_speed(-1, 0.03), 0.03)
    found = [
        bool(stuck.find(of_speed(k, 0.0), 0.0, {"gnss.speed": 0.02 * max(0, k // 50 * 50 - 200)}))
        for k in range(500)
    ]
    assert not any(found[:300])
    assert found[-1]


@pytest.mark.parametrize("seed", range(5))
def test_a_steady_speed_is_not_stuck_if_the_receiver_has_correlated_errors(seed):
    """The errors of a conventional receiver, 0.06 m/s (1 σ), are correlated for about a second."""
    stuck, rng, error = StuckChannels(1.5), np.random.default_rng(seed), 0.0
    for k in range(30_000):
        # A driver on a motorway: steady for seconds, then a little faster or slower.
        own = 20.0 + 0.3 * max(0.0, np.sin(0.01 * k / 3.0))
        if k % 50 == 0:
            error = 0.6 * error + 0.8 * 0.06 * rng.standard_normal()
            averages = {"gnss.speed": own + error, "vehicle.speed": own}
        assert stuck.find(of_speed(k, round(own / 0.0278) * 0.0278), own, averages) == []


def test_a_speed_in_whole_kilometres_per_hour_is_not_stuck():
    assert cruise(noise=0.005, gains=0.03, digit=1.0 / 3.6) == []


def drive_straight(seconds: float, turns: str = "", first: float = math.nan) -> list[float]:
    """Times, s, at which gyroscopes count as stuck whose readings do not change, unless at `first` by a step.

    The car begins to turn by 0.1 rad/s after 3 s, as `turns` shows: steering, wheels, or course.
    """
    check, found, means, course = StuckChannels(1.5), [], {}, 0.0
    random = np.random.default_rng(4)
    for k in range(round(seconds * 100)):
        turning = 0.1 if k > 300 else 0.0
        if k % 50 == 0:
            course -= 0.5 * turning
            apart = 0.75 * turning if turns == "wheels" else 0.0
            means = {"wheel.rl.speed": 30.0 - apart / 0.3, "wheel.rr.speed": 30.0 + apart / 0.3}
            means["gnss.course"] = course if turns == "course" else 0.0
        values = dict.fromkeys(GYROSCOPES, 0.017 if k / 100.0 >= first else 0.0)
        values |= {c: random.standard_normal() for c in ACCELEROMETERS}
        steering = turning if turns == "steering" else None
        if check.find(Measurement("imu", k * 10_000_000, 0, values), SPEED, means, steering):
            found.append(k / 100.0)
    return found


def test_a_coarse_gyroscope_is_not_stuck_before_its_first_change_on_a_straight_road():
    assert drive_straight(10.0) == []
    assert drive_straight(10.0, first=4.0) == []


@pytest.mark.parametrize(("turns", "within"), [("steering", 0.25), ("wheels", 1.0), ("course", 1.5)])
def test_a_gyroscope_that_never_changes_is_stuck_as_soon_as_the_car_turns(turns, within):
    found = drive_straight(6.0, turns)
    assert 3.0 < found[0] <= 3.0 + within
    assert len(found) == pytest.approx(100 * (6.0 - found[0]), abs=1)


@pytest.mark.parametrize(("noise", "is_found"), [(0.05, True), (0.0, False)])
@pytest.mark.parametrize("sent", [1, 3])
def test_a_noisy_speed_that_repeats_itself_is_stuck_also_at_a_steady_speed(noise, is_found, sent):
    """`sent`: how often a gateway sends each value. Without noise, a speed in digits may stay the same."""
    random, check, found, value = np.random.default_rng(3), StuckChannels(1.5), [], 0.0
    for k in range(400):
        if k < 200 and k % sent == 0:
            value = round(20.0 + 0.05 * min(k, 150) + noise * random.standard_normal(), 2)
        if check.find(of_speed(k, value), 20.0):
            found.append(k)
    assert bool(found) == is_found
    assert not found or 200 <= found[0] < 215 * sent**0.5
