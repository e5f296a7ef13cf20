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
    """Whose car turns with its wheels while it stands."""

    def __init__(self, speed: float) -> None:
        self.pose, self._inputs = np.zeros(32), np.zeros(3)
        self.pose[AHEAD], self.turned = speed, 0.0
        self.turns = np.zeros(1)
        views = {"inputs": self._inputs, TURNING_CAR: self.turns}
        self.car = SimpleNamespace(view=views.__getitem__)

    def turn_heading(self, angle: float) -> None:
        """As all that corrects a heading."""
        self.pose[YAW] += angle
        self.turned += angle

    def steer(self, rack: float, by: float) -> None:
        self.pose[YAW] += by * (rack - self._inputs[RACK])
        self._inputs[RACK] = rack


def park(speed: float, turning: float = 0.0, noise: float = 0.002, sliding: float = 0.0) -> float:
    """Heading (rad) after steering from stop to stop for four seconds."""
    f, rng = Filter(speed), np.random.default_rng(1)
    f.pose[LEFT] = sliding
    standing = StandingHeading(f)
    for k in range(600):
        t = k * STEP
        f.steer(LOCK * math.sin(2 * math.pi * 0.25 * (t - 1.0)) if 1.0 < t < 4.0 else f._inputs[RACK], 0.2)
        standing.take(t, turning + noise * rng.standard_normal())
    return f.pose[YAW]


def test_the_heading_of_a_car_that_is_steered_while_it_stands_is_that_of_the_gyroscopes():
    assert abs(park(0.0)) < 0.001
    assert abs(park(3.0)) > 0.01  # of one that rolls, or slides sideways in a spin, it is the model's
    assert abs(park(0.0, sliding=5.0)) > 0.01


def test_a_car_that_turns_meanwhile_is_followed():
    assert park(0.5, turning=0.02) == pytest.approx(0.02 * 3.0, abs=0.02)


def test_a_heading_that_is_found_meanwhile_stays():
    f = Filter(0.5)
    standing = StandingHeading(f)
    for k in range(100):
        f.steer(0.001 * k, 0.2)
        standing.take(k * STEP, 0.0)
        if k == 50:
            f.turn_heading(1.0)
    assert f.pose[YAW] == pytest.approx(1.0, abs=0.001)


def test_gyroscopes_do_not_count_twice():
    """Their observation corrects no heading while they turn the car, and does before and after that."""
    f = Filter(0.5)
    standing, turns = StandingHeading(f), []
    for k in range(400):
        f.steer(0.001 * min(max(k - 100, 0), 100), 0.2)
        standing.take(k * STEP, 0.0)
        turns.append(f.turns.item())
    assert not any(turns[:101])
    assert all(turns[102:200])
    assert not any(turns[350:])


def test_without_all_gyroscopes_the_others_correct_the_heading():
    f = Filter(0.5)
    standing = StandingHeading(f)
    for k in range(100):
        f.steer(0.001 * k, 0.2)
        standing.take(k * STEP, 0.0)
    assert f.turns.item() == 1.0
    standing.miss()
    assert f.turns.item() == 0.0


def test_one_that_is_not_steered_is_left_alone():
    f = Filter(0.0)
    standing = StandingHeading(f)
    for k in range(100):
        standing.take(k * STEP, 0.1)
    assert f.pose[YAW] == 0.0


def test_after_a_gap_nothing_is_known():
    f = Filter(0.0)
    standing = StandingHeading(f)
    for k in range(10):
        f.steer(0.01 * k, 0.2)
        standing.take(0.5 * k, 0.3)
    assert f.pose[YAW] == pytest.approx(0.2 * 0.09)
