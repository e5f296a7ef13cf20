"""`vehicled check --log`: speeds without a sign are named where the accelerometer shows that the car reverses."""

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
"""m/s, that the car departs to, one after the other."""


def check(
    change: Callable[[float], float], speeds: tuple[float, ...] = SHUTTLE, channels: tuple[str, ...] = WHEELS
) -> list[Finding]:
    """Of a car that departs, drives and stops, on a slope of 2 %, whose speeds are changed."""
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
def test_magnitudes_of_a_car_that_reverses_are_named(channels: tuple[str, ...]) -> None:
    (found,) = check(abs, channels=channels)
    assert found.channels == channels
    assert "never negative, though by imu.ax the car departs backwards (2 times)" in found.text


def test_speeds_with_a_sign_are_not() -> None:
    assert check(lambda v: v) == []


def test_magnitudes_of_a_car_that_only_goes_forwards_are_not() -> None:
    assert check(abs, tuple(map(abs, SHUTTLE))) == []


def test_a_drive_that_is_all_backwards_is_one_of_opposite_signs() -> None:
    """As of an accelerometer the other way round, which it may be."""
    found = check(abs, tuple(-abs(v) for v in SHUTTLE))
    assert all("without a sign" not in f.text for f in found)
