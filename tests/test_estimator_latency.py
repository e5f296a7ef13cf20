"""Latencies of fixes, of velocities of receivers, and of wheel and vehicle speeds."""

from dataclasses import replace

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, bends, mixed, prototype, rms, steps, with_sensors

from vehicled.estimator import Estimator
from vehicled.messages import ESTIMATE_INDEX, Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario
from vehicled.simulation.sensor_settings import SimulatedSignal
from vehicled.sources.speeds.vehicle_speed import VehicleSpeed
from vehicled.sources.speeds.wheels import WheelSpeeds

LATE = 0.06
"""Latency of velocities, s."""


def delay_velocities(measurements, late: float):
    """The speed and course of each fix are those of `late` seconds before it."""
    at = [(m.t * 1e-9, m.values) for m in measurements if "gnss.speed" in m.values]
    series = {}
    for channel in ("gnss.speed", "gnss.course"):
        # There is no course at standstill.
        t, values = zip(*((t, v[channel]) for t, v in at if channel in v), strict=True)
        series[channel] = t, np.unwrap(values) if channel == "gnss.course" else values
    changed = []
    for m in measurements:
        found = {c: float(np.interp(m.t * 1e-9 - late, *series[c])) for c in series if c in m.values}
        if "gnss.course" in found:
            found["gnss.course"] %= 2 * np.pi
        changed.append(Measurement(m.source, m.t, m.arrival, m.values | found))
    return changed


@pytest.mark.parametrize("late", [pytest.param(0.0, marks=pytest.mark.slow), LATE])
def test_the_lag_of_velocities_behind_their_fixes_is_found(late):
    drive = mixed(20.0)
    configuration = with_sensors(gnss=replace(prototype().sensors.gnss, latency_sigma=0.05))
    run = Run(configuration, steps(delay_velocities(drive.measurements(), late)))
    found = run.estimator.parameters()
    of_velocity, of_fixes = found["gnss_velocity_latency"], found["gnss_latency"]
    assert 0.0 < of_velocity.sigma < 0.01
    assert abs(of_velocity.value - late) < 4.0 * of_velocity.sigma
    assert abs(of_fixes.value) < 4.0 * of_fixes.sigma
    assert rms(run.error(drive, "vx")) < 0.03


def test_the_latency_of_late_fixes_settles_from_a_start_at_speed():
    """Each fix corrects an earlier step, at which the estimate of the latency differed from the present one."""
    configuration = with_sensors(gnss=replace(prototype().sensors.gnss, latency_sigma=0.05))
    initial = InitialMotion(speed=25.0, yaw=0.5)
    inputs = DriveInputs(rear_torque=100.0)
    drive = Drive(Scenario(duration=4.0, initial=initial, inputs=inputs, plant=STANDARD_ERRORS))
    late = [Measurement(m.source, m.t, m.arrival + 40_000_000, m.values) for m in drive.measurements()]
    run = Run(configuration, steps(late))
    found, driven = run.estimator.parameters()["gnss_latency"], run.t <= 4 * SECOND
    assert abs(found.value) < 3.0 * found.sigma
    for column in ("x", "y"):
        assert (np.abs(run.error(drive, column)) < 4.0 * run[f"sigma.{column}"])[driven].all()


@pytest.mark.slow
def test_a_gentle_bend_at_speed_does_not_determine_the_latency():
    """The radius is 1500 m, at 50 m/s. Before, courses were assumed to have no latency, and σ was 2 ms after 4 s."""
    initial = InitialMotion(speed=50.0, yaw=0.5)
    inputs = DriveInputs(rack=[(0.0, 0.0), (2.0, 5.3e-4)], rear_torque=250.0)
    drive = Drive(Scenario(duration=6.0, initial=initial, inputs=inputs))
    assert 0.025 < drive.truth(np.array([6 * SECOND]), "wz")[0] < 0.045
    run = Run(prototype(), steps(drive.measurements(gnss="rtk")))
    found = run.estimator.parameters()["gnss_latency"]
    assert found.sigma > 0.005
    assert abs(found.value) < 3.0 * found.sigma


@pytest.mark.slow
def test_sigma_of_the_latency_is_consistent_after_gentle_braking():
    """Eight seeds of sensor noise, each with braking from 10 m/s at less than 1 m/s²."""
    inputs = DriveInputs(rear_torque=-220.0)
    drive = Drive(Scenario(duration=6.0, initial=InitialMotion(speed=10.0, yaw=0.5), inputs=inputs))
    ratios = []
    for seed in range(8):
        run = Run(prototype(), steps(drive.measurements(seed, gnss="rtk")))
        found = run.estimator.parameters()["gnss_latency"]
        ratios.append(found.value / found.sigma)
    assert rms(np.array(ratios)) < 2.0


