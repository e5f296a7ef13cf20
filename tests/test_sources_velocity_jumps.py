"""Jumps of a receiver's velocity relative to the estimate are detected, and so is their end."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vehicled.messages import Innovation
from vehicled.sources.gate import Gate
from vehicled.sources.gnss.velocity_jumps import VelocityJumps, find_deviation, read_velocity
from vehicled.sources.health import Health


def others(
    failing: str = "",
    confirmed: bool = True,
    kinds: tuple[str, ...] = ("imu.gyro", "vehicle.speed"),
    speed_doubt: float = 0.0,
) -> Any:
    """Health of the car's own sensors, as in `MeasurementUpdates`."""
    health = {kind: Health(Gate()) for kind in kinds}
    for kind, each in health.items():
        each.accept()
        if kind == failing:
            each.fail([True], False)
    return SimpleNamespace(
        health=health,
        is_imu_sound=confirmed,
        step_ns=0,
        outvoted_ns=-math.inf,
        speed_doubt=speed_doubt,
        accelerometer_outvoted_ns=0,
    )


def run(
    jump: Callable[[float], complex],
    updates: Any,
    rate: float = 50.0,
    sigma: float = 0.03,
    seconds: float = 20.0,
) -> list[tuple[float, bool, complex]]:
    """Time (s), whether a jump lasts, and the jump that was found then, m/s."""
    check, random, found = VelocityJumps(), np.random.default_rng(4), []
    for k in range(round(seconds * rate)):
        t = k / rate
        noise = complex(*random.normal(0.0, sigma, 2))
        got = check.take(round(t * 1e9), 0.03 + noise + jump(t), sigma, updates)
        found.append((t, check.lasts, got))
    return found


def spoofed(t: float) -> complex:
    return 0.5j if 10.0 <= t < 16.0 else 0j


def test_a_jump_and_its_end_are_found_within_a_quarter_of_a_second():
    found = run(spoofed, others())
    lasting = [t for t, lasts, _ in found if lasts]
    assert 10.0 < lasting[0] < 10.25
    assert 16.0 < lasting[-1] < 16.25
    (jump,) = [got for _, _, got in found if got]
    assert abs(jump - 0.5j) < 0.25


def test_a_receiver_is_used_again_once_the_imu_that_had_contradicted_it_is_found_wrong():
    updates = others()

    def jump(t: float) -> complex:
        updates.accelerometer_outvoted_ns = 11_000_000_000 if t >= 11.0 else 9_000_000_000
        return spoofed(t)

    lasting = [t for t, lasts, _ in run(jump, updates, seconds=15.0) if lasts]
    assert 10.9 < lasting[-1] < 11.3


@pytest.mark.parametrize(("rate", "sigma"), [(50.0, 0.03), (10.0, 0.05), (5.0, 0.1), (1.0, 0.1)])
def test_noise_is_not_a_jump(rate, sigma):
    assert not any(lasts for _, lasts, _ in run(lambda t: 0j, others(), rate, sigma, 600.0))


def test_errors_that_grow_slowly_are_not_jumps():
    assert not any(lasts for _, lasts, _ in run(lambda t: 0.1j * t, others()))


@pytest.mark.parametrize(
    "updates",
    [
        others("vehicle.speed"),
        others("imu.gyro"),
        others(confirmed=False),
        others(kinds=("imu.gyro", "imu.accel")),
        others(speed_doubt=1.0),
    ],
)
def test_without_sensors_that_confirm_the_estimate_no_jump_is_reported(updates):
    assert not any(lasts for _, lasts, _ in run(spoofed, updates))


def test_a_correction_of_a_wrong_estimate_is_not_a_jump_of_the_receiver():
    assert not any(lasts for _, lasts, _ in run(lambda t: 0.8j if t < 10.0 else 0j, others()))


@pytest.mark.parametrize("goes_along", [True, False])
def test_positions_that_do_not_follow_the_false_velocity_are_used_again(goes_along):
    check, updates = VelocityJumps(), others()
    for k in range(1000):
        t = 0.02 * k
        check.take(round(t * 1e9), spoofed(t), 0.03, updates)
        check.compare_position(round(t * 1e9), spoofed(t) * (t - 10.0) * goes_along, 0.02)
        if 10.2 < t < 16.0:
            assert check.lasts
        if 10.2 < t < 10.5 or 11.0 < t < 16.0:
            assert check.are_positions_false == (goes_along or t < 10.5)


def test_a_velocity_that_has_jumped_is_followed_after_a_minute():
    found = run(lambda t: 0.5j if t > 10.0 else 0j, others(), seconds=90.0)
    lasting = [t for t, lasts, _ in found if lasts]
    assert lasting[-1] == pytest.approx(70.2, abs=0.3)


def record(sensor: str, value: list[float], innovation: list[float], t: int = 5) -> Innovation:
    predicted = [v - i for v, i in zip(value, innovation, strict=True)]
    return Innovation(
        t, t, sensor, "", value, predicted, innovation, [1.0] * len(value), 0.0, 0.0, True, "fused"
    )


def test_the_deviation_is_the_same_by_a_vector_and_by_speed_and_course():
    speed, course = record("gnss.speed", [10.0], [0.5]), record("gnss.course", [0.3], [0.02])
    other = record("gnss.speed", [10.0], [0.5], 4)
    expected = 10.0 * np.exp(1j * (0.5 * math.pi - 0.3)) - 9.5 * np.exp(1j * (0.5 * math.pi - 0.28))
    assert find_deviation([speed, course], "gnss") == pytest.approx(expected)
    vector = record("gnss.velocity", [1.0, 2.0, 0.0], [expected.real, expected.imag, 0.1])
    assert find_deviation([vector], "gnss") == pytest.approx(expected)
    assert find_deviation([speed], "gnss") is None
    assert find_deviation([other, course], "gnss") is None
    assert find_deviation([speed, course], "gnss2") is None


def test_velocities_are_east_and_north():
    assert read_velocity({"vn": 2.0, "ve": 1.0}) == 1.0 + 2.0j
    assert read_velocity({"speed": 2.0, "course": 0.5 * math.pi}) == pytest.approx(2.0 + 0.0j)
    assert read_velocity({"speed": 2.0}) is None
