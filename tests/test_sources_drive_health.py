"""Torques and brake pressure are checked by the accelerometer."""

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


def test_what_the_accelerometer_confirms_is_used(health):
    assert is_healthy(health, 2.0, 3.0, torque=torque_for(3.0))
    # A slope of 20 %, drag, a load.
    play(health, 2.0, 2.0, lambda t: 2.5 + 0.01 * math.sin(t), lambda t: 0.0, lambda t: 5.0)
    assert health.is_healthy


def test_wheels_that_spin_are_no_contradiction(health):
    """Of three times the torque that the tyres can transmit, they transmit what they can."""
    assert is_healthy(health, 1.0, 10.0, torque=torque_for(30.0))


def test_an_impossible_torque_is_not_used_at_all(health):
    assert not is_healthy(health, 0.004, 0.0, torque=1e5)


def test_brakes_that_do_not_brake_are_soon_not_used(health):
    car = vehicle("prototype")
    pressure = torque_for(5.0) / (2.0 * (car.front.brake.gain + car.rear.brake.gain))
    assert is_healthy(health, 0.19, 0.0, pressure=pressure)
    assert not is_healthy(health, 0.1, 0.0, 0.19, pressure=pressure)
    # Backwards, the same brakes accelerate the car ahead.
    other = DriveHealth(car)
    assert is_healthy(other, 1.0, 5.0, pressure=pressure, ahead=-SPEED)


def test_rejected_torques_are_used_again_after_half_a_second(health):
    assert not is_healthy(health, 0.004, 0.0, torque=1e5)
    assert not is_healthy(health, 0.45, 1.0, 0.1, torque=torque_for(1.0))
    assert is_healthy(health, 0.2, 1.0, 0.55, torque=torque_for(1.0))


def test_a_time_at_rest_is_no_agreement(health):
    assert not is_healthy(health, 0.004, 0.0, torque=1e5)
    assert not is_healthy(health, 0.1, 1.0, 0.1, torque=torque_for(1.0))
    assert not is_healthy(health, 1.0, 0.0, 0.2, ahead=0.0)
    assert not is_healthy(health, 0.1, 1.0, 1.2, torque=torque_for(1.0))


def test_without_an_accelerometer_or_at_rest_all_is_used(health):
    assert is_healthy(health, 1.0, None, torque=1e5)
    assert is_healthy(health, 1.0, 0.0, pressure=1e8, ahead=0.0)


def play(health: DriveHealth, seconds: float, begin: float, torque, pressure, measured) -> None:
    """Functions of time, the last one of acceleration; torque in m/s² too."""
    for k in range(round(seconds / 0.004)):
        t = begin + 0.004 * k
        health.check(t, torque_for(torque(t)), pressure(t), SPEED, measured(t))


def wavering(t: float) -> float:
    return 1.5 + 1.5 * math.sin(t)


def test_a_torque_that_repeats_its_sample_is_named_by_a_smaller_contradiction(health):
    """It is used again once it changes and agrees, not where the car happens to accelerate by as much."""
    play(health, 8.0, 0.0, wavering, lambda t: 0.0, wavering)
    assert health.is_healthy
    play(health, 1.0, 8.0, lambda t: 3.0, lambda t: 0.0, lambda t: 0.0)
    assert (health.is_healthy, health.suspect) == (False, "torques")
    play(health, 2.0, 9.0, lambda t: 3.0, lambda t: 0.0, lambda t: 3.0)
    assert not health.is_healthy
    play(health, 2.0, 11.0, wavering, lambda t: 0.0, wavering)
    assert health.is_healthy


def test_brakes_that_repeat_their_sample_are_named(health):
    """Stuck at zero while the car brakes, or applied while it does not."""
    play(health, 1.0, 0.0, wavering, lambda t: 0.0, lambda t: wavering(t) - 3.5)
    assert (health.is_healthy, health.suspect) == (False, "brakes")
    other = DriveHealth(vehicle("prototype"))
    car = vehicle("prototype")
    pressure = torque_for(3.5) / (2.0 * (car.front.brake.gain + car.rear.brake.gain))
    play(other, 1.0, 0.0, lambda t: 0.0, lambda t: pressure, lambda t: 0.0)
    assert (other.is_healthy, other.suspect) == (False, "brakes")


def test_a_car_that_brakes_is_not_driven(health):
    """Brakes with a gain that is a third off, and no torque as long as that."""
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


def test_brakes_that_are_not_measured_explain_what_torques_do_not(health):
    assert is_healthy(health, 3.0, -12.0, torque=0.0, pressure=None)
    assert is_healthy(health, 3.0, -12.0, 3.0, torque=torque_for(-3.0), pressure=None)
    # They neither drive a car, nor hold one back that is driven.
    assert not is_healthy(health, 0.5, 6.0, 6.0, torque=0.0, pressure=None)
    assert health.suspect == "torques"
    assert not is_healthy(DriveHealth(vehicle("prototype")), 0.004, 0.0, torque=1e5, pressure=None)


def test_an_engine_that_is_not_measured_explains_what_brakes_do_not(health):
    assert is_healthy(health, 3.0, 9.0, torque=None, pressure=0.0)
    assert is_healthy(health, 3.0, -5.0, 3.0, torque=None, pressure=0.0)
    assert is_healthy(health, 3.0, -8.0, 6.0, torque=None, pressure=pressure_for(5.0))
    # It drives no car that brakes.
    assert not is_healthy(health, 0.5, 0.0, 9.0, torque=None, pressure=pressure_for(7.0))
    assert health.suspect == "brakes"


def test_slicks_and_wings_give_more_than_the_grip_of_roads(health):
    assert is_healthy(health, 2.0, -17.0, pressure=pressure_for(20.0))
