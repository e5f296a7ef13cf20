"""The car's own yaw rate beside and instead of the gyroscopes of an IMU."""

import dataclasses
from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Run, bends, mixed, prototype, rms, steps, with_sensors, without
from filter_rig import STEP_NS, linearise, new_filter, place, set_slow_state, turn_left

from vehicled.configuration import Configuration
from vehicled.filter.states import ANGULAR_RATE, POSITION
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import Measurement
from vehicled.simulation.sensor_settings import SimulatedSignal
from vehicled.sources.sensors import Sensors
from vehicled.sources.yaw_rate import CHANNEL, YAW_RATE_BIAS, YAW_RATE_LATENCY, YAW_RATE_SCALE, YawRate
from vehicled.vehicle.arrays import YAW_RATE

SENSOR = SimulatedSignal(rate=100.0, noise=0.002, bias=0.02, bias_walk=1e-4, scale=0.01, quantisation=0.00175)
"""As `vehicled simulate` gives it to a car that has one."""
LATE_NS = 10_000_000
"""Its configured latency."""
NOW = 60 * STEP_NS


@lru_cache
def own() -> Configuration:
    return with_sensors(yaw_rate=YawRate())


def measured(drive, seed: int, late_ns: int = LATE_NS, **sensors) -> list[Measurement]:
    """Measurements of a car that has the sensor; its samples are stamped `late_ns` after they were measured."""
    given = drive.measurements(seed, yaw_rate=SENSOR, **sensors)
    moved = [
        Measurement(m.source, m.t + late_ns, m.arrival + late_ns, m.values) if CHANNEL in m.values else m
        for m in given
    ]
    return sorted(moved, key=lambda m: m.arrival)


@pytest.fixture(scope="module")
def cornering() -> VehicleFilter:
    """In a bend, whose yaw rate still rises."""
    f = new_filter(sensors=Sensors(yaw_rate=YawRate()))
    place(f, np.array([0.0, 0.0, f.car.design_height]), 0.3, 15.0)
    f.errors.matrix = np.eye(len(f.states)) * 1e-4
    f.restart_history(0)
    turn_left(f, 60, rack=0.012)
    return f


def test_the_reading_is_the_yaw_rate_of_the_chassis_with_bias_scale_and_latency(cornering):
    f = cornering
    plain, row = linearise(f, CHANNEL, NOW, 1)
    assert plain[0] == pytest.approx(f.pose.item(YAW_RATE), rel=1e-9)
    assert row[0, f.states.index(ANGULAR_RATE, "yaw")] == pytest.approx(1.0)
    assert not row[0, f.states[POSITION]].any()
    for group, by in ((YAW_RATE_BIAS, 1.0), (YAW_RATE_SCALE, plain[0])):
        i, step = f.states.index(group), 1e-3
        set_slow_state(f, i, step)
        changed, _ = linearise(f, CHANNEL, NOW, 1)
        set_slow_state(f, i, 0.0)
        assert (changed - plain) / step == pytest.approx(by, rel=1e-6)
        assert row[0, i] == pytest.approx(by, rel=0.1)  # slow turns show the scale less


def test_a_late_sample_is_that_of_its_own_time(cornering):
    """The latency has the effect of an earlier time; both against the difference of two readings."""
    f, dt = cornering, 2 * STEP_NS
    now, row = linearise(f, CHANNEL, NOW, 1)
    before, _ = linearise(f, CHANNEL, NOW - dt, 1)
    i = f.states.index(YAW_RATE_LATENCY)
    set_slow_state(f, i, dt * 1e-9)
    late, _ = linearise(f, CHANNEL, NOW, 1)
    set_slow_state(f, i, 0.0)
    assert abs(now - before)[0] > 1e-5
    assert late - now == pytest.approx(before - now, rel=0.2, abs=1e-5)
    assert row[0, i] == 0.0 or row[0, i] * dt * 1e-9 == pytest.approx((late - now)[0], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6])
def test_estimates_beside_a_good_imu_are_no_worse_and_the_errors_of_the_sensor_are_found(seed):
    drive = mixed()
    given = steps(measured(drive, seed, late_ns=LATE_NS + 15_000_000))
    runs = {c is own(): Run(c, given) for c in (prototype(), own())}
    for column in ("x", "y", "yaw", "vx", "vy", "wz"):
        errors = {
            has: rms(run.error(drive, column)[(run.t > 2 * SECOND) & (run.t < drive.end)])
            for has, run in runs.items()
        }
        assert errors[True] < 1.04 * errors[False], column
    run = runs[True]
    found = run.estimator.parameters()
    assert found["yaw_rate_latency"].value == pytest.approx(0.015, abs=0.004)
    assert run.fused(CHANNEL) > 0.99 * len(run.of(CHANNEL)) > 2000
    assert run.sensors[CHANNEL]["state"] == "active"
    assert not run.estimator.condition.faults


def test_without_the_sensor_its_samples_change_nothing():
    drive = bends()
    given = measured(drive, 3)
    runs = [Run(prototype(), steps(each)).values for each in (given, without(given, CHANNEL))]
    assert np.array_equal(*runs)


def test_without_an_imu_it_gives_the_yaw_rate_from_the_start_on():
    """By wheels, steering and a conventional receiver, from a moment on at which the car drives."""
    drive = mixed()
    given = without(measured(drive, 8, gnss="conventional"), "imu.")
    begin = 9 * SECOND
    given = [m for m in given if m.t >= begin]
    errors = {}
    for configuration in (prototype(), own()):
        run = Run(configuration, steps(given))
        inside = run.t < drive.end
        errors[configuration is own()] = rms(run.error(drive, "wz")[inside])
        if configuration is own():
            assert run.t[0] - begin < 0.3 * SECOND
    assert errors[True] < 0.8 * errors[False]


def test_parameters_of_the_sensor_can_be_kept_for_the_next_drive():
    drive = bends()
    run = Run(own(), steps(measured(drive, 4)))
    names = {"yaw_rate_bias", "yaw_rate_scale", "yaw_rate_latency"}
    assert names <= run.estimator.parameters().keys()
    assert run.estimator.parameters()["yaw_rate_bias"].sigma < 0.3 * YawRate().bias


def test_a_configured_latency_is_taken_off():
    late = dataclasses.replace(YawRate(), latency=0.08)
    drive = bends()
    run = Run(with_sensors(yaw_rate=late), steps(measured(drive, 4, late_ns=80_000_000)))
    assert abs(run.estimator.parameters()["yaw_rate_latency"].value) < 0.006
