"""Rotation of the car by the road: by an IMU, beyond what springs can explain."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from vehicled.filter.states import VELOCITY, Group
from vehicled.sources.imu.road_rotation import RoadRotation
from vehicled.vehicle.arrays import AHEAD, AX, LEFT, V1Z, V2Z

GRAVITY, SPEED = 9.81, 20.0
Rates = Callable[[float], tuple[float, float, float]]


class Filter:
    """A filter whose attitude changes only by the rotation of the road."""

    def __init__(self, sigma: float = 0.0) -> None:
        """`sigma`: of its velocity, m/s."""
        self.sigma = sigma
        self.pose, self.road_lift = np.zeros(32), np.zeros(1)
        self.pose[AHEAD] = SPEED
        self.car = SimpleNamespace(vehicle=SimpleNamespace(gravity=GRAVITY))
        self.turned = 0j
        self.levelled: list[complex] = []
        self.road = RoadRotation(self)

    @property
    def rises(self) -> complex:
        return complex(self.pose[V1Z], self.pose[V2Z])

    def get_variance(self, group: Group, element: str = "") -> float:
        return self.sigma**2 if group is VELOCITY else 0.0

    def level(self, lean: complex, sigma: tuple[float, float]) -> None:
        self.levelled.append(lean)

    def tilt_road(self, slope: float, bank: float) -> None:
        self.pose[V1Z] += slope
        self.pose[V2Z] += bank
        self.turned += complex(slope, bank)


def drive(
    rates: Rates,
    seconds: float,
    force: Callable[[float, Filter], complex] | None = None,
    begin: Callable[[float, Filter], None] = lambda t, f: None,
    settling: float = 12.0,
    sigma: float = 0.0,
) -> Filter:
    """The filter after a drive. The first `settling` seconds are straight on and level.

    `force`: what the accelerometers measure; None: no accelerometers.
    """
    f = Filter(sigma)
    road = f.road
    for k in range(round((settling + seconds) * 250)):
        t = 0.004 * k - settling
        begin(t, f)
        if road.is_due(t):
            of_level = 0j if force is None or t < 0.0 else force(t, f)
            w = rates(t) if t > 0.0 else (0.0, 0.0, 0.0)
            road.take(t, w, None if force is None else of_level, 0j)
    return f


def test_a_banked_track_rotates_the_road_less_the_lean_that_springs_allow():
    f = drive(lambda t: (-0.2, 0.0, 0.0), 2.0)
    assert -math.sin(0.4) < f.rises.imag < -math.sin(0.4 - 0.1)
    assert abs(f.rises.real) < 1e-12


def test_gyroscopes_that_no_road_explains_do_not_rotate_it():
    """In deg/s instead of rad/s."""
    assert drive(lambda t: (-5.0, 2.0, 0.0), 2.0).rises == 0j


def test_no_rotation_is_found_while_the_velocity_is_uncertain():
    f = drive(lambda t: (-0.2, 0.0, 0.0), 12.0, sigma=0.2)
    assert (f.rises, f.levelled) == (0j, [])


def test_a_hill_that_gyroscopes_and_accelerometers_show_is_followed():
    """The slope rises to 8 % within 3 s and stays for half a minute. The filter itself would stay level."""
    climb = 0.08

    def rates(t: float) -> tuple[float, float, float]:
        return (0.0, -climb / 3.0 if t < 3.0 else 0.0, 0.0)

    f = drive(rates, 30.0, lambda t, f: complex(GRAVITY * climb * min(t / 3.0, 1.0), 0.0))
    assert climb - 0.04 < f.rises.real <= climb
    assert abs(f.rises.imag) < 1e-6


def test_the_slope_of_a_ramp_stays_the_same_while_the_car_turns_on_it():
    """The car turns about the vertical with its front up: its axes do not rise or fall."""
    climb, turning = 0.12, 0.5

    def begin(t: float, f: Filter) -> None:
        if t < -11.99:
            f.pose[V1Z] = math.sin(climb)

    f = drive(lambda t: (turning * math.sin(climb), 0.0, turning * math.cos(climb)), 20.0, begin=begin)
    assert f.rises == pytest.approx(math.sin(climb), abs=1e-6)


@pytest.mark.parametrize("frequency", [0.5, 2.0])
def test_pitch_of_two_degrees_under_acceleration_is_not_taken_for_the_road(frequency):
    by, pulse = math.radians(2.0), 2 * math.pi * frequency

    def accelerate(t: float, f: Filter) -> None:
        f.pose[AX] = 4.0 * math.sin(pulse * t) if t > 0.0 else 0.0

    f = drive(lambda t: (0.0, by * pulse * math.cos(pulse * t), 0.0), 10.0, begin=accelerate)
    assert not f.turned
    # The same pitch at a steady speed is.
    assert drive(lambda t: (0.0, by * pulse * math.cos(pulse * t), 0.0), 10.0).turned


def test_an_imu_mounted_askew_does_not_rotate_the_road():
    askew = 0.05
    f = drive(lambda t: (0.0, 0.0, 0.0), 60.0, lambda t, f: complex(0.0, GRAVITY * askew), settling=0.0)
    assert abs(f.turned) < 0.02


def test_a_failed_accelerometer_rotates_the_road_slowly():
    f = drive(lambda t: (0.0, 0.0, 0.0), 5.0, lambda t, f: complex(0.0, 5.0))
    assert abs(f.turned) < 0.02 * 5.0 / 5.0


def test_accelerometers_do_not_rotate_the_road_while_the_car_slides():
    def slide(t: float, f: Filter) -> None:
        f.pose[LEFT] = 0.4 * SPEED

    def level(t: float, f: Filter) -> None:
        f.pose[LEFT] = 0.0

    turned = [
        drive(lambda t: (0.0, 0.0, 0.0), 10.0, lambda t, f: complex(0.0, 1.0), begin=begin).turned
        for begin in (slide, level)
    ]
    assert not turned[0]
    assert turned[1]


def test_a_bias_or_a_gap_of_the_gyroscopes_does_not_rotate_the_road():
    assert not drive(lambda t: (0.002, -0.002, 0.0), 60.0).turned
    f = Filter()
    road = f.road
    for t in np.arange(0.0, 20.0, 0.5):
        road.take(float(t), (0.5, 0.5, 0.0), None, 0j)
    assert not f.turned


def test_a_change_of_the_attitude_just_after_the_start_is_not_undone():
    def rise(t: float, f: Filter) -> None:
        f.pose[V2Z] = min(0.25 * t, 0.1)

    assert drive(lambda t: (0.0, 0.0, 0.0), 2.0, begin=rise, settling=0.0).rises.imag == 0.1


def test_a_road_that_curves_upwards_lifts_the_car_and_one_that_undulates_does_not():
    lift = drive(lambda t: (0.0, -0.1, 0.0), 10.0).road_lift[0]
    assert lift == pytest.approx(0.1 * SPEED, rel=1e-3)
    dive = drive(lambda t: (0.0, 0.3 * math.cos(6.0 * t), 0.0), 10.0).road_lift[0]
    assert dive == pytest.approx(0.0, abs=1.2)
    assert drive(lambda t: (0.0, 0.02, 0.0), 10.0).road_lift[0] == 0.0


def test_a_slope_at_the_start_is_found():
    """Accelerometers show it within the first seconds, however wrong the initial estimate is."""
    f = drive(lambda t: (0.0, 0.0, 0.0), 7.0, lambda t, f: complex(GRAVITY * 0.12, 0.0), settling=0.0)
    assert f.rises.real + f.road.levelled.real == pytest.approx(0.12, abs=0.005)


def test_a_wrong_attitude_of_the_filter_does_not_change_that_by_the_imu():
    """The filter's velocity drifts between its corrections, and jumps back with each of them."""
    wrong = 0.1

    def go_wrong(t: float, f: Filter) -> None:
        f.pose[V1Z] = wrong if t > 0.0 else 0.0
        f.pose[AHEAD] = SPEED - GRAVITY * wrong * (t % 0.1 if t > 0.0 else 0.0)

    f = drive(lambda t: (0.0, 0.0, 0.0), 20.0, lambda t, f: 0j, begin=go_wrong, settling=12.0)
    assert f.road.levelled.real == pytest.approx(-wrong, abs=0.02)


def test_after_20_s_the_filter_is_levelled_relative_to_the_usual_difference():
    def rise(t: float, f: Filter) -> None:
        f.pose[V1Z] = 0.01 if t > 0.0 else 0.0

    f = drive(lambda t: (0.0, 0.0, 0.0), 1.0, begin=rise, settling=60.0)
    assert len(f.levelled) > 300
    assert f.levelled[-1].real == pytest.approx(-0.01, abs=0.002)
    before, after = (
        drive(lambda t: (0.0, 0.0, 0.0), 1.0, begin=rise, settling=begins - 1.0).levelled
        for begins in (19.8, 20.2)
    )
    assert not before
    assert after
