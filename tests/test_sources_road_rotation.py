"""Roads that turn the car: what gyroscopes measure beyond what springs can do."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from vehicled.sources.road_rotation import RoadRotation
from vehicled.vehicle.arrays import AHEAD, V1Z, V2Z


class Car:
    """A filter whose attitude follows nothing but the road."""

    def __init__(self) -> None:
        self.pose, self.road_lift = np.zeros(32), np.zeros(1)
        self.pose[AHEAD] = 20.0

    def tilt_road(self, slope: float, bank: float) -> None:
        self.pose[V1Z] += slope
        self.pose[V2Z] += bank


def take(road: RoadRotation, t: float, rates: tuple[float, float, float]) -> None:
    if road.is_due(t):
        road.take(t, rates)


def drive(rates: Callable[[float], tuple[float, float, float]], seconds: float) -> Car:
    """After five seconds without any."""
    car = Car()
    road = RoadRotation(car)
    for k in range(round((5.0 + seconds) * 250)):
        t = 0.004 * k
        take(road, t, rates(t - 5.0) if t > 5.0 else (0.0, 0.0, 0.0))
    return car


def test_a_bank_of_a_track_turns_the_road_but_for_what_springs_may_do():
    car = drive(lambda t: (-0.2, 0.0, 0.0), 2.0)
    assert -math.sin(0.4) < car.pose[V2Z] < -math.sin(0.4 - 0.09)
    assert abs(car.pose[V1Z]) < 1e-12


def test_a_ramp_stays_a_ramp_in_its_turn():
    """About the vertical, with the car's front up: no axis rises or falls."""
    climb, turning = 0.12, 0.5
    car = Car()
    car.pose[V1Z] = math.sin(climb)
    road = RoadRotation(car)
    for k in range(5000):
        take(road, 0.004 * k, (turning * math.sin(climb), 0.0, turning * math.cos(climb)))
    assert car.pose[[V1Z, V2Z]] == pytest.approx([math.sin(climb), 0.0], abs=1e-9)


@pytest.mark.parametrize("frequency", [0.5, 2.0])
def test_a_body_that_sways_by_two_degrees_is_no_road(frequency):
    by = math.radians(2.0) * 2 * math.pi * frequency
    car = drive(lambda t: tuple(by * math.cos(2 * math.pi * frequency * t) * a for a in (1, 1, 0)), 10.0)
    assert not car.pose[[V1Z, V2Z]].any()


def test_nor_are_a_bias_and_a_gap():
    assert not drive(lambda t: (0.01, -0.01, 0.0), 60.0).pose[[V1Z, V2Z]].any()
    car = Car()
    road = RoadRotation(car)
    for t in np.arange(0.0, 10.0, 0.5):
        road.take(float(t), (0.5, 0.5, 0.0))
    assert not car.pose[[V1Z, V2Z]].any()


def test_an_attitude_that_has_just_begun_may_become_any_other():
    car = Car()
    road = RoadRotation(car)
    for k in range(500):
        car.pose[V2Z] = min(0.001 * k, 0.1)
        take(road, 0.004 * k, (0.0, 0.0, 0.0))
    assert car.pose[V2Z] == 0.1


def test_a_road_that_curves_upwards_lifts_the_car_and_one_that_undulates_does_not():
    lift = drive(lambda t: (0.0, -0.1, 0.0), 10.0).road_lift[0]
    assert lift == pytest.approx(0.1 * 20.0, rel=1e-3)
    dive = drive(lambda t: (0.0, 0.3 * math.cos(6.0 * t), 0.0), 10.0).road_lift[0]
    assert dive == pytest.approx(0.0, abs=1.2)
    assert drive(lambda t: (0.0, 0.02, 0.0), 10.0).road_lift[0] == 0.0
