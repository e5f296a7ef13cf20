"""Wheels that read zero until they turn fast enough: how fast they may turn then is what they have shown."""

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, only, rms, steps, with_sensors

from vehicled.messages import Measurement
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.sources.dead_band import DeadBand
from vehicled.sources.wheels import SPEEDS, WheelSpeeds

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


def test_a_car_in_a_jam_is_followed_as_it_pulls_off(jam):
    """Without the band, wheels hold the estimate back at each start, and then contradict it: 1.3 m/s off."""

    def spoil(m: Measurement) -> Measurement:
        if "wheel.fl.angle" not in m.values:
            return m
        rate = float(jam.truth(np.array([m.t]), "vx")[0]) / 0.3
        rates = dict.fromkeys(SPEEDS, rate if rate > LEAST else 0.0)
        return Measurement(m.source, m.t, m.arrival, rates)

    given = map(spoil, only(jam.measurements(gnss="conventional"), "imu.", "gnss.", "steer.", "wheel."))
    configuration = with_sensors(wheel_angles=None, wheel_speeds=WheelSpeeds())
    run = Run(configuration, steps(given))
    later = run.t > 2 * SECOND  # the first start as well
    assert run.estimator.status()["restarts"] == 0
    assert rms(run.error(jam, "vx")[later]) < 0.25
    assert np.abs(run.error(jam, "vx")[later]).max() < 0.6


def test_a_car_that_waits_for_its_first_start_stands_and_then_is_followed():
    """Zeros alone would leave a speed of 0.1 m/s open for as long as it waits."""
    wait = 20.0
    torque = [(0.0, 0.0), (wait, 0.0), (wait + 0.3, 350.0)]
    brake = [(0.0, 20e5), (wait - 1.0, 20e5), (wait - 0.7, 0.0)]
    waits = Drive(Scenario(duration=wait + 4.0, inputs=DriveInputs(rear_torque=torque, brake_pressure=brake)))

    def spoil(m: Measurement) -> Measurement:
        if "wheel.fl.angle" not in m.values:
            return m
        rate = float(waits.truth(np.array([m.t]), "vx")[0]) / 0.3
        return Measurement(m.source, m.t, m.arrival, dict.fromkeys(SPEEDS, rate if rate > LEAST else 0.0))

    given = map(spoil, only(waits.measurements(gnss="conventional"), "imu.", "steer.", "wheel."))
    run = Run(with_sensors(wheel_angles=None, wheel_speeds=WheelSpeeds()), steps(given))
    stands = (run.t > 14 * SECOND) & (run.t < (wait - 2.0) * SECOND)
    assert np.abs(run["vx"][stands]).max() < 0.01
    assert np.abs(run.error(waits, "vx")).max() < 0.3
