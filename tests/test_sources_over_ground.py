"""Receivers' speeds over ground: the direction of a slow car, and updates that contradict the filter."""

import math

import numpy as np
import pytest

from vehicled.filter.boundary import Update
from vehicled.messages import Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.gnss.ground_velocity import find_slow_vector
from vehicled.sources.updates import MeasurementUpdates
from vehicled.vehicle.arrays import POSE

SECOND, SPEED, WHEEL = 1_000_000_000, "gnss.speed", "wheel.rl.speed"


@pytest.mark.parametrize("along", [1.4, -1.4])
def test_speed_and_course_of_a_slow_car_show_whether_it_goes_backwards(along):
    heading = 0.4  # from east
    course = 0.5 * math.pi - heading + (math.pi if along < 0.0 else 0.0)
    found = find_slow_vector({"speed": abs(along), "course": course}, 0.1, 1.0)
    assert found is not None
    velocity, sigma = found
    ahead = velocity * np.exp(-1j * heading)
    assert (ahead.real, ahead.imag, sigma) == pytest.approx((along, 0.0, 0.1))


def test_a_speed_without_a_course_gives_no_slow_velocity():
    assert find_slow_vector({"speed": 1.4}, 0.1, 1.0) is None


def test_a_speed_within_its_noise_counts_as_standstill():
    """The variance covers the noise. The course, which is arbitrary at standstill, is ignored."""
    noise = 0.1 * np.random.default_rng(5).standard_normal((2000, 2))
    found = [find_slow_vector({"speed": math.hypot(*v), "course": 1.0}, 0.1, 1.0) for v in noise]
    assert all(velocity == 0.0 for velocity, _ in found)
    variance = np.array([sigma**2 for _, sigma in found])
    assert np.mean(np.sum(noise**2, axis=1) / (2.0 * variance)) == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize("rate", [0.5, 1.0, 10.0, 50.0])
def test_standing_counts_once_per_second_however_often_it_is_measured(rate):
    (_, once), (_, often) = (
        find_slow_vector({"speed": 0.1, "course": 1.0}, 0.05, t) for t in (1.0, 1.0 / rate)
    )
    information = rate / often**2
    assert information == pytest.approx(min(rate, 1.0) / once**2)


class Filter:
    """Contradicts all observations by `sigmas` standard deviations, and notes the limits of the gate."""

    def __init__(self, sigmas: float):
        self.sigmas, self.limits, self.pose = sigmas, (0.0, 0.0), np.zeros(len(POSE))

    def update(self, observation, limits):
        self.limits, nis = limits, self.sigmas**2
        rejected = [nis > limits[1]]
        reason = "gate" if rejected[0] else "weighted" if nis > limits[0] else "fused"
        return Update([self.sigmas], [1.0], nis, rejected if rejected[0] else (), reason)


def find_reasons(sigmas: float, fellow: float | None = None, over_ground: bool = True) -> list[str]:
    """Reasons for readings every 0.5 s; `fellow`: difference of a wheel to the filter, σ; None: no wheel."""
    updates = MeasurementUpdates(Filter(sigmas))
    updates.register(SPEED, Gate(), serves=("vx",), over_ground=over_ground)
    updates.register(WHEEL, Gate(), serves=("vx",))
    reasons = []
    for k in range(4):
        m = Measurement("log", k * SECOND // 2, k * SECOND // 2, {SPEED: 1.0})
        updates._filter.sigmas = sigmas
        updates.update(m, SPEED, [1.0], [1.0])
        reasons.append(updates.records[-1].reason)
        if fellow is not None:
            updates._filter.sigmas = fellow
            updates.update(m, WHEEL, [1.0], [1.0])
    return reasons


def test_a_receiver_that_alone_measures_the_speed_is_followed_after_a_second():
    """Outliers are over by then, and the error of integrated accelerations grows."""
    assert find_reasons(20.0) == ["gate", "gate", "fused", "fused"]
    assert find_reasons(5.0) == ["weighted", "weighted", "fused", "fused"]


def test_neither_a_receiver_against_wheels_nor_a_sensor_that_may_slip_is_followed():
    assert find_reasons(20.0, fellow=1.0) == ["gate"] * 4
    assert find_reasons(20.0, fellow=20.0)[2:] == ["fused"] * 2
    assert find_reasons(20.0, over_ground=False) == ["gate"] * 4


def test_an_observation_that_must_not_be_rejected_is_weighted():
    updates = MeasurementUpdates(Filter(20.0))
    updates.register("imu.gyro", Gate())
    m = Measurement("log", 0, 0, {})
    updates.update(m, "imu.gyro", [0.0], [1.0], may_reject=False)
    assert updates.records[-1].reason == "weighted"
    updates.update(m, "imu.gyro", [0.0], [1.0])
    assert updates.records[-1].reason == "gate"
