"""`vehicled check --log`: speeds without a sign are reported if the accelerometer shows that the car reverses."""

from collections.abc import Callable

import numpy as np
import pytest

import vehicled
from vehicled import Measurement
from vehicled.log_check.check import LogChecker
from vehicled.log_check.findings import Finding

RADIUS = 0.316
WHEELS = ("wheel.rl.speed", "wheel.rr.speed")
SHUTTLE = (2.0, -1.5, 2.0, -1.0, 1.2)
"""Speeds that the car reaches from standstill, one after the other, m/s."""


def check(
    change: Callable[[float], float], speeds: tuple[float, ...] = SHUTTLE, channels: tuple[str, ...] = WHEELS
) -> list[Finding]:
    """Findings for a car that starts, drives and stops on a slope of 2 %; `change` alters the logged speeds."""
    t, v = [0.0], [0.0]
    for speed in speeds:
        t += [t[-1] + after for after in (3.0, 5.0, 8.0, 10.0)]
        v += [0.0, speed, speed, 0.0]
    times = np.arange(0.0, t[-1], 0.01)
    speed = np.interp(times, t, v)
    rng = np.random.default_rng(0)
    ax = np.gradient(speed, 0.01) + 0.2 + rng.normal(0.0, 0.05, len(times))
    checker = LogChecker(vehicled.load_configuration("hatchback"))
    for k, now in enumerate((times * 1e9).round().astype(int).tolist()):
        checker.take(Measurement("imu", now, now, {"imu.ax": float(ax[k]), "imu.wz": 0.0}))
        if k % 2 == 0:
            rolling = {c: change(float(speed[k])) / (RADIUS if c in WHEELS else 1.0) for c in channels}
            checker.take(Measurement("can", now, now, rolling))
    return [f for f in checker.find().findings if f.kind == "sign"]


@pytest.mark.parametrize("channels", [WHEELS, ("vehicle.speed",)])
def test_speeds_without_a_sign_are_reported_if_the_car_reverses(channels: tuple[str, ...]) -> None:
    (found,) = check(abs, channels=channels)
    assert found.channels == channels
    assert "never negative, though by imu.ax the car departs backwards (2 times)" in found.text


def test_speeds_with_a_sign_are_not_reported() -> None:
    assert check(lambda v: v) == []


def test_speeds_without_a_sign_are_not_reported_if_the_car_only_drives_forwards() -> None:
    assert check(abs, tuple(map(abs, SHUTTLE))) == []


def test_a_car_that_only_reverses_seems_to_have_opposite_signs() -> None:
    """The same log would result from an accelerometer mounted the other way round."""
    (found,) = check(abs, tuple(-abs(v) for v in SHUTTLE))
    assert found.channels == (*WHEELS, "imu.ax")
    assert found.text == "opposite signs, correlation -1.00: one of them is wrong"
