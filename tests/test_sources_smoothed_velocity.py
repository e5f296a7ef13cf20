"""The error of a velocity smoothed by a device that remains in addition to its lag."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from vehicled.sources.speeds.smoothed_velocity import SmoothedVelocity
from vehicled.vehicle.arrays import AHEAD, POSE, YAW_RATE

MS = 1_000_000


def make(lag: float, has_direction: bool = True) -> tuple[SmoothedVelocity, np.ndarray]:
    pose = np.zeros(len(POSE))
    f = SimpleNamespace(pose=pose, slow=SimpleNamespace(view=lambda group: np.array([lag])))
    return SmoothedVelocity(f, SimpleNamespace(), has_direction), pose


def play(acceleration: float, turning: float, **options) -> float:
    """The noise after a second of driving, m/s."""
    smoothed, pose = make(0.1, **options)
    noise = math.nan
    for k in range(50):
        pose[AHEAD], pose[YAW_RATE] = 10.0 + acceleration * 0.02 * k, turning
        noise = smoothed.calc_noise(20 * MS * k)
    return noise


def test_a_steady_velocity_has_no_error():
    assert play(0.0, 0.0) == 0.0


def test_the_error_is_in_proportion_to_lag_and_acceleration():
    assert play(3.0, 0.0) == pytest.approx(0.3 * 0.1 * 3.0)
    assert play(0.0, 0.5) == pytest.approx(0.3 * 0.1 * 5.0)


def test_a_turn_adds_no_error_to_a_speed_without_direction():
    assert play(0.0, 0.5, has_direction=False) == 0.0
    assert play(-3.0, 0.5, has_direction=False) == pytest.approx(0.3 * 0.1 * 3.0)


def test_after_a_pause_no_error_is_added():
    smoothed, pose = make(0.1)
    smoothed.calc_noise(0)
    pose[AHEAD] = 20.0
    assert smoothed.calc_noise(5000 * MS) == 0.0


@pytest.mark.parametrize("period", [2.0, 4.0])
def test_the_error_bounds_the_difference_of_a_first_order_filter_to_a_delay(period):
    """For speeds that change with the period of a manoeuvre, smoothed over 0.2 s."""
    lag, turning = 0.2, 2.0 * math.pi / period
    smoothed, delayed = 1.0 / (1.0 + 1j * turning * lag), np.exp(-1j * turning * lag)
    assert abs(smoothed - delayed) < 0.3 * lag * turning
