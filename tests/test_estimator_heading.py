"""The heading: its rate in a rolled car, and how fixes, courses and headings of receivers determine it."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, bends, mixed, prototype, rms, steps, with_sensors, without
from filter_rig import new_filter, place, turn_left

from vehicled.maths.angles import wrap
from vehicled.messages import Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario
from vehicled.sources.imu.statistics import ImuStatistics
from vehicled.vehicle.arrays import AHEAD, LEFT, PLACE, V2Z, YAW

PITCHING = 0.06
"""Mean additional pitch rate, rad/s."""
BEGIN, END = SECOND, 2 * SECOND
"""ns: within a bend to the left, in which the car rolls to the right."""


def pitch_more(t: np.ndarray | float) -> np.ndarray | float:
    """Additional pitch rate, rad/s, from BEGIN to END (ns). It has no step: a step would be a fault of the sensor."""
    return PITCHING * (1.0 - np.cos(2.0 * np.pi * (t - BEGIN) / (END - BEGIN)))


@lru_cache
def run(share: float = 0.0) -> Run:
    """A run without a receiver. `share` of `pitch_more` is added to the measured pitch rate, as over a crest."""

    def pitch(m: Measurement) -> Measurement:
        if "imu.wy" not in m.values or not BEGIN < m.t <= END:
            return m
        more = {"imu.wy": m.values["imu.wy"] + share * pitch_more(m.t)}
        return Measurement(m.source, m.t, m.arrival, m.values | more)

    imu = prototype().sensors.imu
    # Without states for sensor errors, only the motion of the car explains the measured rates.
    gyroscopes = replace(imu.gyroscopes, bias=0.0, bias_drift=0.0, scale=0.0)
    imu = replace(imu, gyroscopes=gyroscopes, rotation_sigma=0.0)
    measured = map(pitch, without(bends().measurements(3), "gnss"))
    return Run(with_sensors(gnss=None, imu=imu), steps(measured))


@pytest.mark.slow
def test_the_heading_follows_the_measured_pitch_rate():
    """ψ̇ cos θ = ω_y sin φ + ω_z cos φ holds for the measured ω_y, though the model does not pitch like that."""
    plain, more, less = run(), run(1.0), run(-1.0)
    then = (plain.t > BEGIN) & (plain.t <= END)
    roll = plain["roll"][then]
    assert abs(roll.mean()) > 0.02
    expected = (END - BEGIN) / SECOND * float(np.mean(pitch_more(plain.t[then]) * np.sin(roll)))
    after = plain.t > END + SECOND // 2
    # The difference of both signs cancels the other effects of the pitch angle, which are even in it.
    found = 0.5 * wrap(more["yaw"] - less["yaw"])[after].mean()
    assert found == pytest.approx(expected, rel=0.1)


def test_a_heading_correction_by_the_pitch_rate_keeps_position_and_course():
    f, interval, pitching = new_filter(), 0.01, 0.5
    place(f, np.zeros(3), 0.7, 15.0)
    turn_left(f, 100)
    statistics = ImuStatistics(f)
    before = f.read_state().copy()
    angle = pitching * before[V2Z] * interval
    assert abs(angle) > 1e-5
    for k in range(2):
        statistics.take_sample(k * interval, [0.0] * 6, [1.0] * 6)
        statistics.take_rates(True, [0.0, k * pitching, 0.0], [1.0] * 3)
    f.apply_corrections()
    after = f.read_state()
    assert after[YAW] - before[YAW] == pytest.approx(angle, rel=1e-3)
    assert after[PLACE] == pytest.approx(before[PLACE], abs=1e-9)
    course = [p[YAW] + math.atan2(p[LEFT], p[AHEAD]) for p in (before, after)]
    assert course[1] - course[0] == pytest.approx(0.0, abs=0.01 * angle)


def test_a_parking_car_finds_its_heading_by_fixes():
    """The car goes forwards and backwards, too slowly for courses to be used. The initial heading is wrong."""
    inputs = DriveInputs(
        rack=[(2.0, 0.03), (9.0, 0.03), (10.0, -0.03)],
        rear_torque=[
            (1.0, 0.0),
            (1.5, 260.0),
            (5.0, 200.0),
            (5.2, 0.0),
            (9.0, 0.0),
            (9.5, -200.0),
            (12.0, -150.0),
            (12.5, 0.0),
        ],
        brake_pressure=[(0.5, 8e5), (1.0, 0.0), (5.5, 0.0), (6.0, 12e5), (8.5, 12e5), (9.0, 0.0)],
    )
    initial = InitialMotion(yaw=2.0)
    drive = Drive(Scenario(duration=14.0, initial=initial, inputs=inputs, plant=STANDARD_ERRORS))
    run = Run(prototype(), steps(drive.measurements(4)))
    status = run.estimator.status()
    assert np.abs(run["vx"]).max() < prototype().sensors.gnss.least_speed
    assert status["sensors"]["gnss.course"]["fused"] == 0
    assert status["state"] == "running"
    error = wrap(run.error(drive, "yaw"))
    later = run.t > 10 * SECOND
    assert math.degrees(rms(error[later])) < 0.5
    assert (np.abs(error) < 4.0 * run["sigma.yaw"])[run.t > 2 * SECOND].all()


def test_steering_at_walking_pace_does_not_spoil_a_heading_found_by_fixes():
    """The car reverses, like a robot leaving its dock, while it steers from side to side."""
    inputs = DriveInputs(
        rack=[(1.0, 0.0), *((2.0 + k, 0.02 * (-1) ** k) for k in range(9))],
        rear_torque=[(0.5, 0.0), (0.8, -300.0), (1.8, -300.0), (2.0, -20.0)],
    )
    drive = Drive(
        Scenario(duration=10.0, initial=InitialMotion(yaw=2.0), inputs=inputs, plant=STANDARD_ERRORS)
    )
    run = Run(prototype(), steps(drive.measurements(4)))
    status = run.estimator.status()
    assert -1.0 < run["vx"].min() < -0.3
    assert status["alignments"] == 1
    found = run["sigma.yaw"] < 0.5
    assert found[-1]
    error = wrap(run.error(drive, "yaw"))
    assert np.abs(error[found]).max() < math.radians(3.0)


def test_headings_of_a_receiver_without_a_configured_baseline_are_all_rejected():
    """The receiver gives a heading above 2 m/s, so that its first one comes with the course that aligns the car."""

    def add_heading(m: Measurement) -> Measurement:
        if m.values.get("gnss.speed", 0.0) <= 2.0:
            return m
        return Measurement(m.source, m.t, m.arrival, m.values | {"gnss.heading": 0.3})

    measured = without(mixed().begin(6.0).measurements(1, gnss="conventional"), "gnss.v")
    found = Run(prototype(), steps(map(add_heading, measured)))
    assert found.estimator.status()["alignments"] == 1
    assert found.estimator.status()["restarts"] == 0
    assert {i.reason for i in found.of("gnss.heading")} == {"no baseline"}