@pytest.mark.parametrize(
    ("prefix", "state"),
    [("wheel.", "wheel_latency"), pytest.param("vehicle.", "speed_latency", marks=pytest.mark.slow)],
)
def test_the_latency_of_speeds_is_found_and_biases_no_other_latency(prefix, state):
    """Speeds are 40 ms late, as those of control units are; receiver and IMU have correct times."""
    drive, late = mixed(25.0), 0.04
    rates = SimulatedSignal(rate=100.0, noise=0.1)
    measured = drive.measurements(wheel_angles=None, wheel_speeds=rates)
    given = [
        Measurement(m.source, m.t + 40_000_000, m.arrival + 40_000_000, m.values)
        if any(c.startswith(prefix) for c in m.values)
        else m
        for m in measured
    ]
    given.sort(key=lambda m: m.arrival)
    sensors = {"wheel_angles": None, "wheel_speeds": WheelSpeeds(), "vehicle_speed": VehicleSpeed()}
    run = Run(with_sensors(**sensors), steps(given))
    found = run.estimator.parameters()
    # The latency of wheels also absorbs tyre slip that differs from the model.
    assert abs(found[state].value - late) < 0.015
    assert abs(found["gnss_latency"].value) < 4.0 * found["gnss_latency"].sigma < 0.02
    later = (run.t > 15 * SECOND) & (run.t < 25 * SECOND)
    assert rms(run.error(drive, "vx")[later]) < 0.02
    assert abs(run.error(drive, "x")[later]).max() < 0.2


def smooth_wheel_speeds(measurements, time: float):
    """Pass the rate of each wheel through a first-order filter with this time constant, s."""
    smoothed, before, changed = {}, 0, []
    for m in measurements:
        found = {c: v for c, v in m.values.items() if c.startswith("wheel.")}
        if found:
            share = 1.0 - np.exp(-(m.t - before) * 1e-9 / time)
            before = m.t
            for channel, value in found.items():
                last = smoothed.get(channel, value)
                smoothed[channel] = found[channel] = last + share * (value - last)
        changed.append(Measurement(m.source, m.t, m.arrival, m.values | found))
    return changed


def test_sigma_of_the_speed_is_consistent_with_smoothed_wheel_speeds():
    """They are smoothed over 0.15 s; a latency of 20 ms is expected. The lag is not taken for an IMU latency."""
    drive = mixed(25.0)
    measured = drive.measurements(
        wheel_angles=None, speed=None, wheel_speeds=SimulatedSignal(rate=50.0, noise=0.02)
    )
    sensors = {"wheel_angles": None, "wheel_speeds": WheelSpeeds(noise=0.05), "vehicle_speed": None}
    run = Run(with_sensors(**sensors), steps(smooth_wheel_speeds(measured, 0.15)))
    assert run.estimator.parameters()["wheel_latency"].value > 0.1
    assert run.estimator.parameters()["imu_latency"].value == 0.0
    # After the lag has been found, while the speed changes.
    changing = (run.t > 14 * SECOND) & (run.t < 18 * SECOND)
    assert rms((run.error(drive, "vx") / run["sigma.vx"])[changing]) < 2.0
    assert rms(run.error(drive, "vx")[changing]) < 0.031


def test_an_estimate_at_a_fix_uses_latency_hypotheses_that_include_that_fix():
    """The published estimate equals the filter's estimate after a correction with newly weighed hypotheses."""
    given = steps(bends(3.0).measurements(gnss="conventional"), 8_000_000)
    estimator, compared, moved = Estimator(prototype()), 0, []
    for t, measurements, _ in given:
        estimate = estimator.step(t, measurements)
        if estimate is not None and any("gnss.lat" in m.values for m in measurements):
            own = estimator.filter.output()
            anew = own.copy()
            estimator.correct_pose(anew)
            place = [ESTIMATE_INDEX[name] for name in ("x", "y", "yaw", "vy")]
            assert estimate.values[place] == pytest.approx(anew[place], abs=1e-12)
            moved.append(np.abs(anew - own)[place].max())
            compared += 1
    assert compared > 10
    assert max(moved) > 1e-4
