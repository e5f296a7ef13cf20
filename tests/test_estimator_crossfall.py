"""Roads that fall to one side, as public roads do: the IMU must not seem to be mounted askew."""

import dataclasses
import math

import pytest
from estimator_rig import Drive, Run, prototype, rms, steps

from vehicled.filter.settings import Unknowns
from vehicled.simulation.hills import Hills
from vehicled.simulation.scenario import Ground, find_scenario

FALL = 0.02


@pytest.mark.parametrize("crossfall", [FALL, pytest.param(0.0, marks=pytest.mark.slow)])
def test_a_fall_of_all_roads_is_hardly_taken_for_a_rotation_of_the_imu(crossfall):
    scenario = dataclasses.replace(find_scenario("mixed_drive"), duration=40.0)
    drive = Drive(dataclasses.replace(scenario, ground=Ground(hills=Hills(slope=0.0, crossfall=crossfall))))
    car = prototype()
    public = dataclasses.replace(car.filter.unknowns, crossfall=Unknowns().crossfall)
    car = dataclasses.replace(car, filter=dataclasses.replace(car.filter, unknowns=public))
    run = Run(car, steps(drive.measurements(gnss="rtk")))
    found = run.estimator.parameters()
    late = run.t > 30e9
    assert rms(run.error(drive, "roll")[late]) < math.radians(0.5)
    assert rms(run.error(drive, "yaw")[late]) < math.radians(0.1)
    # Positive upwards to the left: roads fall to the right.
    assert abs(found["crossfall"].value - crossfall) < 2.5 * found["crossfall"].sigma
    assert found["crossfall"].sigma > 0.003
    assert abs(found["imu_alignment.x"].value) < 3.0 * found["imu_alignment.x"].sigma
