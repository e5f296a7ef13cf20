"""Cars that reverse while their speed sensors give magnitudes, as on the buses of most cars."""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, equipped, prototype, steps, with_sensors, without

from vehicled.messages import Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario, find_scenario
from vehicled.simulation.sensor_settings import RTK, SimulatedSignal
from vehicled.sources.gnss.fixes import Baseline
from vehicled.sources.speeds.wheels import WheelSpeeds

UNKNOWN = "torque.", "brake."
"""Beginnings of other channels that show the direction of travel."""


def as_magnitudes(given: Iterable[Measurement], *beginnings: str) -> list[Measurement]:
    return [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            {c: abs(v) if c.startswith(beginnings) else v for c, v in m.values.items()},
        )
        for m in given
    ]


def find_worst(run: Run, drive: Drive, since: float) -> float:
    """Largest error of position, heading and velocity, in standard deviations."""
    later = (run.t > since * SECOND) & (run.t <= drive.end)
    return max(
        np.max(np.abs(run.error(drive, c))[later] / run[f"sigma.{c}"][later])
        for c in ("x", "y", "yaw", "vx", "vy")
    )


@pytest.fixture(scope="module")
def backing() -> Drive:
    """The car stands, then reverses into a bend."""
    inputs = DriveInputs(
        rack=[(4.0, 0.0), (5.0, 0.02)], rear_torque=[(1.5, 0.0), (1.8, -450.0), (4.0, -450.0), (4.3, -80.0)]
    )
    scenario = Scenario(duration=7.0, initial=InitialMotion(yaw=0.7), inputs=inputs, plant=STANDARD_ERRORS)
    return Drive(scenario)


@pytest.fixture(scope="module")
def reverse() -> Drive:
    """The car reverses from the first instant, and into a bend after 2 s."""
    inputs = DriveInputs(rack=[(2.0, 0.0), (3.0, 0.02)], rear_torque=-80.0)
    initial = InitialMotion(speed=-4.0, yaw=0.7)
    return Drive(Scenario(duration=8.0, initial=initial, inputs=inputs, plant=STANDARD_ERRORS))


@pytest.mark.parametrize("receiver", ["rtk", pytest.param("conventional", marks=pytest.mark.slow)])
def test_a_reversing_car_is_followed_when_its_speed_is_a_magnitude(backing, receiver):
    assert backing.truth(np.array([6 * SECOND]), "vx")[0] < -2.0
    given = as_magnitudes(without(backing.measurements(5, gnss=receiver), "wheel.", *UNKNOWN), "vehicle.")
    run = Run(prototype(), steps(given))
    assert run.estimator.status()["restarts"] == 0
    assert run.sensors["vehicle.speed"]["reasons"].keys() <= {"either way"}
    assert find_worst(run, backing, since=5.5) < 4.0


@pytest.mark.slow
def test_a_reversing_car_is_followed_when_wheel_speeds_are_magnitudes_too(backing):
    configuration = with_sensors(wheel_angles=None, wheel_speeds=WheelSpeeds())
    given = backing.measurements(
        5, gnss="rtk", wheel_angles=None, wheel_speeds=SimulatedSignal(rate=50.0, noise=0.05)
    )
    run = Run(configuration, steps(as_magnitudes(without(given, *UNKNOWN), "vehicle.", "wheel.")))
    assert run.estimator.status()["restarts"] == 0
    assert find_worst(run, backing, since=5.5) < 4.0


def test_wheel_angles_that_count_upwards_in_reverse_are_used(backing):
    given, last, counted = [], {}, {}
    for m in as_magnitudes(backing.measurements(5, gnss="rtk"), "vehicle."):
        values = dict(m.values)
        for c in values:
            if c.startswith("wheel."):
                counted[c] = counted.get(c, 0.0) + abs(values[c] - last.get(c, values[c]))
                last[c], values[c] = values[c], counted[c]
        given.append(Measurement(m.source, m.t, m.arrival, values))
    run = Run(prototype(), steps(given))
    assert run.estimator.status()["restarts"] == 0
    angles = [i for i in run.innovations if i.sensor.startswith("wheel.")]
    assert sum(not i.fused for i in angles) < 0.01 * len(angles)
    assert find_worst(run, backing, since=5.5) < 4.0


def test_signed_wheel_angles_give_the_direction_at_the_start(reverse):
    given = [m for m in reverse.measurements(5, gnss="rtk") if m.arrival < 1.5 * SECOND]
    run = Run(prototype(), steps(as_magnitudes(given, "vehicle.")))
    assert run.t[0] < 0.15 * SECOND
    assert run.estimator.status()["restarts"] == 0
    assert find_worst(run, reverse, since=1.0) < 4.0


def test_a_two_antenna_heading_gives_the_direction_at_the_start(reverse):
    """The course over ground is opposite to the heading."""
    configuration = equipped(Baseline())
    receiver = dataclasses.replace(RTK, heading=0.005)
    measured = reverse.mounted(configuration).measurements(5, gnss=receiver)
    given = [m for m in without(measured, "wheel.", *UNKNOWN) if m.arrival < 1.5 * SECOND]
    run = Run(configuration, steps(as_magnitudes(given, "vehicle.")))
    assert run.estimator.status()["restarts"] == 0
    assert find_worst(run, reverse, since=1.0) < 4.0


@pytest.mark.parametrize("speed", ["vehicle.", pytest.param("", marks=pytest.mark.slow)])
def test_a_bend_shows_that_a_car_reversed_from_the_start(reverse, speed):
    """No signed speed is measured. Before the bend the estimator assumes that the car goes forwards."""
    given = without(reverse.measurements(5, gnss="rtk"), "wheel.", *UNKNOWN, *([] if speed else ["vehicle."]))
    run = Run(prototype(), steps(as_magnitudes(given, "vehicle.")))
    assert run["vx"][run.t < 2 * SECOND].min() > 3.0
    assert run.estimator.condition.state == "running"
    assert find_worst(run, reverse, since=7.0) < 4.0


@pytest.mark.parametrize("degrees", [180.0, pytest.param(90.0, marks=pytest.mark.slow)])
def test_an_imu_that_is_turned_lets_no_car_go_backwards_for_long(degrees):
    """The speeds have no sign, and the acceleration by which the direction is found has the wrong one."""
    drive = Drive(dataclasses.replace(find_scenario("mixed_drive"), duration=20.0))
    given = without(drive.measurements(5, gnss="conventional", wheel_angles=None), "vehicle.", *UNKNOWN)
    imu = dataclasses.replace(prototype().sensors.imu, rotation=(0.0, 0.0, math.radians(degrees)))
    run = Run(with_sensors(imu=imu, wheel_angles=None), steps(given))
    since = run.t > 10.0 * SECOND
    assert np.abs(run.error(drive, "yaw")[since]).max() < math.radians(5.0)
    assert np.abs(run.error(drive, "vx")[since]).max() < 1.0
    assert run.estimator.status()["mounting"] > 1000
