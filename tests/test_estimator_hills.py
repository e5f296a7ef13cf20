"""The estimator on a hilly road, which its plane does not have."""

from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, rms, steps, without

from vehicled.simulation.hills import Hills
from vehicled.simulation.random_course import RandomDrive, Temper
from vehicled.simulation.scenario import STANDARD_ERRORS, Ground

SECONDS = 60.0


@lru_cache
def drive() -> Drive:
    gentle = Temper(lateral=(1.0, 3.5), braking=(1.0, 2.5))
    ground = Ground(hills=Hills(slope=0.08, bank=0.02, length=150.0, seed=2))
    return Drive(
        RandomDrive(duration=SECONDS, number=22, temper=gentle, plant=STANDARD_ERRORS, ground=ground)
    )


@lru_cache
def followed() -> Run:
    """By a conventional receiver, and without measured torques and pressure, as in most cars."""
    measured = drive().measurements(3, gnss="conventional")
    return Run(prototype(), steps(without(measured, "torque", "brake")))


@pytest.mark.parametrize(
    ("column", "most"), [("roll", 0.4), ("pitch", 0.7), ("yaw", 0.3), ("sideslip", 0.2), ("wz", 0.08)]
)
def test_attitude_and_heading_are_right(column, most):
    run = followed()
    moving = run.t > 10 * SECOND
    assert np.degrees(rms(run.error(drive(), column)[moving])) < most


def test_the_hills_are_not_taken_for_an_imu_mounted_askew():
    angles = {k: v for k, v in followed().estimator.parameters().items() if k.startswith("imu_alignment")}
    assert len(angles) == 3
    for angle in angles.values():
        assert abs(angle.value) < 0.02


def test_nor_are_the_accelerometers_blamed():
    states = followed().sensors
    assert states["imu.accel"]["state"] == states["imu.gyro"]["state"] == "active"


@pytest.mark.slow
def test_steep_hills_leave_an_rtk_drive_where_it_is():
    """A pitch of seconds was taken for a bias of the gyroscope, which drew time of fixes and place away: 0.13 m."""
    gentle = Temper(lateral=(1.0, 3.5), braking=(1.0, 2.5))
    ground = Ground(hills=Hills(slope=0.12, bank=0.02, length=150.0, seed=5))
    steep = Drive(
        RandomDrive(duration=SECONDS, number=28, temper=gentle, plant=STANDARD_ERRORS, ground=ground)
    )
    run = Run(prototype(), steps(without(steep.measurements(3, gnss="rtk"), "torque", "brake")))
    moving = run.t > 10 * SECOND
    assert np.hypot(*(rms(run.error(steep, axis)[moving]) for axis in "xy")) < 0.05
    assert np.degrees(rms(run.error(steep, "yaw")[moving])) < 0.1
    assert abs(run.estimator.status()["gyro_bias"][1]) < 0.004
