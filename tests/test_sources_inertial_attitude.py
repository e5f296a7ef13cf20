"""Attitude by gyroscopes and accelerometers, compared with rotations and motions that are known exactly."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from vehicled.sources.imu.inertial_attitude import InertialAttitude, find_rises, limit

STEP = 0.01
GRAVITY = 9.81


def calc_rises(attitude: Rotation) -> complex:
    return complex(*attitude.as_matrix()[2, :2])


def add_up(step: float) -> tuple[complex, complex]:
    """Found and true rises after 3 s of roll, pitch and yaw rates that are constant within each step."""
    t = np.arange(0.0, 3.0, step) + step / 2
    rates = np.column_stack([0.3 * np.cos(2 * t), 0.2 * np.sin(3 * t), 0.8 + 0 * t])
    body, attitude = Rotation.from_euler("ZYX", [1.0, -0.1, 0.2]), InertialAttitude()
    attitude.rises = calc_rises(body)
    for w in rates:
        body *= Rotation.from_rotvec(w * step)
        attitude.advance(step, w, attitude.rises)
    return attitude.rises, calc_rises(body)


def test_integrated_rates_give_the_attitude():
    coarse, fine = (abs(found - true) for found, true in map(add_up, (0.01, 0.001)))
    assert coarse < 0.004
    assert fine == pytest.approx(0.1 * coarse, rel=0.1)


def test_the_attitude_approaches_the_reference_within_the_given_rate():
    attitude, slow = InertialAttitude(), InertialAttitude()
    for _ in range(1000):
        attitude.advance(STEP, (0.0, 0.0, 0.0), 0.1 - 0.05j)
        slow.advance(STEP, (0.0, 0.0, 0.0), 0.5 + 0.001j, 0.02)
    assert attitude.rises == pytest.approx((0.1 - 0.05j) * (1 - math.exp(-2)), rel=2e-3)
    assert slow.rises.real == pytest.approx(0.02 * 10.0 / 5.0)
    assert slow.rises.imag == pytest.approx(0.001 * (1 - math.exp(-2)), rel=2e-3)


@pytest.mark.parametrize("place", [0j, 1.2 - 0.4j])
def test_specific_force_shows_climb_and_bank_of_a_car_that_turns_and_brakes(place):
    """The reference force is a numerical derivative of the velocity in axes that do not turn."""
    climb, bank, turning = 0.06, -0.04, 0.5
    up = np.array([climb, bank, math.sqrt(1 - climb**2 - bank**2)])  # the world's vertical in the car's axes
    t, h = 2.0, 1e-4

    def move(t: float) -> np.ndarray:
        """Velocity of `place` in axes that do not turn: the car's axes at t = 0. The car turns about its z axis."""
        v = np.array([15.0 - 3.0 * t, 0.3 * t]) + turning * np.array([-place.imag, place.real])
        c, s = math.cos(turning * t), math.sin(turning * t)
        return np.array([[c, -s], [s, c]]) @ v

    acceleration = (move(t + h) - move(t - h)) / (2 * h)
    c, s = math.cos(turning * t), math.sin(turning * t)
    force = np.array([[c, s], [-s, c]]) @ acceleration + GRAVITY * up[:2]
    found = find_rises(
        complex(*force), -3.0 + 0.3j, complex(15.0 - 3.0 * t, 0.3 * t), turning, place, GRAVITY
    )
    assert found == pytest.approx(complex(climb, bank), abs=1e-6)


def test_each_axis_has_a_limit_of_its_own():
    assert limit(3.0 - 4.0j, 2.0, 1.0) == 2.0 - 1.0j
    assert limit(-0.3 + 0.4j, 2.0, 1.0) == -0.3 + 0.4j
