"""The IMU's latency by the vote of all other sensors: the vote alone, and in an estimator with late samples."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from estimator_rig import Run, mixed, prototype, rms, steps
from filter_rig import index, new_filter, set_slow_state

from vehicled.messages import Measurement
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.time_vote import find_earliness, find_lateness
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.vehicle_speed import SPEED_LATENCY
from vehicled.sources.speeds.wheels import WHEEL_LATENCY, WheelSpeeds
from vehicled.vehicle.arrays import AHEAD

LATE = 0.02
CONFIGURED = {GNSS.latency: 0.0, SPEED_LATENCY: 0.0, WHEEL_LATENCY: 0.0}


@pytest.fixture(scope="module")
def whole():
    return new_filter(sensors=Sensors(wheel_speeds=WheelSpeeds()))


def find(
    f,
    latencies,
    sigma=0.001,
    configured=CONFIGURED,
    of_imu=0.0,
    found=0.0,
    has_reference=False,
    denied=False,
):
    """Lateness of the IMU by estimated latencies of fixes, speed and wheels, in this order."""
    for group, latency in zip(CONFIGURED, latencies, strict=True):
        set_slow_state(f, index(f, group), latency)
        f.set_variance(group, "", sigma**2)
    return find_lateness(f, configured, of_imu, found, lambda: has_reference, lambda _: denied)


def test_if_all_other_sensors_are_early_the_imu_is_late(whole):
    assert find(whole, (-0.02, -0.021, -0.019)) == pytest.approx(LATE)
    assert find(whole, (-0.02, -0.021, -0.019), sigma=0.004) == 0.0
    assert find(whole, (-0.02, -0.021, -0.019), sigma=0.0) == 0.0  # known
    assert find(whole, (-0.02, 0.0, -0.02)) == 0.0  # they contradict each other
    assert find(whole, (0.0, -0.02, -0.02)) == 0.0
    only_speeds = {SPEED_LATENCY: 0.0, WHEEL_LATENCY: 0.0}
    assert find(whole, (-0.02, -0.02, -0.02), configured=only_speeds) == 0.0


def test_the_imu_is_early_only_relative_to_a_configured_or_found_latency(whole):
    """A sensor with a configured latency may be less late; one without cannot be early."""
    assert find(whole, (0.02, 0.02, 0.02)) == 0.0
    assert find(whole, (0.02, 0.02, 0.02), of_imu=0.03) == pytest.approx(-LATE)
    assert find(whole, (0.02, 0.02, 0.02), found=0.02) == pytest.approx(-LATE)
    as_late = dict.fromkeys(CONFIGURED, 0.1)
    assert find(whole, (-0.02, -0.02, -0.02), configured=as_late) == 0.0
    one_late = CONFIGURED | {GNSS.latency: 0.1}
    assert find(whole, (-0.02, -0.02, -0.02), configured=one_late) == pytest.approx(LATE)


@pytest.mark.parametrize("configured", [0.0, 0.05])
def test_fixes_from_the_future_show_a_late_imu_unless_a_known_time_contradicts(whole, configured):
    """For a car whose only speeds are those of wheels."""
    alone = {GNSS.latency: configured}
    early = -0.02 - configured
    assert find(whole, (early, 0.0, 0.0), configured=alone) == pytest.approx(LATE)
    assert find(whole, (early, 0.0, 0.0), sigma=0.004, configured=alone) == 0.0
    assert find(whole, (-0.0055 - configured, 0.0, 0.0), configured=alone) == pytest.approx(0.0055)
    assert find(whole, (-0.0045 - configured, 0.0, 0.0), configured=alone) == 0.0
    assert find(whole, (-configured, 0.0, 0.0), configured=alone) == 0.0
    assert find(whole, (0.02, 0.0, 0.0), configured=alone) == 0.0
    assert find(whole, (early, 0.0, 0.0), configured=alone, has_reference=True) == 0.0
    assert find(whole, (early, 0.0, 0.0), configured=alone, denied=True) == 0.0


@pytest.mark.parametrize(("lag", "late"), [(0.02, LATE), (0.048, LATE), (0.052, 0.0), (0.12, 0.0)])
def test_fixes_that_are_early_relative_to_smoothed_wheels_do_not_make_the_imu_late(whole, lag, late):
    configured = {GNSS.latency: 0.0, WHEEL_LATENCY: 0.0}
    for group, latency, sigma in (GNSS.latency, -0.02, 0.001), (WHEEL_LATENCY, lag, 0.005):
        set_slow_state(whole, index(whole, group), latency)
        whole.set_variance(group, "", sigma**2)
    assert find_lateness(whole, configured, 0.0, 0.0, lambda: False, lambda _: False) == pytest.approx(late)


def find_early(f, latencies, sigma=0.005, configured=CONFIGURED, has_reference=False, of_fixes=None):
    find(f, latencies, sigma)
    if of_fixes is not None:
        f.set_variance(GNSS.latency, "", of_fixes**2)
    return find_earliness(f, configured, lambda: has_reference)


def test_wheels_from_the_future_show_that_the_estimate_is_late(whole):
    """The estimate follows a smoothed speed, or late fixes. If all sensors are early, the IMU is late instead."""
    assert find_early(whole, (0.04, 0.04, -0.05)) == pytest.approx(0.05)
    assert find_early(whole, (-0.02, 0.04, -0.05)) == pytest.approx(0.05)
    assert find_early(whole, (0.04, 0.04, -0.05), sigma=0.015) == 0.0
    assert find_early(whole, (0.04, 0.04, -0.05), has_reference=True) == 0.0
    assert find_early(whole, (0.04, 0.04, -0.02)) == 0.0  # slip may cause that
    assert find_early(whole, (0.02, 0.02, -0.05)) == 0.0  # hardly late
    assert find_early(whole, (-0.05, -0.05, -0.05)) == 0.0
    as_late = CONFIGURED | {WHEEL_LATENCY: 0.05}
    assert find_early(whole, (0.04, 0.04, -0.05), configured=as_late) == 0.0
    without_wheels = {GNSS.latency: 0.0, SPEED_LATENCY: 0.0}
    assert find_early(whole, (0.04, 0.04, -0.05), configured=without_wheels) == 0.0


def test_fast_wheels_slip_further_than_slow_ones(whole):
    """By half a percent for each m/s² of driving or braking: 100 ms at 20 m/s, half of which the model may lack."""
    before = whole.pose.item(AHEAD)
    whole.pose[AHEAD] = 20.0
    assert find_early(whole, (0.04, 0.04, -0.05), sigma=0.002) == 0.0
    assert find_early(whole, (0.04, 0.04, -0.06), sigma=0.002) == pytest.approx(0.06)
    whole.pose[AHEAD] = before


def test_a_late_sensor_has_to_be_as_certain_as_the_early_wheels(whole):
    """Slip made the wheels of a van seem early: with fixes late by 23 ± 11 ms, all was moved by 61 ms."""
    only_fixes = {GNSS.latency: 0.0, WHEEL_LATENCY: 0.0}
    assert find_early(whole, (0.023, 0.0, -0.061), configured=only_fixes, of_fixes=0.011) == 0.0
    assert find_early(whole, (0.05, 0.0, -0.061), configured=only_fixes, of_fixes=0.011) == pytest.approx(
        0.061
    )


def test_small_latencies_count_once_a_latency_of_the_imu_has_been_found(whole):
    assert find(whole, (-0.004, -0.004, -0.004)) == 0.0
    assert find(whole, (-0.004, -0.004, -0.004), found=0.02) == pytest.approx(0.004)
    assert find(whole, (-0.003, -0.003, -0.003), found=0.02) == 0.0  # not significant


@pytest.mark.slow
def test_late_samples_are_found_with_a_speed_of_unknown_latency():
    """Fixes and speed then are early by the same time. Before, the filter took that for true: 0.23 m, NEES 200."""
    given, seconds = prototype(), 45.0
    speed = dataclasses.replace(given.sensors.vehicle_speed, latency_sigma=0.02)
    given = dataclasses.replace(given, sensors=dataclasses.replace(given.sensors, vehicle_speed=speed))
    truth = mixed(seconds)
    measured = [
        Measurement(m.source, m.t + round(LATE * 1e9), m.arrival + round(LATE * 1e9), m.values)
        if "imu.wz" in m.values
        else m
        for m in truth.measurements(1, gnss="rtk")
    ]
    run = Run(given, steps(sorted(measured, key=lambda m: m.arrival)))
    found = run.estimator.parameters()
    assert found["imu_latency"].value == pytest.approx(LATE, abs=0.005)
    assert abs(found["gnss_latency"].value) < 0.005
    assert abs(found["speed_latency"].value) < 0.005
    late = (run.t > (seconds - 8.0) * 1e9) & (run.t <= seconds * 1e9)
    assert rms(np.hypot(run.error(truth, "x"), run.error(truth, "y"))[late]) < 0.05
