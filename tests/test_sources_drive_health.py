"""Drive torques and brake pressure are checked by the accelerometer."""

import math

import pytest
from vehicle_rig import vehicle

from vehicled.sources.inputs.drive_health import DriveHealth

SPEED = 15.0


@pytest.fixture
def health() -> DriveHealth:
    return DriveHealth(vehicle("prototype"))


def is_healthy(
    health: DriveHealth, seconds: float, measured: float | None, begin: float = 0.0, **inputs: float | None
) -> bool:
    given = {"torque": 0.0, "pressure": 0.0, "ahead": SPEED} | inputs
    for k in range(round(seconds / 0.004)):
        health.check(begin + 0.004 * k, measured=measured, **given)
    return health.is_healthy


def torque_for(acceleration: float) -> float:
    car = vehicle("prototype")
    return acceleration * car.mass * 0.5 * (car.front.tyre.radius + car.rear.tyre.radius)


def test_inputs_that_the_accelerometer_confirms_are_used(health):
    assert is_healthy(health, 2.0, 3.0, torque=torque_for(3.0))
    # A constant difference, as by a slope of 20 %, drag and a load.
    play(health, 2.0, 2.0, lambda t: 2.5 + 0.01 * math.sin(t), lambda t: 0.0, lambda t: 5.0)
    assert health.is_healthy


def test_torque_that_spins_the_wheels_is_not_a_contradiction(health):
    """The torque is three times what the tyres can transmit."""
    assert is_healthy(health, 1.0, 10.0, torque=torque_for(30.0))


def test_an_impossible_torque_is_rejected_at_once(health):
    assert not is_healthy(health, 0.004, 0.0, torque=1e5)


def test_brake_pressure_that_does_not_brake_the_car_is_rejected_after_0_2_s(health):
    car = vehicle("prototype")
    pressure = torque_for(5.0) / (2.0 * (car.front.brake.gain + car.rear.brake.gain))
    assert is_healthy(health, 0.19, 0.0, pressure=pressure)
    assert not is_healthy(health, 0.1, 0.0, 0.19, pressure=pressure)
    # In a car that goes backwards, brakes cause a forward acceleration.
    other = DriveHealth(car)
    assert is_healthy(other, 1.0, 5.0, pressure=pressure, ahead=-SPEED)


def test_rejected_torques_are_used_again_after_half_a_second(health):
    assert not is_healthy(health, 0.004, 0.0, torque=1e5)
    assert not is_healthy(health, 0.45, 1.0, 0.1, torque=torque_for(1.0))
    assert is_healthy(health, 0.2, 1.0, 0.55, torque=torque_for(1.0))


def test_time_at_rest_does_not_count_as_agreement(health):
    assert not is_healthy(health, 0.004, 0.0, torque=1e5)
    assert not is_healthy(health, 0.1, 1.0, 0.1, torque=torque_for(1.0))
    assert not is_healthy(health, 1.0, 0.0, 0.2, ahead=0.0)
    assert not is_healthy(health, 0.1, 1.0, 1.2, torque=torque_for(1.0))


def test_without_an_accelerometer_or_at_rest_all_inputs_are_used(health):
    assert is_healthy(health, 1.0, None, torque=1e5)
    assert is_healthy(health, 1.0, 0.0, pressure=1e8, ahead=0.0)


def play(health: DriveHealth, seconds: float, begin: float, torque, pressure, measured) -> None:
    """Check functions of time: `torque`, as an acceleration, m/s²; `pressure`, Pa; `measured`, m/s²."""
    for k in range(round(seconds / 0.004)):
        t = begin + 0.004 * k
        health.check(t, torque_for(torque(t)), pressure(t), SPEED, measured(t))


def wavering(t: float) -> float:
    return 1.5 + 1.5 * math.sin(t)


def test_a_torque_that_repeats_its_sample_is_rejected_by_a_smaller_contradiction(health):
    """It is used again once it changes and agrees, not while a repeated sample happens to agree."""
    play(health, 8.0, 0.0, wavering, lambda t: 0.0, wavering)
    assert health.is_healthy
    play(health, 1.0, 8.0, lambda t: 3.0, lambda t: 0.0, lambda t: 0.0)
    assert (health.is_healthy, health.suspect) == (False, "torques")
    play(health, 2.0, 9.0, lambda t: 3.0, lambda t: 0.0, lambda t: 3.0)
    assert not health.is_healthy
    play(health, 2.0, 11.0, wavering, lambda t: 0.0, wavering)
    assert health.is_healthy


def test_a_brake_pressure_that_repeats_its_sample_is_suspected(health):
    """The pressure is stuck at zero while the car brakes, or at a large value while it does not."""
    play(health, 1.0, 0.0, wavering, lambda t: 0.0, lambda t: wavering(t) - 3.5)
    assert (health.is_healthy, health.suspect) == (False, "brakes")
    other = DriveHealth(vehicle("prototype"))
    car = vehicle("prototype")
    pressure = torque_for(3.5) / (2.0 * (car.front.brake.gain + car.rear.brake.gain))
    play(other, 1.0, 0.0, lambda t: 0.0, lambda t: pressure, lambda t: 0.0)
    assert (other.is_healthy, other.suspect) == (False, "brakes")


def test_a_constant_torque_of_zero_is_not_suspected_while_the_car_brakes(health):
    """The gain of the brakes is a third off, and the torque is zero throughout."""
    car = vehicle("prototype")
    gain = 2.0 * (car.front.brake.gain + car.rear.brake.gain)
    play(
        health,
        3.0,
        0.0,
        lambda t: 0.0,
        lambda t: torque_for(9.0 + math.sin(t)) / gain,
        lambda t: -0.67 * (9.0 + math.sin(t)),
    )
    assert health.is_healthy


def pressure_for(deceleration: float) -> float:
    car = vehicle("prototype")
    return torque_for(deceleration) / (2.0 * (car.front.brake.gain + car.rear.brake.gain))


def test_unmeasured_brakes_explain_a_deceleration_that_torques_do_not(health):
    assert is_healthy(health, 3.0, -12.0, torque=0.0, pressure=None)
    assert is_healthy(health, 3.0, -12.0, 3.0, torque=torque_for(-3.0), pressure=None)
    # Brakes do not drive a car, and do not hold it back while it is driven.
    assert not is_healthy(health, 0.5, 6.0, 6.0, torque=0.0, pressure=None)
    assert health.suspect == "torques"
    assert not is_healthy(DriveHealth(vehicle("prototype")), 0.004, 0.0, torque=1e5, pressure=None)


def test_an_unmeasured_engine_explains_an_acceleration_that_brakes_do_not(health):
    assert is_healthy(health, 3.0, 9.0, torque=None, pressure=0.0)
    assert is_healthy(health, 3.0, -5.0, 3.0, torque=None, pressure=0.0)
    assert is_healthy(health, 3.0, -8.0, 6.0, torque=None, pressure=pressure_for(5.0))
    # An engine does not drive a car that brakes.
    assert not is_healthy(health, 0.5, 0.0, 9.0, torque=None, pressure=pressure_for(7.0))
    assert health.suspect == "brakes"


def test_a_deceleration_beyond_road_grip_is_possible_with_slicks_and_wings(health):
    assert is_healthy(health, 2.0, -17.0, pressure=pressure_for(20.0))
