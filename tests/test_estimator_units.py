"""A channel that is found in another unit than its own does not reach the filter, and what it has done is undone."""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, steps, with_sensors, without

from vehicled import Estimator, Measurement
from vehicled.messages import ESTIMATE_INDEX
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario
from vehicled.simulation.sensor_settings import UsualReceiver
from vehicled.studies.faults import drives

DEGREES, KNOTS = 180.0 / math.pi, 1.94384
OFTEN = {("skid", "conventional")}
"""Healthy drives that are not slow tests: the one that a wrong unit is most like."""
BEND = [(8.0, 0.0), (9.0, 0.004), (12.0, 0.004), (13.0, 0.0)]
FOUND = 7.0
"""s: by then a wrong unit of a speed or a course is found on a straight road: eight half seconds, and the search."""


@lru_cache
def northward(seconds: float = 15.0) -> Drive:
    """At 15 m/s from the first instant, to the north, where courses in degrees are small numbers."""
    initial = InitialMotion(speed=15.0, yaw=0.5 * math.pi - 0.05)
    inputs = DriveInputs(rack=BEND, rear_torque=120.0)
    return Drive(Scenario(duration=seconds, initial=initial, inputs=inputs, plant=STANDARD_ERRORS))


@lru_cache
def with_degrees(receiver: UsualReceiver) -> Run:
    measurements = northward().measurements(5, gnss=receiver)
    return Run(prototype(), steps(in_unit(measurements, "gnss.course", DEGREES)))


def in_unit(measurements: Iterable[Measurement], begin: str, factor: float) -> list[Measurement]:
    """With the channels that begin so in another unit."""

    def convert(values: dict[str, float]) -> dict[str, float]:
        return {c: v * factor if c.startswith(begin) else v for c, v in values.items()}

    return [Measurement(m.source, m.t, m.arrival, convert(m.values)) for m in measurements]


@pytest.mark.parametrize("receiver", ["rtk", pytest.param("conventional", marks=pytest.mark.slow)])
def test_a_course_in_degrees_is_rejected_and_what_it_did_undone(receiver: UsualReceiver) -> None:
    drive, run = northward(), with_degrees(receiver)
    courses = [i for i in run.of("gnss.course") if i.step > FOUND * SECOND]
    assert {i.reason for i in courses} == {"unit"}
    assert not any(i.fused for i in courses)
    status = run.estimator.status()
    assert status["unit"] >= len(courses)
    assert list(status["units"]) == ["gnss.course"]
    (fault,) = [f for f in run.estimator.condition.faults if f.source == "gnss.course"]
    assert "in deg, not in rad" in fault.reason
    assert fault.less_certain
    later = (run.t > (FOUND + 2.0) * SECOND) & (run.t < 15 * SECOND)
    assert np.abs(run.error(drive, "yaw")[later]).max() < math.radians(3.0)
    for column in ("x", "y", "yaw"):
        assert (np.abs(run.error(drive, column)) < 4.0 * run[f"sigma.{column}"])[later].all(), column


@pytest.mark.parametrize(
    ("receiver", "origin"),
    [
        ("rtk", 0.5 * math.pi),
        pytest.param("conventional", 0.0, marks=pytest.mark.slow),
        pytest.param("rtk", 0.0, marks=pytest.mark.slow),
        pytest.param("conventional", 0.5 * math.pi, marks=pytest.mark.slow),
    ],
)
def test_courses_of_the_other_sense_are_rejected_and_what_they_did_undone(
    receiver: str, origin: float
) -> None:
    """Counted counter-clockwise, from east and from north: found after four seconds in bends.

    Or three seconds later, as of this seed with RTK from east, where a restart has come between.
    """
    drive = drives.make_drive(prototype(), "slalom", receiver, 5)

    def turn(m: Measurement) -> Measurement:
        if "gnss.course" not in m.values:
            return m
        course = (origin - m.values["gnss.course"]) % math.tau
        return Measurement(m.source, m.t, m.arrival, m.values | {"gnss.course": course})

    run = Run(prototype(), steps(map(turn, drive.measurements)))
    courses = [i for i in run.of("gnss.course") if i.step > 11.5 * SECOND]
    assert {i.reason for i in courses} == {"unit"}
    (fault,) = [f for f in run.estimator.condition.faults if f.source == "gnss.course"]
    assert "counter-clockwise" in fault.reason
    yaw = np.interp(run.t, drive.t, np.unwrap(drive.truth[:, ESTIMATE_INDEX["yaw"]]))
    error = np.abs(np.remainder(run["yaw"] - yaw + math.pi, math.tau) - math.pi)
    assert error[run.t > 14.0 * SECOND].max() < math.radians(3.0)


def test_positions_stay_in_the_frame_that_they_were_in() -> None:
    run = with_degrees("rtk")
    assert run.estimator.status()["restarts"] >= 1
    origins = run["lat"] - run["y"] / 111_195.0
    assert np.ptp(origins[run.t > 2 * SECOND]) * 111_195.0 < 1.0


@pytest.mark.parametrize(
    ("begin", "factor"), [("vehicle.speed", KNOTS), pytest.param("gnss.speed", KNOTS, marks=pytest.mark.slow)]
)
def test_a_start_does_not_use_what_was_found_before(begin: str, factor: float) -> None:
    drive, reset_at = northward(), 7 * SECOND
    given = steps(in_unit(drive.measurements(5), begin, factor))
    estimator = Estimator(prototype())
    first = None
    for step in given:
        if step.t == reset_at:
            estimator.command("reset", {})
        estimate = estimator.step(step.t, step.measurements)
        if estimate is not None and step.t >= reset_at:
            first = estimate
            break
    assert first is not None
    assert abs(first["vx"] - drive.truth(np.array([first.t]), "vx")[0]) < 0.5


