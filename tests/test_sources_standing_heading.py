"""The heading of a car that is steered while it stands."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from vehicled.sources.imu.model import TURNING_CAR
from vehicled.sources.imu.standing_heading import StandingHeading
from vehicled.vehicle.arrays import AHEAD, LEFT, RACK, YAW

STEP, LOCK = 0.01, 0.07


class Filter:
    """A filter whose model turns the car at standstill as its wheels are steered."""

    def __init__(self, speed: float) -> None:
        self.pose, self._inputs = np.zeros(32), np.zeros(3)
        self.pose[AHEAD], self.turned = speed, 0.0
        self.turns = np.zeros(1)
        views = {"inputs": self._inputs, TURNING_CAR: self.turns}
        self.car = SimpleNamespace(view=views.__getitem__)

    def turn_heading(self, angle: float) -> None:
        """Correct the heading, as any update does."""
        self.pose[YAW] += angle
        self.turned += angle

    def steer(self, rack: float, by: float) -> None:
        self.pose[YAW] += by * (rack - self._inputs[RACK])
        self._inputs[RACK] = rack


def park(speed: float, turning: float = 0.0, noise: float = 0.002, sliding: float = 0.0) -> float:
    """Heading (rad) after three seconds of steering from stop to stop."""
    f, rng = Filter(speed), np.random.default_rng(1)
    f.pose[LEFT] = sliding
    standing = StandingHeading(f)
    for k in range(600):
        t = k * STEP
        f.steer(LOCK * math.sin(2 * math.pi * 0.25 * (t - 1.0)) if 1.0 < t < 4.0 else f._inputs[RACK], 0.2)
        standing.take(t, turning + noise * rng.standard_normal())
    return f.pose[YAW]


def test_the_heading_of_a_standing_car_is_that_of_the_gyroscopes_while_it_is_steered():
    assert abs(park(0.0)) < 0.001
    assert abs(park(3.0)) > 0.01  # the model's heading, if it rolls, or slides sideways in a spin
    assert abs(park(0.0, sliding=5.0)) > 0.01


def test_a_car_that_turns_while_it_is_steered_is_followed():
    assert park(0.5, turning=0.02) == pytest.approx(0.02 * 3.0, abs=0.02)


def test_a_correction_of_the_heading_while_it_is_steered_is_kept():
    f = Filter(0.5)
    standing = StandingHeading(f)
    for k in range(100):
        f.steer(0.001 * k, 0.2)
        standing.take(k * STEP, 0.0)
        if k == 50:
            f.turn_heading(1.0)
    assert f.pose[YAW] == pytest.approx(1.0, abs=0.001)


def test_gyroscopes_do_not_count_twice():
    """While they turn the car directly, their observation does not correct the heading; before and after, it does."""
    f = Filter(0.5)
    standing, turns = StandingHeading(f), []
    for k in range(400):
        f.steer(0.001 * min(max(k - 100, 0), 100), 0.2)
        standing.take(k * STEP, 0.0)
        turns.append(f.turns.item())
    assert not any(turns[:101])
    assert all(turns[102:200])
    assert not any(turns[350:])


def test_if_a_gyroscope_is_missing_observations_correct_the_heading_again():
    f = Filter(0.5)
    standing = StandingHeading(f)
    for k in range(100):
        f.steer(0.001 * k, 0.2)
        standing.take(k * STEP, 0.0)
    assert f.turns.item() == 1.0
    standing.miss()
    assert f.turns.item() == 0.0


def test_without_steering_the_heading_is_not_changed():
    f = Filter(0.0)
    standing = StandingHeading(f)
    for k in range(100):
        standing.take(k * STEP, 0.1)
    assert f.pose[YAW] == 0.0


def test_after_a_gap_the_heading_is_that_of_the_model():
    f = Filter(0.0)
    standing = StandingHeading(f)
    for k in range(10):
        f.steer(0.01 * k, 0.2)
        standing.take(0.5 * k, 0.3)
    assert f.pose[YAW] == pytest.approx(0.2 * 0.09)
