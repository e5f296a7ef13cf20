"""The planar kinematic filter: on motions that are known exactly, and against an independent filter."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replay.log import open_log
from vehicled.configuration import load_configuration
from vehicled.messages import Measurement
from vehicled.studies.robustness.kinematic import KinematicFilter, KinematicSettings
from vehicled.studies.robustness.kinematic_run import run_kinematic
from vehicled.vehicle.sideslip import SteadySideslip

SETTINGS = KinematicSettings(radius=0.3, steady=SteadySideslip(1.4, 0.004), antenna=0.5, wander=0.3)
DT = 0.01


def test_a_circle_is_followed_by_gyroscope_and_wheels_alone():
    f = KinematicFilter(SETTINGS)
    speed, rate = 12.0, 0.3
    f.initialise(0.0, 0.0, 0.0, speed)
    beta = (1.4 / speed - 0.004 * speed) * rate
    f.take_yaw_rate(rate)
    for k in range(2000):
        f.predict(DT)
        f.take_yaw_rate(rate)
        f.update_wheel_angle(k * DT, speed / 0.3 * k * DT)
    t = 2000 * DT
    # A circle of radius v / ω along the course, which is yaw plus sideslip.
    x = speed / rate * (math.sin(rate * t + beta) - math.sin(beta))
    y = speed / rate * (math.cos(beta) - math.cos(rate * t + beta))
    found = f.read()
    assert found[:2] == pytest.approx((x, y), abs=0.1)
    assert found[2] == pytest.approx(rate * t, abs=1e-9)
    assert found[3:] == pytest.approx((speed * math.cos(beta), speed * math.sin(beta), rate, beta), rel=1e-3)


def test_bias_and_wheel_scale_are_found():
    random = np.random.default_rng(1)
    f = KinematicFilter(SETTINGS)
    f.initialise(0.0, 0.0, 0.0, 15.0)
    x = 0.0
    for k in range(12000):
        f.predict(DT)
        f.take_yaw_rate(0.004 + 0.002 * random.standard_normal())
        x += 15.0 * DT
        f.update_wheel_angle(k * DT, 15.0 / 0.3 * 1.015 * k * DT)
        if k % 20 == 0:
            east, north = np.array([x + 0.5, 0.0]) + 0.4 * random.standard_normal(2)
            f.update_position(east, north, 0.16, True)
            f.update_speed(15.0 + 0.05 * random.standard_normal(), 0.05)
            f.update_course(0.05 / 15 * random.standard_normal(), 15.0, 0.05)
    bias, scale = f.state[4:6]
    sigmas = np.sqrt(np.diagonal(f.covariance))
    assert bias == pytest.approx(0.004, abs=4 * sigmas[4])
    assert scale == pytest.approx(0.015, abs=4 * sigmas[5])
    assert sigmas[4] < 5e-4
    assert sigmas[5] < 3e-3
    assert f.state[:2] == pytest.approx([x, 0.0], abs=4 * sigmas[0])


@pytest.mark.parametrize("wanders", [True, False])
def test_a_position_update_equals_a_joint_update_of_both_axes(wanders):
    f = KinematicFilter(SETTINGS)
    f.initialise(3.0, -2.0, 0.7, 10.0)
    f.take_yaw_rate(0.2)
    f.covariance = _some_covariance()
    before, p = f.state.copy(), f.covariance.copy()
    rows = np.zeros((2, 8))
    rows[0, 0] = rows[1, 1] = 1.0
    rows[:, 2] = -0.5 * math.sin(0.7), 0.5 * math.cos(0.7)
    if wanders:
        rows[0, 6] = rows[1, 7] = 1.0
    innovation = np.array([3.9, -1.2]) - before[:2] - 0.5 * np.array([math.cos(0.7), math.sin(0.7)])
    gain = p @ rows.T @ np.linalg.inv(rows @ p @ rows.T + 0.16 * np.eye(2))
    f.update_position(3.9, -1.2, 0.16, wanders)
    assert f.state == pytest.approx(before + gain @ innovation, abs=1e-12)
    assert f.covariance == pytest.approx(p - gain @ rows @ p, abs=1e-12)


def _some_covariance() -> np.ndarray:
    root = np.tril(np.random.default_rng(3).standard_normal((8, 8)))
    scale = np.diag([1.0, 1.0, 0.05, 0.5, 1e-3, 0.01, 0.3, 0.3])
    return scale @ root @ root.T @ scale


def test_a_late_fix_is_compared_with_the_position_at_its_time():
    settings = KinematicSettings(radius=0.3, steady=SteadySideslip(1.4, 0.004))
    f = KinematicFilter(settings)
    speed, rate, age = 15.0, 0.4, 0.1
    f.initialise(0.0, 0.0, 0.0, speed)
    f.take_yaw_rate(rate)
    f.predict(age)
    predicted = f.state.copy()
    # At the time of the fix the car was at the origin; the filter has to take the arc since then into account.
    f.update_position(0.0, 0.0, 1e-4, False, age)
    assert f.state == pytest.approx(predicted, abs=0.03)
    f.update_position(0.0, 0.0, 1e-4, False)
    assert f.state[0] < predicted[0] - 1.0


def test_the_predicted_covariance_is_that_of_the_linearised_motion():
    f = KinematicFilter(SETTINGS)
    f.initialise(1.0, 2.0, 0.5, 11.0)
    f.take_yaw_rate(0.1)
    p = f.covariance = _some_covariance()
    start = f.state.copy()
    beta = f.sideslip
    f.predict(0.02)
    after, covariance = f.state.copy(), f.covariance.copy()

    def moved(state: np.ndarray) -> np.ndarray:
        x, y, yaw, speed, bias, scale, east, north = state
        course, keep = yaw + beta, math.exp(-0.02 / 120)
        ahead = 0.02 * speed
        x, y, yaw = x + ahead * math.cos(course), y + ahead * math.sin(course), yaw + 0.02 * (0.1 - bias)
        return np.array([x, y, yaw, speed, bias, scale, east * keep, north * keep])

    assert after == pytest.approx(moved(start), abs=1e-12)
    step = np.stack([(moved(start + d) - moved(start - d)) / 2e-6 for d in 1e-6 * np.eye(8)], axis=1)
    added = covariance - step @ p @ step.T
    assert added == pytest.approx(np.diag(np.diagonal(added)), abs=1e-9)
    assert (np.diagonal(added) > 0).all()


def test_at_standstill_sideslip_is_zero_and_courses_are_ignored():
    f = KinematicFilter(SETTINGS)
    f.take_yaw_rate(0.5)
    assert f.sideslip == 0.0
    before = f.state.copy()
    f.update_course(1.0, 1.0, 0.05)
    assert np.array_equal(f.state, before)


def test_headings_are_compared_across_a_full_turn():
    f = KinematicFilter(SETTINGS)
    f.initialise(0.0, 0.0, 2 * math.pi - 0.01, 10.0)
    f.update_course(0.01, 10.0, 0.01)
    assert 2 * math.pi - 0.01 < f.state[2] < 2 * math.pi + 0.011


def test_an_independent_filter_gives_the_same_estimates():
    """Compared once per second in 24 s of `mixed_drive` with a conventional receiver.

    Both filters have the settings of the prototype's receiver (positions 1 m, of which 0.5 m are slow; velocities
    0.103 m/s), and of `KinematicSettings` otherwise.
    """
    folder = Path(__file__).parent / "kinematic"
    independent = np.genfromtxt(folder / "independent.csv", delimiter=",", names=True)
    settings = KinematicSettings(radius=0.3, steady=SteadySideslip(1.4, 0.004), antenna=0.4, wander=0.5)
    measurements = list(open_log(folder / "drive.csv").measurements())
    found = run_kinematic(load_configuration("prototype"), measurements, settings)
    places = np.searchsorted(found.t, np.round(independent["t"] * 1e9).astype(np.int64))
    for column in ("x", "y", "yaw", "vx", "vy", "wz", "sideslip"):
        ours, theirs = found.columns[column][places], independent[column]
        # Its origin is the first fix, ours that of the configuration.
        differ = (ours - ours[0]) - (theirs - theirs[0]) if column in ("x", "y") else ours - theirs
        assert np.abs(differ).max() < 0.002 * theirs.std(), column


def test_an_imu_that_is_mounted_upside_down_gives_the_same_estimates():
    given = load_configuration("prototype")
    imu = replace(given.sensors.imu, rotation=(math.pi, 0.0, 0.0))
    turned = replace(given, sensors=replace(given.sensors, imu=imu))
    log = open_log(Path(__file__).parent / "kinematic" / "drive.csv")
    measurements = [m for m in log.measurements() if m.t < 5e9]
    turned_axes = ("imu.wy", "imu.wz", "imu.ay", "imu.az")
    below = [
        Measurement(m.source, m.t, m.arrival, {c: -v if c in turned_axes else v for c, v in m.values.items()})
        for m in measurements
    ]
    found, expected = run_kinematic(turned, below), run_kinematic(given, measurements)
    for column in ("x", "y", "yaw", "vx"):
        assert found.columns[column] == pytest.approx(expected.columns[column], abs=1e-9), column
