"""A car's own speed that goes wrong is found beside other speeds, and no healthy one is rejected."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from vehicled.sources.checks.speed_judge import SpeedJudge
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.vehicle_speed import VehicleSpeed
from vehicled.sources.speeds.wheels import ANGLES

RADIUS, BEGIN, END, LENGTH = 0.3, 6.0, 10.0, 14.0
TIMED = replace(Sensors(), vehicle_speed=VehicleSpeed(latency_sigma=0.0))
OTHERS = frozenset(("wheels", "receiver", "accelerometers"))


def steady(t: float) -> float:
    return 15.0


def braking(t: float) -> float:
    return 25.0 - 8.0 * min(max(t - BEGIN, 0.0), 2.0)


def fault(change: Callable[[float, float], float]) -> Callable[[float, float], float]:
    """`change` of a value, given the time since `BEGIN`, until `END`."""
    return lambda t, value: change(t - BEGIN, value) if BEGIN <= t < END else value


def right(t: float, value: float) -> float:
    return value


def find_wrong(
    speed: Callable[[float], float] = steady,
    own: Callable[[float, float], float] = right,
    wheels: Callable[[float, float], float] = right,
    receiver: Callable[[float, float], float] = right,
    acceleration: Callable[[float, float], float] = right,
    others: frozenset[str] = OTHERS,
    sensors: Sensors = TIMED,
    slide: float = math.inf,
    latency: tuple[float, float] | None = None,
) -> list[float]:
    """Times, s, at which the car's own speed is held to be wrong, of a car with that `speed`.

    `slide`: time, s, from which on the car goes sideways; `latency`: of its own speed as estimated, and its σ, s.
    """
    random, judge, found, angle = np.random.default_rng(1), SpeedJudge(sensors, RADIUS), [], 0.0
    if latency is not None:
        judge.note_latency(*latency)
    for k in range(round(LENGTH * 500)):
        t, at = k / 500, k * 2_000_000
        v = speed(t)
        if k % 2 == 0 and "accelerometers" in others:
            a = acceleration(t, (speed(t + 1e-3) - speed(t - 1e-3)) / 2e-3)
            forces = {"imu.ax": a + 0.1 * random.standard_normal(), "imu.ay": 0.0, "imu.az": 9.81}
            judge.gained.take(at, forces)
        angle += 0.002 * wheels(t, v) / RADIUS
        if k % 5 == 0:
            values = {"vehicle.speed": own(t, v) + 0.03 * random.standard_normal()}
            if "wheels" in others:
                values |= dict.fromkeys(ANGLES, 0.0654 * math.floor(angle / 0.0654))
            judge.take(at, values, v, slides=t > slide)
            if judge.is_wrong:
                found.append(t)
        if k % 100 == 0 and "receiver" in others:
            judge.take(at, {"gnss.speed": receiver(t, v) + 0.1 * random.standard_normal()}, v, slides=False)
    return found


@pytest.mark.parametrize("left_out", [None, *sorted(OTHERS)])
@pytest.mark.parametrize("change", [lambda t, v: 0.93 * v, lambda t, v: v + 1.0, lambda t, v: v - 2.0])
def test_a_speed_that_steps_is_wrong_until_it_steps_back(change, left_out):
    found = find_wrong(own=fault(change), others=OTHERS - {left_out})
    assert found[0] - BEGIN < (0.4 if left_out != "wheels" else 0.6)
    assert 0.0 < found[-1] - END < 1.0
    assert len(found) == pytest.approx(100 * (found[-1] - found[0]), abs=2)


@pytest.mark.parametrize("rate", [0.25, -0.25])
def test_a_speed_that_drifts_is_wrong_beside_wheels_and_receiver(rate):
    found = find_wrong(own=fault(lambda t, v: v + rate * t))
    assert found[0] - BEGIN < 2.5
    assert found[-1] - END < 1.0


@pytest.mark.parametrize("speed", [steady, braking])
@pytest.mark.parametrize(
    "wrong",
    [
        {"wheels": fault(lambda t, v: 0.3 * v)},
        {"wheels": fault(lambda t, v: 0.0)},
        {"wheels": fault(lambda t, v: 1.4 * v)},
        {"receiver": fault(lambda t, v: v + 1.0)},
        {"receiver": fault(lambda t, v: v - 0.25 * t)},
        {"acceleration": fault(lambda t, a: a + 2.0)},
        {"wheels": fault(lambda t, v: 0.3 * v), "receiver": fault(lambda t, v: v + 1.0)},
        {"others": frozenset(("accelerometers",)), "own": fault(lambda t, v: v + 1.0)},
    ],
    ids=[
        "slipping",
        "locked",
        "spinning",
        "reflections",
        "spoofed",
        "accelerometer",
        "two that differ",
        "one other",
    ],
)
def test_a_speed_is_not_rejected_for_one_other_that_goes_wrong(speed, wrong):
    assert find_wrong(speed, **wrong) == []


@pytest.mark.parametrize(("after", "stays"), [(0.4, False), (3.0, True)])
def test_what_the_beginning_of_a_slide_shows_is_no_fault(after, stays):
    """In a slide the receiver also measures the lateral speed, and accelerometers the turn of the velocity."""
    found = find_wrong(own=fault(lambda t, v: v - 1.0), slide=BEGIN + after)
    assert found[0] < BEGIN + 0.4
    assert (found[-1] > BEGIN + after + 0.5) == stays


@pytest.mark.parametrize("seconds", [0.2, 0.4])
def test_a_smoothed_speed_of_unknown_time_is_right_while_the_car_brakes(seconds):
    smoothed = [braking(0.0)]

    def lag(t: float, value: float) -> float:
        smoothed[0] += (value - smoothed[0]) * 0.01 / seconds
        return smoothed[0]

    assert find_wrong(braking, lag, sensors=Sensors()) == []


def stepping_while_braking(**of: object) -> list[float]:
    """1 m/s off from shortly before the end of the braking on, with a latency whose σ is 0.02 s at first."""
    step = fault(lambda t, v: v + 1.0 * (t > 1.0))
    return find_wrong(braking, step, sensors=Sensors(), **of)


def test_a_speed_is_found_wrong_while_the_car_brakes_once_its_latency_is_known():
    assert stepping_while_braking() == []
    assert stepping_while_braking(latency=(0.0, 0.015)) == []
    found = stepping_while_braking(latency=(0.002, 0.004))
    assert found[0] - BEGIN - 1.0 < 0.5


def test_a_speed_stays_wrong_while_the_car_brakes():
    """What a late speed may be off by then does not make it right again."""

    def drives_on(t: float) -> float:
        return 25.0 - 8.0 * min(max(t - BEGIN - 1.0, 0.0), 2.0)

    found = find_wrong(drives_on, fault(lambda t, v: v + 1.0), sensors=Sensors())
    assert found[0] - BEGIN < 0.4
    assert 0.0 < found[-1] - END < 1.5
    assert len(found) == pytest.approx(100 * (found[-1] - found[0]), abs=2)


@pytest.mark.parametrize("digit", [1.0 / 3.6, 0.01 / 3.6])
@pytest.mark.parametrize("every", [0.01, 0.1])
def test_a_coarse_or_rarely_updated_speed_is_right_while_the_car_brakes(digit, every):
    def measured(t: float, value: float) -> float:
        return digit * round(braking(t - t % every) / digit)

    assert find_wrong(braking, measured, sensors=Sensors()) == []


def test_a_speed_that_is_right_on_a_slope_that_begins_is_not_wrong():
    uphill = fault(lambda t, a: a + 0.8 * min(t, 1.0))
    assert find_wrong(acceleration=uphill, wheels=fault(lambda t, v: 0.99 * v)) == []
