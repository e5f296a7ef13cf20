"""Wheel speeds that read zero below a least rate, their dead band, which is found from their readings."""

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


def test_before_a_wheel_has_turned_the_largest_dead_band_is_assumed():
    band = DeadBand()
    assert band.take(0.0) > LEAST**2
    assert band.least > LEAST


def test_the_dead_band_is_the_least_rate_read():
    band = DeadBand()
    for rate in (0.0, LEAST, 20.0):
        band.take(rate)
    assert band.least == LEAST
    assert band.take(0.0) > LEAST**2


def test_a_wheel_that_turns_at_first_shows_its_dead_band_only_when_it_turns_again():
    band = DeadBand()
    band.take(20.0)
    assert band.take(0.0) == 0.0
    assert band.take(LEAST) == 0.0
    assert band.take(0.0) > LEAST**2


def test_a_sensor_that_reads_small_rates_has_no_dead_band():
    band = DeadBand()
    for rate in (0.0, 0.02, 3.0, 0.0):
        band.take(rate)
    assert band.take(0.0) < 0.1**2


@pytest.fixture(scope="module")
def jam() -> Drive:
    """The car pulls off and brakes to a stop, five times."""
    torque, brake = [(0.0, 0.0)], [(0.0, 0.0)]
    for k in range(5):
        t = 1.0 + 6.0 * k
        torque += [(t, 0.0), (t + 0.3, 350.0), (t + 2.5, 350.0), (t + 2.8, 0.0)]
        brake += [(t + 2.8, 0.0), (t + 3.2, 12e5), (t + 5.5, 12e5), (t + 5.8, 0.0)]
    return Drive(Scenario(duration=30.0, inputs=DriveInputs(rear_torque=torque, brake_pressure=brake)))


def spoil(drive: Drive, measurements: Iterable[Measurement]) -> list[Measurement]:
    """Replace wheel angles by wheel speeds that read zero below `LEAST`."""

    def change(m: Measurement) -> Measurement:
        if "wheel.fl.angle" not in m.values:
            return m
        rate = float(drive.truth(np.array([m.t]), "vx")[0]) / 0.3
        return Measurement(m.source, m.t, m.arrival, dict.fromkeys(SPEEDS, rate if rate > LEAST else 0.0))

    return list(map(change, measurements))


def with_wheel_speeds() -> Configuration:
    return with_sensors(wheel_angles=None, wheel_speeds=WheelSpeeds())


@pytest.mark.slow
def test_the_speed_of_a_car_in_a_traffic_jam_is_followed_as_it_pulls_off(jam):
    """Without the dead band, readings of zero hold the speed at zero at each start: errors of up to 1.3 m/s."""
    given = spoil(jam, only(jam.measurements(gnss="conventional"), "imu.", "gnss.", "steer.", "wheel."))
    run = Run(with_wheel_speeds(), steps(given))
    later = run.t > 2 * SECOND  # includes the first start
    assert run.estimator.status()["restarts"] == 0
    assert rms(run.error(jam, "vx")[later]) < 0.25
    assert np.abs(run.error(jam, "vx")[later]).max() < 0.6


def test_a_reset_forgets_the_dead_bands(jam):
    """A reset forgets everything of the drive before: the same drive gives the same bytes again."""
    measured = only(jam.begin(10.0).measurements(), "imu.", "steer.", "wheel.", "vehicle.")
    given, estimator = steps(spoil(jam, measured)), Estimator(with_wheel_speeds())
    first = Run(with_wheel_speeds(), given, estimator=estimator)
    estimator.command("reset", {})
    again = Run(with_wheel_speeds(), given, estimator=estimator)
    assert again.values.tobytes() == first.values.tobytes()


def test_the_speed_is_zero_before_the_first_start_and_then_followed():
    """Readings of zero alone would allow a speed of 0.1 m/s until the car starts."""
    wait = 20.0
    torque = [(0.0, 0.0), (wait, 0.0), (wait + 0.3, 350.0)]
    brake = [(0.0, 20e5), (wait - 1.0, 20e5), (wait - 0.7, 0.0)]
    waits = Drive(Scenario(duration=wait + 4.0, inputs=DriveInputs(rear_torque=torque, brake_pressure=brake)))
    given = spoil(waits, only(waits.measurements(gnss="conventional"), "imu.", "steer.", "wheel."))
    run = Run(with_wheel_speeds(), steps(given))
    stands = (run.t > 14 * SECOND) & (run.t < (wait - 2.0) * SECOND)
    assert np.abs(run["vx"][stands]).max() < 0.01
    assert np.abs(run.error(waits, "vx")).max() < 0.3
