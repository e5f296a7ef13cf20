"""Cars that spin: gyroscopes are believed, as neither wheels nor steering nor tyres show how the car turns."""

from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import Drive, Run, prototype, steps

from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario

BEGINS, ENDS = 9_000_000_000, 16_000_000_000


@lru_cache
def spin() -> Drive:
    """After a bend, a turn against the steering at 28 m/s by more than one and a half revolutions."""
    inputs = DriveInputs(
        rack=[
            (2, 0.0),
            (3, -0.008),
            (5, 0.008),
            (6, 0.0),
            (9, 0.0),
            (9.4, -0.025),
            (10.2, 0.035),
            (12, 0.035),
            (13, 0.0),
        ],
        rear_torque=[(9.2, 150.0), (9.4, 3000.0), (10.6, 3000.0), (10.8, 0.0)],
    )
    return Drive(
        Scenario(duration=16.0, initial=InitialMotion(speed=28.0), inputs=inputs, plant=STANDARD_ERRORS)
    )


@pytest.mark.parametrize("receiver", ["rtk", "conventional"])
def test_the_heading_of_a_car_that_spins_is_followed(receiver):
    run = Run(prototype(), steps(spin().measurements(3, gnss=receiver)))
    spins = (run.t > BEGINS) & (run.t < ENDS)
    assert np.ptp(spin().truth(run.t[spins], "yaw")) > 3.0 * np.pi
    yaw = np.abs(run.error(spin(), "yaw"))[spins]
    assert np.max(yaw) < np.radians(2.0)
    assert np.max(yaw / run["sigma.yaw"][spins]) < 4.0
    assert np.max(np.abs(run.error(spin(), "roll"))[spins]) < np.radians(15.0)
    assert not any("gyro" in f.source for f in run.summary.faults)
    assert {i.reason for i in run.of("imu.gyro") if not i.fused} == set()
