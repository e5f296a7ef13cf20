"""Wheels that read zero until they turn fast enough: how fast they may turn then is what they have shown."""

from collections.abc import Iterable

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, only, rms, steps, with_sensors

from vehicled.configuration import Configuration
from vehicled.estimator import Estimator
from vehicled.messages import Measurement
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.sources.speeds.dead_band import DeadBand
from vehicled.sources.speeds.wheels import SPEEDS, WheelSpeeds

LEAST = 0.9 / 0.3
"""rad/s"""


def test_before_a_wheel_has_turned_zero_may_be_as_fast_as_such_sensors_leave_out():
    band = DeadBand()
    assert band.take(0.0) > LEAST**2
    assert band.least > LEAST


def test_the_least_rate_that_has_been_read_is_the_band():
    band = DeadBand()
    for rate in (0.0, LEAST, 20.0):
        band.take(rate)
    assert band.least == LEAST
    assert band.take(0.0) > LEAST**2


def test_a_wheel_that_turns_from_the_first_reading_on_has_shown_nothing():
    band = DeadBand()
    band.take(20.0)
    assert band.take(0.0) == 0.0
    assert band.take(LEAST) == 0.0
    assert band.take(0.0) > LEAST**2


def test_a_sensor_that_reads_small_rates_has_no_band():
    band = DeadBand()
    for rate in (0.0, 0.02, 3.0, 0.0):
        band.take(rate)
    assert band.take(0.0) < 0.1**2


@pytest.fixture(scope="module")
def jam() -> Drive:
    """The car pulls off and is braked to a stop, again and again."""
    torque, brake = [(0.0, 0.0)], [(0.0, 0.0)]
    for k in range(5):
        t = 1.0 + 6.0 * k
        torque += [(t, 0.0), (t + 0.3, 350.0), (t + 2.5, 350.0), (t + 2.8, 0.0)]
        brake += [(t + 2.8, 0.0), (t + 3.2, 12e5), (t + 5.5, 12e5), (t + 5.8, 0.0)]
    return Drive(Scenario(duration=30.0, inputs=DriveInputs(rear_torque=torque, brake_pressure=brake)))


def spoil(drive: Drive, measurements: Iterable[Measurement]) -> list[Measurement]:
    """With rates of wheels, zero below the least one, in place of their angles."""

    def change(m: Measurement) -> Measurement:
        if "wheel.fl.angle" not in m.values:
            return m
        rate = float(drive.truth(np.array([m.t]), "vx")[0]) / 0.3
        return Measurement(m.source, m.t, m.arrival, dict.fromkeys(SPEEDS, rate if rate > LEAST else 0.0))

    return list(map(change, measurements))


def with_wheel_speeds() -> Configuration:
    return with_sensors(wheel_angles=None, wheel_speeds=WheelSpeeds())


def test_a_car_in_a_jam_is_followed_as_it_pulls_off(jam):
    """Without the band, wheels hold the estimate back at each start, and then contradict it: 1.3 m/s off."""
    given = spoil(jam, only(jam.measurements(gnss="conventional"), "imu.", "gnss.", "steer.", "wheel."))
    run = Run(with_wheel_speeds(), steps(given))
    later = run.t > 2 * SECOND  # the first start as well
    assert run.estimator.status()["restarts"] == 0
    assert rms(run.error(jam, "vx")[later]) < 0.25
    assert np.abs(run.error(jam, "vx")[later]).max() < 0.6


def test_after_a_reset_a_band_is_not_known(jam):
    """Nor anything else of the drive before: the same drive again gives the same bytes."""
    measured = only(jam.begin(10.0).measurements(), "imu.", "steer.", "wheel.", "vehicle.")
    given, estimator = steps(spoil(jam, measured)), Estimator(with_wheel_speeds())
    first = Run(with_wheel_speeds(), given, estimator=estimator)
    estimator.command("reset", {})
    again = Run(with_wheel_speeds(), given, estimator=estimator)
    assert again.values.tobytes() == first.values.tobytes()


def test_a_car_that_waits_for_its_first_start_stands_and_then_is_followed():
    """Zeros alone would leave a speed of 0.1 m/s open for as long as it waits."""
    wait = 20.0
    torque = [(0.0, 0.0), (wait, 0.0), (wait + 0.3, 350.0)]
    brake = [(0.0, 20e5), (wait - 1.0, 20e5), (wait - 0.7, 0.0)]
    waits = Drive(Scenario(duration=wait + 4.0, inputs=DriveInputs(rear_torque=torque, brake_pressure=brake)))
    given = spoil(waits, only(waits.measurements(gnss="conventional"), "imu.", "steer.", "wheel."))
    run = Run(with_wheel_speeds(), steps(given))
    stands = (run.t > 14 * SECOND) & (run.t < (wait - 2.0) * SECOND)
    assert np.abs(run["vx"][stands]).max() < 0.01
    assert np.abs(run.error(waits, "vx")).max() < 0.3
