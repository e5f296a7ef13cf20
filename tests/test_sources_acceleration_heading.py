"""The heading of a car before the filter runs, from what receiver and accelerometers measure of one motion."""

import math

import numpy as np
import pytest

from vehicled.sources.acceleration_heading import AccelerationHeading

SPEED, YAW_RATE, RADIUS = 16.0, 0.35, 16.0 / 0.35


def observe(
    found: AccelerationHeading, sideslip: float, seconds: float, noise: float = 0.0, gap: float = 0.0
) -> float:
    """A car on a circle that points `sideslip` to the right of where it goes; returns its yaw at the last fix."""
    rng = np.random.default_rng(4)
    centripetal = SPEED * YAW_RATE
    last = 0.0
    for k in range(round(seconds * 100) + 1):
        t = 100.0 + 0.01 * k
        course_yaw = 0.4 + YAW_RATE * (t - 100.0)  # of the velocity, counted as yaw is
        if not 0.1 < t - 100.0 < 0.1 + gap:
            found.take_forces(t, YAW_RATE, centripetal * math.sin(sideslip), centripetal * math.cos(sideslip))
        if k % 5 == 0:
            speed, course = SPEED + noise * rng.standard_normal(), 0.5 * math.pi - course_yaw
            found.take_velocity(t, speed, course + noise / SPEED * rng.standard_normal())
            last = course_yaw + sideslip
    return last


@pytest.mark.parametrize("sideslip", [0.0, 0.3, -0.5])
def test_a_skidding_car_is_found_to_point_where_it_does(sideslip: float) -> None:
    found = AccelerationHeading()
    yaw = observe(found, -sideslip, 0.5)
    alignment = found.find()
    assert alignment is not None
    assert math.remainder(alignment.yaw - yaw, 2 * math.pi) == pytest.approx(0.0, abs=0.02)
    assert math.atan2(alignment.left, alignment.ahead) == pytest.approx(sideslip, abs=0.02)
    assert math.hypot(alignment.ahead, alignment.left) == pytest.approx(SPEED)


def test_noise_of_the_receiver_is_within_its_sigma() -> None:
    found = AccelerationHeading()
    yaw = observe(found, 0.2, 0.5, noise=0.05)
    alignment = found.find()
    assert alignment is not None
    assert abs(math.remainder(alignment.yaw - yaw, 2 * math.pi)) < 2 * alignment.sigma
    assert alignment.sigma < 0.2


def test_too_short_a_time_a_gap_or_hardly_any_acceleration_give_nothing() -> None:
    short, gap, straight = AccelerationHeading(), AccelerationHeading(), AccelerationHeading()
    observe(short, 0.2, 0.2)
    assert short.find() is None
    observe(gap, 0.2, 0.6, gap=0.4)
    assert gap.find() is None
    for k in range(60):
        straight.take_forces(0.01 * k, 0.0, 0.5, 0.0)
        straight.take_velocity(0.01 * k, SPEED + 0.005 * k, 0.3)
    assert straight.find() is None
