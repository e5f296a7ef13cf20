"""Lane changes of a car whose roll and yaw response differ from the model."""

from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, rms, steps, without

from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, PlantErrors, Scenario

SECONDS, PERIOD_OF_CHANGES = 60.0, 8.0


@lru_cache
def drive() -> Drive:
    """Repeated lane changes to the left and back at 22 m/s."""
    rack = [(0.0, 0.0)]
    for t in np.arange(3.0, SECONDS - 5.0, PERIOD_OF_CHANGES):
        for after, steer in (
            (0.0, 0.0),
            (0.4, 1.0),
            (0.9, -1.0),
            (1.4, 0.0),
            (3.0, 0.0),
            (3.4, -1.0),
            (3.9, 1.0),
            (4.4, 0.0),
        ):
            rack.append((float(t) + after, 0.0085 * steer))
    softer = PlantErrors(mass=0.05, inertia=0.1, tyre_stiffness=-0.2, springs=-0.3)
    inputs = DriveInputs(rack=rack, rear_torque=130.0)
    return Drive(Scenario(duration=SECONDS, initial=InitialMotion(speed=22.0), inputs=inputs, plant=softer))


@lru_cache
def followed() -> Run:
    measured = drive().measurements(2, gnss="conventional")
    return Run(prototype(), steps(without(measured, "torque", "brake")))


def test_the_simulated_lane_changes_reach_5_to_6_metres_per_second_squared():
    run = followed()
    assert 5.0 < np.max(np.abs(drive().truth(run.t, "ay"))) < 6.0


def test_no_gyroscope_scale_or_imu_misalignment_is_estimated():
    found = followed().estimator.parameters()
    assert abs(found["gyro_scale"].value) < 0.004
    assert max(abs(found[f"imu_alignment.{a}"].value) for a in "xyz") < 0.015


@pytest.mark.parametrize(("column", "most"), [("wz", 0.09), ("yaw", 0.2), ("sideslip", 0.15)])
def test_yaw_rate_heading_and_sideslip_are_accurate(column, most):
    run = followed()
    assert np.degrees(rms(run.error(drive(), column)[run.t > 5 * SECOND])) < most
