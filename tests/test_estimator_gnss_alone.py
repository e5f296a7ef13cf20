"""A car with a GNSS receiver only, and a car whose sensors are all silent for seconds."""

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, bends, mixed, prototype, rms, steps, without

from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario

OTHERS = "imu", "wheel", "vehicle", "steer", "torque", "brake"
VELOCITY = "gnss.speed", "gnss.course", "gnss.v"


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_receiver_alone_gives_position_heading_speed_and_sideslip(seed):
    # Only the track of the car shows its steering angle. Before, the assumed rate of steering at 15 m/s was that of
    # a car park, and the simulated car spun.
    drive = mixed()
    run = Run(prototype(), steps(without(drive.measurements(seed=seed), *OTHERS)))
    assert run.estimator.status()["restarts"] == 0
    known = (run.t > 5 * SECOND) & (run.t < 25 * SECOND)
    bounds = {"yaw": np.radians(2.0), "vx": 0.2, "x": 1.0, "y": 1.0, "sideslip": np.radians(0.4)}
    for column, bound in bounds.items():
        assert rms(run.error(drive, column)[known]) < bound, column
    assert rms(drive.truth(run.t, "sideslip")[known]) > 2.0 * bounds["sideslip"]


@pytest.mark.parametrize("lacking", [OTHERS, ("imu", "vehicle", "torque", "brake")], ids=["alone", "no IMU"])
def test_precise_fixes_are_followed_without_accelerometers(lacking):
    """Before, the model's lag behind them was taken for a latency and an antenna elsewhere: 0.7 m at 18 σ."""
    drive = mixed()
    run = Run(prototype(), steps(without(drive.measurements(seed=3, gnss="rtk"), *lacking)))
    known = (run.t > 8 * SECOND) & (run.t < 25 * SECOND)
    for column, bound in (("x", 0.1), ("y", 0.1), ("yaw", np.radians(0.5))):
        error = np.abs(run.error(drive, column))[known]
        assert rms(error) < bound, column
        assert (error / run[f"sigma.{column}"][known]).max() < 4.0, column


def test_a_receiver_alone_finds_the_direction_of_travel():
    # A receiver alone does not show the direction of travel: the start may assume the wrong one.
    drive = mixed()
    run = Run(prototype(), steps(without(drive.measurements(seed=3, gnss="conventional"), *OTHERS)))
    late = run.t > 12 * SECOND
    assert np.abs(run.error(drive, "vx"))[late].max() < 1.5
    assert np.abs(run.error(drive, "yaw"))[late].max() < np.radians(8.0)


@pytest.mark.parametrize("receiver", ["rtk", "conventional"])
@pytest.mark.parametrize("silence", [*(pytest.param(s, marks=pytest.mark.slow) for s in (4.0, 8.0)), 10.0])
def test_the_heading_is_found_again_after_all_sensors_were_silent(receiver, silence):
    # The heading has become very uncertain. Before, the linear update with a course gave a wrong heading with a
    # small σ.
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


def test_a_receiver_alone_shows_that_the_car_reverses():
    """The car stops, then reverses at 1.3 m/s. Speed over ground has no sign; a course is not used below 2 m/s."""
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


@pytest.mark.parametrize("receiver", ["rtk", "conventional"])
@pytest.mark.parametrize("lacking", [OTHERS, OTHERS[1:]], ids=["alone", "IMU"])
def test_fixes_without_velocities_show_speed_and_heading_at_the_start(lacking, receiver):
    """As by NMEA with GGA alone. Before, the car started standing and in any direction: 37° and 8 m/s off."""
    drive = bends()
    run = Run(prototype(), steps(without(drive.measurements(seed=4, gnss=receiver), *VELOCITY, *lacking)))
    known = (run.t > 2 * SECOND) & (run.t < 6.4 * SECOND)
    assert run.estimator.status()["restarts"] == 0
    for column, bound in (("yaw", np.radians(30.0)), ("vx", 6.0), ("x", 4.0), ("y", 4.0)):
        error = np.abs(run.error(drive, column))[known]
        assert error.max() < bound, column
        assert (error / run[f"sigma.{column}"][known]).max() < 4.0, column


@pytest.mark.parametrize("receiver", ["rtk", "conventional"])
def test_the_speed_is_uncertain_where_fixes_do_not_show_it(receiver):
    """A car that has just started: before, it was taken to stand, 1.6 m/s off at 17 σ."""
    drive = mixed()
    run = Run(prototype(), steps(without(drive.measurements(seed=3, gnss=receiver), *VELOCITY, *OTHERS)))
    known = (run.t > 3 * SECOND) & (run.t < 10 * SECOND)
    assert (np.abs(run.error(drive, "vx")) / run["sigma.vx"])[known].max() < 4.0
