"""Checks of the IMU's axes and of exchanged wheels, with simulated averages over half a second."""

import math

import pytest
from estimator_rig import prototype

from vehicled.sources.checks.averages import Averages
from vehicled.sources.checks.mounting_check import MountingCheck


def check(
    turn_imu=lambda v: v, wheels: float = 1.0, gyro: float = 1.0, steering: float = 1.0, slope: float = 0.0
):
    """Channels found to be wrong in 30 s of bends at 15 m/s, and the time at which the first were found, s."""
    configuration = prototype()
    found = MountingCheck(configuration.sensors, configuration.vehicle)
    axle = configuration.vehicle.axle("fl")
    per_turn = axle.tyre.radius / (2.0 * axle.hard_points.wheel_center[1])
    first = None
    for k in range(60):
        t = 0.5 * k
        rate, speed = 0.3 * math.sin(0.5 * t), 15.0 + 2.0 * math.sin(0.3 * t)
        force = [0.6 * math.cos(0.3 * t) - 9.81 * slope, speed * rate, 9.81 * math.sqrt(1.0 - slope**2)]
        ax, ay, az = turn_imu(force)
        wx, wy, wz = turn_imu([0.0, 0.0, rate])
        means = {"imu.ax": ax, "imu.ay": ay, "imu.az": az, "imu.wx": wx, "imu.wy": wy, "imu.wz": gyro * wz}
        difference = wheels * rate / per_turn / 2.0
        rates = {
            f"wheel.{a}{s}.angle": 48.0 + sign * difference for a in "fr" for s, sign in (("l", -1), ("r", 1))
        }
        found.take(Averages({**means, "vehicle.speed": speed}, rates), steering * rate)
        if found.wrong and first is None:
            first = t
    return found.wrong, first


@pytest.mark.parametrize("slope", [0.0, 0.2, -0.2])
def test_a_correct_mounting_is_not_suspected_on_slopes(slope):
    assert check(slope=slope) == (frozenset(), None)


def test_an_imu_that_is_upside_down_is_found_at_once():
    wrong, first = check(lambda v: [v[0], -v[1], -v[2]])
    assert {"imu.az", "imu.wz"} <= wrong
    assert first == 0.0


def test_an_imu_on_its_side_is_found_within_three_seconds():
    wrong, first = check(lambda v: [v[0], v[2], -v[1]])
    assert "imu.ay" in wrong
    assert first <= 3.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_imu_turned_by_90_degrees_is_found_in_bends(sign):
    wrong, first = check(lambda v: [sign * v[1], -sign * v[0], v[2]])
    assert "imu.ax" in wrong
    assert first < 8.0


def test_an_imu_turned_by_20_degrees_is_not_reported():
    c, s = math.cos(math.radians(20)), math.sin(math.radians(20))
    assert check(lambda v: [c * v[0] + s * v[1], c * v[1] - s * v[0], v[2]])[0] == frozenset()


def test_exchanged_wheels_are_found_by_gyroscope_and_steering():
    assert {"wheel.fl.angle", "wheel.rr.angle"} <= check(wheels=-1.0)[0]


def test_wheels_are_not_suspected_if_the_gyroscope_has_the_wrong_sign():
    assert not any(c.startswith("wheel.") for c in check(gyro=-1.0)[0])


