"""Acceleration at the limit of the tyres, with torques measured too large: the wheels of the model would spin."""

import pytest
from estimator_rig import Drive, Run, rms, steps, with_sensors

from vehicled.identification.vehicle.prediction_error import ScoredDrive, measure, survey
from vehicled.messages import WHEELS, Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.simulation.sensor_settings import SimulatedSignal
from vehicled.sources.speeds.wheels import WheelSpeeds

DRIVEN = WHEELS[2:]
CAR = with_sensors(wheel_angles=None, wheel_speeds=WheelSpeeds(noise=0.1))


def measured(gain: float, low: bool = False, late: bool = False) -> tuple[list[Measurement], Drive]:
    """A drive and what is measured in it. Measured torques are `gain` times as large as the true ones.

    `low`: the sensor of a driven wheel reads half its rate; `late`: at 2 s samples of all wheels are too old.
    """
    inputs = DriveInputs(rear_torque=[(0.5, 0.0), (0.6, 1900.0)])
    drive = Drive(Scenario(duration=5.0, initial=InitialMotion(speed=3.0, yaw=0.5), inputs=inputs))
    given = drive.measurements(0, wheel_angles=None, wheel_speeds=SimulatedSignal(rate=100.0, noise=0.1))
    changed = []
    for m in given:
        values = {c: v * gain if c.startswith("torque.") else v for c, v in m.values.items()}
        if low and "wheel.rl.speed" in values:
            values["wheel.rl.speed"] *= 0.5
        age = 3_000_000_000 if late and "wheel.rl.speed" in values and 2.0e9 < m.t < 2.1e9 else 0
        changed.append(Measurement(m.source, m.t - age, m.arrival, values))
    return changed, drive


def start(gain: float, low: bool = False, late: bool = False) -> tuple[Run, Drive]:
    """A run and its drive, as `measured`."""
    measurements, drive = measured(gain, low, late)
    return Run(CAR, steps(measurements)), drive


@pytest.mark.parametrize("gain", [1.0, 1.3])
def test_wheels_that_are_measured_as_rolling_do_not_spin_in_the_estimate(gain):
    found, drive = start(gain)
    late = found.t > 1.5e9
    for wheel in DRIVEN:
        error = found[f"wheel.{wheel}.speed"] - drive.truth(found.t, f"wheel.{wheel}.speed")
        assert rms(error[late]) < 4.0, wheel
    assert rms((found["vx"] - drive.truth(found.t, "vx"))[late]) < 0.1


@pytest.mark.parametrize("late", [False, True])
def test_a_wheel_speed_that_reads_half_is_rejected(late):
    found, drive = start(1.0, low=True, late=late)
    error = found["wheel.rl.speed"] - drive.truth(found.t, "wheel.rl.speed")
    assert rms(error[found.t > 1.5e9]) < 3.0
    reasons = {i.reason for i in found.innovations if i.sensor == "wheel.rl.speed"}
    assert "gate" in reasons
    assert found.estimator.status()["restarts"] == 0
    assert ("too old" in reasons) == late


def test_an_identification_leaves_out_readings_that_wheels_were_set_to():
    """They are no predictions: without a variance of their own, they made the criterion not finite."""
    measurements, _ = measured(1.3)
    assert any(i.reason == "reset" for i in Run(CAR, steps(measurements)).innovations)
    given = steps(measurements)
    error = measure(CAR, ScoredDrive(given, frozenset(step.t for step in given)))
    assert error.sensors["wheel.rl.speed"].count > 100


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_identification_warns_of_a_car_that_its_filter_loses(is_lost, caplog):
    measurements, _ = measured(1.0)
    wrong = ("gnss.speed", "vehicle.speed", *(f"wheel.{w}.speed" for w in WHEELS))
    changed = [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            {c: v * (0.3 if is_lost and m.t > 3e9 and c in wrong else 1.0) for c, v in m.values.items()},
        )
        for m in measurements
    ]
    survey(CAR, ScoredDrive(steps(changed), frozenset()))
    assert sum("loses the car at" in r.getMessage() for r in caplog.records) == is_lost
