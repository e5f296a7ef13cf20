"""A car with a receiver alone, and one whose sensors are all silent for seconds."""

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, mixed, prototype, rms, steps, without

from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario

OTHERS = "imu", "wheel", "vehicle", "steer", "torque", "brake"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_receiver_alone_shows_heading_and_sideslip(seed):
    # Only the way shows where the wheels point. Taken to turn as fast at 15 m/s as in a car park, they made the
    # simulated car spin.
    drive = mixed()
    run = Run(prototype(), steps(without(drive.measurements(seed=seed), *OTHERS)))
    assert run.estimator.status()["restarts"] == 0
    known = (run.t > 5 * SECOND) & (run.t < 25 * SECOND)
    for column, bound in (("yaw", np.radians(2.0)), ("vx", 0.2), ("x", 1.0), ("y", 1.0)):
        assert rms(run.error(drive, column)[known]) < bound, column


def test_a_car_that_seems_to_race_backwards_goes_forwards():
    # A receiver without anything else shows no direction: by chance the start may take the wrong one.
    drive = mixed()
    run = Run(prototype(), steps(without(drive.measurements(seed=3, gnss="conventional"), *OTHERS)))
    late = run.t > 12 * SECOND
    assert np.abs(run.error(drive, "vx"))[late].max() < 1.5
    assert np.abs(run.error(drive, "yaw"))[late].max() < np.radians(8.0)


@pytest.mark.parametrize("receiver", ["rtk", "conventional"])
@pytest.mark.parametrize("silence", [4.0, 8.0, 10.0])
def test_after_silence_of_all_sensors_the_heading_is_found_anew(receiver, silence):
    # It has become so uncertain that a course, as a linear correction, led it anywhere, and certainly so.
    drive, begin = mixed(), 8.0
    end = begin + silence
    measurements = drive.measurements(seed=1, gnss=receiver)
    heard = [m for m in measurements if not begin * SECOND <= m.t < end * SECOND]
    run = Run(prototype(), steps(heard))
    again = (run.t > (end + 1) * SECOND) & (run.t < 25 * SECOND)
    for column in ("x", "y", "yaw", "vx"):
        assert (np.abs(run.error(drive, column)) / run[f"sigma.{column}"])[again].max() < 5.0, column
    for column, bound in (("yaw", np.radians(2.0)), ("vx", 0.2)):
        assert np.abs(run.error(drive, column))[again].max() < bound, column
    assert run.estimator.condition.state == "running"


def test_a_receiver_alone_shows_that_the_car_goes_backwards():
    """It stops, and backs out slowly: a speed over ground has no sign, and courses are too slow to be used alone."""
    inputs = DriveInputs(
        rear_torque=[(4.5, 0.0), (5.0, -330.0), (6.5, -330.0), (7.0, -60.0)],
        brake_pressure=[(1.5, 0.0), (2.0, 20e5), (4.0, 20e5), (4.2, 0.0)],
    )
    initial = InitialMotion(speed=6.0, yaw=0.7)
    drive = Drive(Scenario(duration=11.0, initial=initial, inputs=inputs, plant=STANDARD_ERRORS))
    given = without(drive.measurements(seed=1, gnss="conventional"), *OTHERS, "gnss.v")
    assert any("gnss.course" in m.values for m in given)
    run = Run(prototype(), steps(given))
    late = (run.t > 7 * SECOND) & (run.t <= drive.end)
    assert np.abs(drive.truth(run.t[late], "vx") + 1.3).max() < 0.6
    assert run["vx"][late].max() < 0.0
    assert rms(run.error(drive, "vx")[late]) < 0.3
    assert np.abs(run.error(drive, "yaw"))[late].max() < np.radians(10.0)