@pytest.mark.parametrize("turn", [0.3, -0.3])
@pytest.mark.parametrize("stuck", ["fl", "fr", "rl", "rr"])
@pytest.mark.parametrize("share", [0.0, 0.7])
def test_a_wheel_that_is_stuck_or_misses_teeth_is_not_reported_as_exchanged(stuck, turn, share):
    """In bends to either side, at 15 m/s. The other wheel of the axle is healthy."""
    configuration = prototype()
    found = MountingCheck(configuration.sensors, configuration.vehicle)
    values = {"imu.ax": 0.0, "imu.ay": 15.0 * turn, "imu.az": 9.81}
    values |= {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": turn, "vehicle.speed": 15.0}
    axle = configuration.vehicle.axle("fl")
    half = axle.hard_points.wheel_center[1] * turn
    rates = {
        f"wheel.{a}{s}.angle": (15.0 + by) / axle.tyre.radius
        for a in "fr"
        for s, by in (("l", -half), ("r", half))
    }
    for k in range(60):
        if k == 20:
            rates[f"wheel.{stuck}.angle"] *= share
        found.take(Averages(values, rates), turn)
        assert not found.wrong


@pytest.mark.parametrize("forwards", [0.0, 5.0])
def test_an_imu_is_not_suspected_if_the_car_reverses_and_its_speed_has_no_sign(forwards):
    """`forwards`: time (s) before the car reverses, at 6 m/s and ±0.5 rad/s."""
    configuration = prototype()
    found = MountingCheck(configuration.sensors, configuration.vehicle)
    axes = configuration.sensors.imu.R_imu_vehicle
    for k in range(80):
        speed, rate = 8.0 if 0.5 * k < forwards else -6.0, 0.5 if (k // 6) % 2 else -0.5
        values = [*(axes @ [0.0, speed * rate, 9.81]), *(axes @ [0.0, 0.0, rate])]
        means = dict(zip(("imu.ax", "imu.ay", "imu.az", "imu.wx", "imu.wy", "imu.wz"), values, strict=True))
        found.take(Averages({**means, "gnss.speed": abs(speed)}), None, speed)
        assert not found.wrong


@pytest.mark.parametrize("speed", [15.0, 16.0, 17.0])
def test_an_imu_that_was_silent_while_the_car_braked_is_not_suspected_in_the_next_bend(speed):
    """The car brakes from 20 m/s on a straight, and the IMU is silent for 2.5 s."""
    configuration = prototype()
    found = MountingCheck(configuration.sensors, configuration.vehicle)
    for k in range(60):
        ahead, rate = (20.0, 0.0) if k < 20 else (speed, 0.3)
        means = {"imu.ax": 0.1, "imu.ay": ahead * rate, "imu.az": 9.81}
        means |= {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": rate}
        found.take(Averages({"vehicle.speed": ahead, **({} if 16 <= k < 21 else means)}), None, ahead)
        assert not found.wrong


def find_reversed(
    check: MountingCheck | None = None,
    *,
    ahead: float,
    turn: float = 1.0,
    gyro: float = 1.0,
    steering: float = 1.0,
    intervals: int = 40,
) -> list[bool]:
    """Whether the car is found to go opposite to the estimate, by interval; `turn`: sign of the IMU's x and y."""
    configuration = prototype()
    check = check or MountingCheck(configuration.sensors, configuration.vehicle)
    found = []
    for k in range(intervals):
        t = 0.5 * k
        rate, speed = 0.4 * math.sin(t), abs(ahead) + 0.5 * math.sin(0.8 * t)
        force = turn * 0.4 * math.cos(0.8 * t), turn * speed * rate, 9.81
        values = dict(zip(("imu.ax", "imu.ay", "imu.az"), force, strict=True))
        values |= {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": gyro * rate, "vehicle.speed": speed}
        check.take(Averages(values, course_rate=rate), steering * rate, ahead)
        found.append(check.is_reversed)
    return found


def test_a_car_that_goes_opposite_to_the_estimate_is_found_in_bends():
    found = find_reversed(ahead=5.0, turn=-1.0, steering=-1.0)
    assert found.index(True) < 10


def test_a_car_that_seems_to_go_backwards_too_fast_is_found_to_go_forwards():
    assert any(find_reversed(ahead=-12.0, steering=0.0))


def test_an_imu_turned_by_180_degrees_is_found_though_it_has_reversed_the_estimate():
    """Nothing but the steering contradicts the two, until the car is too fast to reverse."""
    configuration = prototype()
    check = MountingCheck(configuration.sensors, configuration.vehicle)
    assert find_reversed(check, ahead=-12.0, turn=-1.0, steering=-1.0).index(True) == 3
    assert not check.wrong
    check.turn_round()
    assert not any(find_reversed(check, ahead=12.0, turn=-1.0, intervals=1))
    assert "imu.ax" in check.wrong


def test_a_turned_imu_stays_unused_while_its_direction_is_not_known():
    configuration = prototype()
    check = MountingCheck(configuration.sensors, configuration.vehicle)
    find_reversed(check, ahead=12.0, turn=-1.0)
    assert "imu.ax" in check.wrong
    states = []
    for _ in range(60):  # it is turned back by hand
        find_reversed(check, ahead=12.0, intervals=3)
        states.append((check.turned_by is None, bool(check.wrong)))
    assert (True, True) in states
    assert (True, False) not in states
    assert states[-1] == (False, False)


def test_a_car_that_has_gone_ahead_may_slide_backwards_for_long():
    """As on ice, after a spin."""
    configuration = prototype()
    check = MountingCheck(configuration.sensors, configuration.vehicle)
    find_reversed(check, ahead=12.0)
    assert not any(find_reversed(check, ahead=-12.0, turn=-1.0))


def test_an_imu_that_seemed_turned_is_used_once_the_estimate_has_turned_round():
    configuration = prototype()
    check = MountingCheck(configuration.sensors, configuration.vehicle)
    find_reversed(check, ahead=12.0, turn=-1.0)
    assert "imu.ax" in check.wrong
    check.turn_round()
    check.take(Averages({}), None, 5.0)
    still = {f"imu.{c}": 0.0 for c in ("ax", "ay", "wx", "wy", "wz")} | {"imu.az": 9.81, "vehicle.speed": 5.0}
    check.take(Averages(still), 0.0, 5.0)
    assert not check.wrong


@pytest.mark.parametrize(
    "what",
    [
        pytest.param({"turn": -1.0}, id="an IMU that is turned by 180°"),
        pytest.param({"gyro": -1.0}, id="a gyroscope of the other sign"),
        pytest.param({"steering": -1.0}, id="a steering of the other sign"),
    ],
)
def test_a_single_sensor_of_the_wrong_sign_does_not_reverse_the_car(what):
    assert not any(find_reversed(ahead=5.0, **what))