@pytest.mark.slow
def test_a_unit_that_is_put_right_is_used_again() -> None:
    """After three quarters of the intervals in which it was compared show it."""
    sound = northward(27.0).measurements(5)
    wrong = in_unit([m for m in sound if m.arrival < 5 * SECOND], "vehicle.speed", 3.6)
    run = Run(prototype(), steps([*wrong, *(m for m in sound if m.arrival >= 5 * SECOND)]))
    reasons = [i.reason for i in run.of("vehicle.speed")]
    assert "unit" in reasons
    assert reasons[-1] == "fused"
    assert run.estimator.status()["units"] == {}


@pytest.mark.parametrize("factor", [KNOTS / 3.6, pytest.param(0.9, marks=pytest.mark.slow)])
def test_a_receivers_speed_in_another_scale_is_left_out_and_what_it_did_undone(factor: float) -> None:
    """Wheels and positions outvote it after two seconds."""
    drive = northward()
    given = without(in_unit(drive.measurements(5), "gnss.speed", factor), "vehicle.speed")
    run = Run(prototype(), steps(given))
    found = 4.0
    assert not any(i.fused for i in run.of("gnss.velocity") if i.step > found * SECOND)
    assert {i.reason for i in run.of("gnss.speed") if i.step > found * SECOND} <= {"implausible", "unit"}
    (fault,) = run.estimator.condition.faults
    assert fault.source == "gnss.speed"
    assert not any(i.reason == "gate" for i in run.innovations if i.step > (found + 1.0) * SECOND)
    later = (run.t > (found + 2.0) * SECOND) & (run.t < 15 * SECOND)
    assert np.abs(run.error(drive, "vx")[later]).max() < 0.2
    for column in ("x", "y", "vx"):
        assert (np.abs(run.error(drive, column)) < 4.0 * run[f"sigma.{column}"])[later].all(), column


@pytest.mark.slow
def test_a_vector_of_velocity_in_another_unit_is_rejected_too() -> None:
    def to_vector(m: Measurement) -> Measurement:
        if "gnss.course" not in m.values:
            return m
        v = dict(m.values)
        speed, course = 3.6 * v.pop("gnss.speed"), v.pop("gnss.course")
        v |= {"gnss.vn": speed * math.cos(course), "gnss.ve": speed * math.sin(course)}
        return Measurement(m.source, m.t, m.arrival, v)

    run = Run(prototype(), steps(map(to_vector, northward().measurements(5))))
    vectors = [i for i in run.innovations if i.source == "gnss" and i.step > FOUND * SECOND]
    assert "unit" in {i.reason for i in vectors if i.sensor in ("gnss.vn", "gnss.ve")}
    assert not any(i.fused for i in vectors if i.sensor == "gnss.velocity")


def test_a_receiver_without_courses_shows_the_heading_by_its_positions() -> None:
    drive = northward()
    run = Run(prototype(), steps(without(drive.measurements(5, gnss="conventional"), "gnss.course")))
    assert run.estimator.status()["alignments"] == 1
    assert run.estimator.condition.state == "running"
    later = (run.t > 4 * SECOND) & (run.t < 15 * SECOND)
    assert (np.abs(run.error(drive, "yaw")) < 4.0 * run["sigma.yaw"])[later].all()
    assert np.abs(run.error(drive, "yaw")[later]).max() < math.radians(4.0)


def test_an_ambiguous_ratio_is_warned_of_and_used() -> None:
    """Car in km/h, or wheels in m/s: without any third speed nobody can tell which."""
    configuration = with_sensors(gnss=None, imu=None)
    drive = northward()
    radius = prototype().vehicle.front.tyre.radius

    def to_speeds(m: Measurement) -> Measurement | None:
        if "vehicle.speed" not in m.values:
            return None
        v = m.values["vehicle.speed"]
        wheels = dict.fromkeys((f"wheel.{w}.speed" for w in ("fl", "fr", "rl", "rr")), v / radius)
        return Measurement(m.source, m.t, m.arrival, {"vehicle.speed": 3.4 * v, **wheels})

    run = Run(configuration, steps(m for m in map(to_speeds, drive.measurements(5)) if m is not None))
    status = run.estimator.status()
    assert len(status["units"]) == 1
    assert status["unit"] == 0


def test_reading_the_status_changes_nothing() -> None:
    """A daemon reads it once a second, a replay at its end; both have to give the same estimates."""
    given = steps(in_unit(northward().begin(FOUND + 1.0).measurements(5), "vehicle.speed", KNOTS))
    quiet, read = Run(prototype(), given), Estimator(prototype())
    values = []
    for step in given:
        estimate = read.step(step.t, step.measurements)
        read.status()
        if estimate is not None:
            values.append(estimate.values)
    assert read.status()["units"]
    assert np.array(values).tobytes() == quiet.values.tobytes()


@pytest.mark.parametrize(
    ("name", "receiver"),
    [
        pytest.param(name, receiver, marks=() if (name, receiver) in OFTEN else pytest.mark.slow)
        for name in drives.DRIVES
        for receiver in ("rtk", "conventional")
    ],
)
def test_healthy_channels_are_never_rejected(name: str, receiver: str) -> None:
    configuration = prototype()
    drive = drives.make_drive(configuration, name, receiver, 5)
    run = Run(configuration, steps(drive.measurements))
    assert run.estimator.status()["unit"] == 0
    assert not any(i.reason == "unit" for i in run.innovations)
