"""Receivers whose velocities are smoothed, noisier than configured, or zero at low speed."""

import cmath
import math

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, mixed, prototype, rms, steps, without

from vehicled.estimator import Estimator
from vehicled.messages import Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.studies.robustness import wrongs

SMOOTHED = "velocity of GNSS smoothed over 0.1 s"
SECONDS, SETTLED = 24.0, 10.0


def late_rms(run: Run, drive: Drive, column: str) -> float:
    return rms(run.error(drive, column)[run.t > SETTLED * SECOND])


def play(name: str) -> tuple[Drive, Run]:
    drive = mixed(SECONDS)
    _, given = wrongs.apply_wrongs([wrongs.WRONGS[name]], prototype(), drive.measurements(43))
    return drive, Run(prototype(), steps(given))


def test_simulated_smoothing_of_velocities_is_a_first_order_filter():
    given = [
        Measurement("gnss", 10_000_000 * k, 0, {"gnss.speed": 10.0 if k < 5 else 12.0, "gnss.course": 1.0})
        for k in range(30)
    ]
    _, found = wrongs.apply_wrongs([wrongs.WRONGS[SMOOTHED]], prototype(), given)
    speeds = [m.values["gnss.speed"] for m in found]
    assert speeds == pytest.approx([12.0 - 2.0 * math.exp(-max(k - 4, 0) / 10) for k in range(30)])
    assert [m.values["gnss.course"] for m in found] == pytest.approx([1.0] * 30)


@pytest.mark.parametrize(
    "name", [SMOOTHED, pytest.param("velocity of GNSS noisier by 0.1 m/s", marks=pytest.mark.slow)]
)
def test_positions_are_still_accepted_and_estimates_are_accurate(name):
    drive, run = play(name)
    positions = run.of("gnss.position")
    assert sum(not i.fused for i in positions) < 0.01 * len(positions)
    assert np.hypot(*(late_rms(run, drive, axis) for axis in "xy")) < 0.03
    assert np.degrees(late_rms(run, drive, "sideslip")) < 0.15
    assert np.degrees(late_rms(run, drive, "yaw")) < 0.15


def test_the_lag_of_smoothed_velocities_is_found():
    _, run = play(SMOOTHED)
    found = run.estimator.parameters()
    assert found["gnss_velocity_latency"].value == pytest.approx(0.1, abs=0.02)
    assert found["gnss_latency"].value == pytest.approx(0.0, abs=0.01)


@pytest.mark.slow
def test_the_estimated_noise_of_velocities_is_kept_at_standstill():
    """The receiver gives speed and course. At standstill a velocity of zero without this noise replaces them."""
    inputs = DriveInputs(
        rear_torque=[(14.0, 60.0), (14.5, 0.0), (31.5, 0.0), (32.0, 500.0)],
        brake_pressure=[(14.0, 0.0), (14.5, 25e5), (31.0, 25e5), (31.5, 0.0)],
    )
    drive = Drive(Scenario(duration=36.0, initial=InitialMotion(speed=10.0, yaw=0.4), inputs=inputs))
    random = np.random.default_rng(3)

    def add_noise(m: Measurement) -> Measurement:
        v = m.values
        if "gnss.speed" not in v or "gnss.course" not in v:
            return m
        noisy = cmath.rect(v["gnss.speed"], v["gnss.course"]) + complex(*random.normal(0.0, 0.4, 2))
        more = {"gnss.speed": abs(noisy), "gnss.course": cmath.phase(noisy) % (2.0 * math.pi)}
        return Measurement(m.source, m.t, m.arrival, v | more)

    given = without(drive.measurements(seed=1, gnss="conventional"), "gnss.v")
    run = Run(prototype(), steps(map(add_noise, given)))
    assert run["vx"][(run.t > 20 * SECOND) & (run.t < 31 * SECOND)].max() < 0.2
    sigmas = [i.variance[0] ** 0.5 for i in run.of("gnss.speed") if i.t > 33 * SECOND]
    assert min(sigmas) > 0.2


@pytest.mark.slow
def test_a_creeping_car_is_followed_though_its_receiver_reports_zero_speed():
    """The car has only IMU and receiver, and the receiver reports zero below 0.5 m/s.

    Before, these speeds of zero were fused with their usual noise, and the estimated car stopped.
    """
    inputs = DriveInputs(
        rear_torque=[(3.0, 0.0), (7.5, 0.0), (8.0, 48.0)],
        brake_pressure=[(3.0, 0.0), (3.5, 14e5), (7.0, 14e5), (7.2, 0.0)],
    )
    drive = Drive(Scenario(duration=26.0, initial=InitialMotion(speed=5.0, yaw=0.3), inputs=inputs))

    def hold(m: Measurement) -> Measurement:
        held = {"gnss.speed": 0.0} if m.values.get("gnss.speed", 1.0) < 0.5 else {}
        return Measurement(m.source, m.t, m.arrival, m.values | held)

    others = "wheel.", "vehicle.", "steer.", "torque.", "brake."
    given = without(drive.measurements(seed=1, gnss="conventional"), "gnss.v", *others)
    run = Run(prototype(), steps(map(hold, given)))
    later = (run.t > 8 * SECOND) & (run.t <= drive.end)
    assert 0.5 < drive.truth(run.t[later], "vx").max() < 1.0
    assert (np.abs(run.error(drive, "vx")) / run["sigma.vx"])[later].max() < 3.0


def test_after_a_reset_no_velocity_is_expected_of_a_receiver_of_speed_and_course():
    """At standstill, before the reset, the velocity is derived from the speed."""
    inputs = DriveInputs(
        rear_torque=[(4.0, 0.0), (4.5, 500.0)],
        brake_pressure=[(0.5, 0.0), (0.8, 25e5), (3.5, 25e5), (4.0, 0.0)],
    )
    drive = Drive(Scenario(duration=9.0, initial=InitialMotion(speed=6.0, yaw=0.5), inputs=inputs))
    estimator, blamed = Estimator(prototype()), set()
    for t, measurements, *_ in steps(without(drive.measurements(seed=1, gnss="conventional"), "gnss.v")):
        if t == 7 * SECOND:
            assert estimator.status()["sensors"]["gnss.velocity"]["fused"] > 10
            estimator.command("reset", {})
        estimator.step(t, measurements)
        if t < drive.end:
            blamed |= {fault.source for fault in estimator.condition.faults}
    assert estimator.status()["starts"] == 2
    assert "gnss.velocity" not in blamed
