"""The heading before the filter is initialised, from the velocity of a receiver and the accelerometers."""

import cmath
import math

import numpy as np
import pytest

from vehicled.sources.start.acceleration_heading import AccelerationHeading

SPEED, YAW_RATE = 16.0, 0.35
ANTENNA, IMU = (-1.5, 0.4, 0.7), (0.3, -0.2, 0.0)


def observe(
    found: AccelerationHeading,
    sideslip: float,
    seconds: float,
    noise: float = 0.0,
    gap: float = 0.0,
    spin: float = 0.0,
) -> float:
    """Feed a car on a circle that points `sideslip` (rad) to the left of its course, and spins by `spin` (rad/s²).

    Plane kinematics in complex numbers, ahead + i left. Returns the yaw at the last fix.
    """
    rng = np.random.default_rng(4)
    antenna, imu = complex(*ANTENNA[:2]), complex(*IMU[:2])
    last = 0.0
    for k in range(round(seconds * 100) + 1):
        since = 0.01 * k
        t, course = 100.0 + since, 0.4 + YAW_RATE * since
        yaw, yaw_rate = course + sideslip + 0.5 * spin * since**2, YAW_RATE + spin * since
        velocity = SPEED * cmath.exp(1j * course)
        acceleration = 1j * YAW_RATE * velocity + cmath.exp(1j * yaw) * (1j * spin - yaw_rate**2) * imu
        force = acceleration * cmath.exp(-1j * yaw)
        if not 0.1 < since < 0.1 + gap:
            found.take_forces(t, yaw_rate, force.real, force.imag)
        if k % 5 == 0:
            velocity += 1j * yaw_rate * antenna * cmath.exp(1j * yaw)
            velocity += noise * complex(*rng.standard_normal(2))
            found.take_velocity(t, abs(velocity), 0.5 * math.pi - cmath.phase(velocity), ANTENNA)
            last = yaw
    return last


@pytest.mark.parametrize("spin", [0.0, -1.5])
@pytest.mark.parametrize("sideslip", [0.0, 0.3, -0.5])
def test_the_heading_of_a_skidding_car_is_found(sideslip: float, spin: float) -> None:
    found = AccelerationHeading()
    yaw = observe(found, -sideslip, 0.5, spin=spin)
    alignment = found.find(IMU)
    assert alignment is not None
    assert math.remainder(alignment.yaw - yaw, 2 * math.pi) == pytest.approx(0.0, abs=0.02)
    # Velocity of the vehicle origin, not of the antenna.
    drifted = sideslip - 0.5 * spin * 0.5**2
    assert math.atan2(alignment.left, alignment.ahead) == pytest.approx(drifted, abs=0.02)
    assert math.hypot(alignment.ahead, alignment.left) == pytest.approx(SPEED, abs=0.01)


def test_the_error_by_receiver_noise_is_within_two_sigma() -> None:
    found = AccelerationHeading()
    yaw = observe(found, 0.2, 0.5, noise=0.05)
    alignment = found.find(IMU)
    assert alignment is not None
    assert abs(math.remainder(alignment.yaw - yaw, 2 * math.pi)) < 2 * alignment.sigma
    assert alignment.sigma < 0.2


def test_no_heading_by_too_short_a_time_with_a_gap_or_with_little_acceleration() -> None:
    short, gap, straight = AccelerationHeading(), AccelerationHeading(), AccelerationHeading()
    observe(short, 0.2, 0.2)
    assert short.find(IMU) is None
    observe(gap, 0.2, 0.6, gap=0.4)
    assert gap.find(IMU) is None
    for k in range(60):
        straight.take_forces(0.01 * k, 0.0, 0.5, 0.0)
        straight.take_velocity(0.01 * k, SPEED + 0.005 * k, 0.3, ANTENNA)
    assert straight.find(IMU) is None


def test_velocities_of_two_antennas_are_not_mixed() -> None:
    found = AccelerationHeading()
    observe(found, 0.2, 0.5)
    assert found.find(IMU) is not None
    found.take_velocity(100.5, SPEED, 0.3, IMU)
    assert found.find(IMU) is None
