"""Torques and brake pressure are checked by the accelerometer."""

import pytest
from vehicle_rig import vehicle

from vehicled.sources.drive_health import DriveHealth

SPEED = 15.0


@pytest.fixture
def health() -> DriveHealth:
    return DriveHealth(vehicle("prototype"))


def is_healthy(
    health: DriveHealth, seconds: float, measured: float | None, begin: float = 0.0, **inputs: float
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
    assert is_healthy(health, 2.0, 5.0, 2.0, torque=torque_for(2.5))


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
