"""The estimator on a hilly road, though its model assumes a plane."""

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
    """A run with a conventional receiver, without measured torques and brake pressures, as in most cars."""
    measured = drive().measurements(3, gnss="conventional")
    return Run(prototype(), steps(without(measured, "torque", "brake")))


@pytest.mark.parametrize(
    ("column", "most"), [("roll", 0.4), ("pitch", 0.7), ("yaw", 0.3), ("sideslip", 0.2), ("wz", 0.08)]
)
def test_attitude_sideslip_and_yaw_rate_are_accurate(column, most):
    run = followed()
    moving = run.t > 10 * SECOND
    assert np.degrees(rms(run.error(drive(), column)[moving])) < most


def test_hills_are_not_taken_for_a_misaligned_imu():
    angles = {k: v for k, v in followed().estimator.parameters().items() if k.startswith("imu_alignment")}
    assert len(angles) == 3
    for angle in angles.values():
        assert abs(angle.value) < 0.02


def test_accelerometers_and_gyroscopes_stay_active_on_hills():
    states = followed().sensors
    assert states["imu.accel"]["state"] == states["imu.gyro"]["state"] == "active"


@pytest.mark.slow
def test_steep_hills_do_not_shift_the_position_with_rtk():
    """Before, pitching for seconds was taken for a gyroscope bias, which shifted the position by 0.13 m."""
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
