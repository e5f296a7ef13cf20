"""Sample rates that `vehicled check --log` shows."""

import math

import numpy as np
import pytest

from vehicled.log_check.check import LogChecker
from vehicled.messages import Measurement


def test_the_rate_of_a_sensor_with_two_messages_counts_the_samples_of_both() -> None:
    """Front and rear wheels have messages of their own at 100 Hz, 3 ms apart; half a second of both is missing."""
    checker = LogChecker(None)
    for k in range(2000):
        for late, wheel in ((0, "fl"), (3_000_000, "rl")):
            t = 10_000_000 * k + late
            if not 5_000_000_000 <= t < 5_500_000_000:
                checker.take(Measurement("can", t, t, {f"wheel.{wheel}.speed": 20.0 + 0.001 * (k % 9)}))
    (rate,) = checker.find().rates
    assert rate.rate == pytest.approx(200.0, rel=0.01)
    assert (rate.samples, rate.pauses) == (3900, 1)


def find_bursts(times: list[int]) -> list[str]:
    """Findings of bursts in an IMU whose samples have these times, ms."""
    checker = LogChecker(None)
    for k, t in enumerate(times):
        for j, channel in enumerate(("imu.ax", "imu.wz")):  # in separate messages, 0.3 ms apart
            at = t * 1_000_000 + 300_000 * j
            checker.take(Measurement("logger", at, at, {channel: 0.01 * (k % 13) + j}))
    return [finding.text for finding in checker.find().findings if finding.kind == "bursts"]


def test_samples_with_the_times_at_which_they_arrived_in_bursts_are_named() -> None:
    """100 Hz, received every 100 ms as over Bluetooth; with a millisecond between them, or with one time."""
    for between in (1, 0):
        (text,) = find_bursts([100 * (k // 10) + between * (k % 10) for k in range(1000)])
        assert text.startswith("10 samples at once, every 100 ms")


@pytest.mark.parametrize(
    "times",
    [
        [10 * k for k in range(1000)],
        [10 * k for k in range(1000) if k % 7 % 3],  # a third is missing
        [10 * (k // 2) for k in range(1000)],  # 200 Hz, times rounded to 10 ms
        [10 * k if k < 500 else 100 * k - 45_000 for k in range(1000)],  # less often after a while
        [200 * (k // 2) + k % 2 for k in range(1000)],  # each sample twice
    ],
)
def test_samples_that_are_missing_rounded_or_repeated_are_no_bursts(times: list[int]) -> None:
    assert find_bursts(times) == []


@pytest.mark.parametrize(("step", "named"), [(0.017, True), (0.004, False), (0.0, False)])
def test_gyroscopes_with_steps_beyond_their_noise_are_named(step: float, named: bool) -> None:
    """12 bits over ±2000 °/s are steps of 0.017 rad/s."""
    random = np.random.default_rng(1)

    def read(value: float) -> float:
        noisy = value + 0.003 * random.standard_normal()
        return round(noisy / step) * step if step else noisy

    checker = LogChecker(None)
    for k in range(3000):
        rates = {f"imu.w{axis}": read(0.2 * math.sin(0.01 * k)) for axis in "xyz"}
        checker.take(Measurement("imu", 10_000_000 * k, 10_000_000 * k, rates))
    found = [finding.value for finding in checker.find().findings if finding.kind == "coarse"]
    assert found == ([pytest.approx(step)] if named else [])


@pytest.mark.parametrize("rate", [100.0, 10.0, 5.0])
def test_fixes_that_were_interpolated_to_the_rate_of_a_table_are_named(rate: float) -> None:
    """Fixes of a car that stands, then turns, in a table of 100 Hz."""
    random = np.random.default_rng(2)
    times = np.arange(0.0, 30.0, 1.0 / rate)
    angle = 0.2 * np.maximum(times - 5.0, 0.0)
    table = np.arange(0.0, 29.5, 0.01)
    places = [
        np.interp(table, times, 1e-5 * (10.0 * f(angle) + 0.01 * random.standard_normal(len(times))))
        for f in (np.cos, np.sin)
    ]
    checker = LogChecker(None)
    for t, lat, lon in zip(table, *places, strict=True):
        at = round(1e9 * t)
        checker.take(Measurement("gnss", at, at, {"gnss.lat": 43.0 + lat, "gnss.lon": 8.0 + lon}))
    found = [finding.value for finding in checker.find().findings if finding.kind == "interpolated"]
    assert found == ([] if rate == 100.0 else [pytest.approx(1.0 - rate / 100.0, abs=0.15)])
