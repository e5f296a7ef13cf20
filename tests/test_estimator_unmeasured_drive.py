"""Suspensions, wheel loads and tyre forces of a car whose drive torque and brake pressure are not measured."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, RoadRun, Run, prototype, rms, steps, without
from true_loads_rig import TrueLoads

from vehicled.configuration import Configuration
from vehicled.messages import WHEELS
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario
from vehicled.smoothing.smoother import Smoother
from vehicled.sources.inputs.unmeasured_drive import ADDED_PLACES, UnmeasuredDrive
from vehicled.stepping import play_back

SECONDS = 9.0
UNMEASURED = "torque.", "brake."


def scenario() -> Scenario:
    """The car gains speed, then brakes at 6 m/s²; the plant is off by the standard errors."""
    inputs = DriveInputs(
        rear_torque=[(1.0, 0.0), (1.3, 900.0), (4.0, 900.0), (4.3, 0.0)],
        brake_pressure=[(5.0, 0.0), (5.2, 60e5), (7.0, 60e5), (7.2, 0.0)],
    )
    initial = InitialMotion(speed=15.0, yaw=0.5)
    return Scenario(duration=SECONDS, initial=initial, inputs=inputs, plant=STANDARD_ERRORS)


@lru_cache
def drive() -> Drive:
    return Drive(scenario())


def with_loads() -> Configuration:
    return replace(prototype(), loads=True)


@lru_cache
def followed() -> RoadRun:
    return RoadRun(with_loads(), steps(without(drive().measurements(5), *UNMEASURED)))


@lru_cache
def truth() -> TrueLoads:
    return TrueLoads(scenario())


def loads_of(run: Run, name: str, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return truth().compare(run, name, part)


@pytest.mark.parametrize(
    ("column", "left"),
    [
        ("suspension.{}.deflection", 0.1),
        ("suspension.{}.force", 0.4),
        ("tyre.{}.fz", 0.45),
        ("tyre.{}.fx", 0.1),
    ],
)
@pytest.mark.parametrize("wheel", WHEELS)
def test_wheel_forces_include_unmeasured_driving_and_braking(column: str, left: float, wheel: str) -> None:
    """`left`: bound of the error, as a share of the changes by driving and braking."""
    run, name = followed(), column.format(wheel)
    moving = (run.t > 1 * SECOND) & (run.t < SECONDS * SECOND)
    true = drive().truth(run.t[moving], name)
    assert rms(run.error(drive(), name)[moving]) < left * rms(true - np.median(true))


def test_joint_loads_include_unmeasured_driving_and_braking() -> None:
    """Errors are bounded as shares of the changes by driving and braking."""
    run = followed()
    moving = (run.t > 1 * SECOND) & (run.t < SECONDS * SECOND)
    for column, left in (
        ("lower_ball_joint.{}.fx", 0.1),
        ("lower_ball_joint.{}.fz", 0.4),
        ("upper_ball_joint.{}.fx", 0.1),
        ("tie_rod.{}.force", 0.1),
        ("lower_hinge.{}.fx", 0.1),
        ("lower_hinge.{}.mz", 0.1),
        ("upper_hinge.{}.mz", 0.1),
        ("wheel_bearing.{}.fx", 0.1),
        ("wheel_bearing.{}.fz", 0.4),
        ("spring.{}.force", 0.4),
        ("brake.{}.torque", 0.1),
    ):
        found, true = loads_of(run, column, moving)
        assert rms(found - true) < left * rms(true - np.median(true, axis=0)), column


def test_nothing_is_added_to_a_measured_drive_and_the_filter_is_not_changed(monkeypatch) -> None:
    measured = RoadRun(with_loads(), steps(drive().begin(4.0).measurements(5)))
    assert not measured.added[:, 12:].any()
    monkeypatch.setattr(UnmeasuredDrive, "add", lambda self: None)
    plain = Run(with_loads(), steps(drive().begin(4.0).measurements(5)))
    assert [e.loads.tobytes() for e in plain.estimates] == [e.loads.tobytes() for e in measured.estimates]
    monkeypatch.undo()
    given = steps(without(drive().begin(4.0).measurements(5), *UNMEASURED))
    run = RoadRun(prototype(), given)
    monkeypatch.setattr(UnmeasuredDrive, "add", lambda self: None)
    plain = Run(prototype(), given)
    others = np.setdiff1d(np.arange(run.values.shape[1]), ADDED_PLACES)
    assert plain.values[:, others].tobytes() == run.values[:, others].tobytes()


def test_braking_forces_are_estimated_after_torques_and_brakes_fell_silent() -> None:
    """Torques and brake pressures fall silent before the car brakes."""
    given = drive().measurements(5)
    lost = [m for m in given if m.t < 4.5 * SECOND] + without(
        [m for m in given if m.t >= 4.5 * SECOND], *UNMEASURED
    )
    run = RoadRun(with_loads(), steps(lost))
    braking = (run.t > 5.7 * SECOND) & (run.t < 6.9 * SECOND)
    for name in ("brake.{}.torque", "wheel_bearing.{}.fx", "tie_rod.{}.force"):
        found, true = loads_of(run, name, braking)
        assert rms(found - true) < 0.1 * rms(true), name
    for w in WHEELS:
        error = run.error(drive(), f"tyre.{w}.fx")[braking]
        assert rms(error) < 0.1 * rms(run[f"tyre.{w}.fx"][braking])


@pytest.mark.slow
def test_a_smoothed_drive_includes_the_added_forces() -> None:
    with Smoother(prototype()) as smoother:
        run = RoadRun(prototype(), [], estimator=smoother.estimator)
        given = steps(without(drive().begin(7.0).measurements(5), *UNMEASURED))
        play_back(smoother.estimator, given, [smoother.take, run._take])
        smoothed = list(smoother.smooth())
    last, filtered = smoothed[-1].values[ADDED_PLACES], run.estimates[-1].values[ADDED_PLACES]
    assert np.abs(run.added[-1][12:]).min() > 100.0
    assert last[12:] == pytest.approx(filtered[12:], rel=1e-3, abs=1.0)
