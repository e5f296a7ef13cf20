"""A car with only an IMU and a receiver, while the receiver has no fix."""

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, steps, without

from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario

BEGIN, END = 12.0, 38.0
"""s: without fixes, on a straight."""


@pytest.fixture(scope="module")
def drive() -> Drive:
    bends = [(2.0, 0.0), (3.0, 0.006), (5.0, 0.006), (6.0, -0.006), (8.0, -0.006), (9.0, 0.0)]
    inputs = DriveInputs(rack=bends, rear_torque=90.0)
    initial = InitialMotion(speed=15.0, yaw=0.5)
    return Drive(Scenario(duration=END, initial=initial, inputs=inputs, plant=STANDARD_ERRORS))


@pytest.mark.parametrize("receiver", [pytest.param("rtk", marks=pytest.mark.slow), "conventional"])
def test_the_speed_does_not_drift_on_a_straight_without_fixes(drive, receiver):
    # The estimated steering angle has the noise of the IMU samples with which the tyre forces are compared. Before,
    # errors of the speed entered these forces too; the product of both errors made the speed drift by 14 m/s here,
    # and the position by 200 m.
    measurements = drive.measurements(seed=3, gnss=receiver, outages={"gnss": [(BEGIN, END)]})
    run = Run(prototype(), steps(without(measurements, "steer", "wheel", "vehicle", "torque", "brake")))
    alone = run.t > BEGIN * SECOND
    assert np.abs(run.error(drive, "vx"))[alone].max() < 0.7
    for column, bound in (("x", 8.0), ("y", 8.0), ("yaw", np.radians(1.0))):
        assert np.abs(run.error(drive, column))[alone].max() < bound, column
    assert (np.abs(run.error(drive, "vx")) / run["sigma.vx"])[alone].max() < 4.0
