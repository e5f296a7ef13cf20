"""`vehicled check --log`: channels that are late are found by how much; dynamics of the car are no time offset."""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from log_check_rig import CAR, check, load, simulate

import vehicled
from vehicled import Measurement
from vehicled.configuration import Configuration
from vehicled.log_check.check import LogChecker

WEAVE = Path(__file__).parent.parent / "samples" / "ten_minutes.yaml"


@pytest.fixture(autouse=True)
def usual_car_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vehicled.log_check.check.load_configuration", load)


def delayed(ns: int, *begins: str) -> list[Measurement]:
    """Of the whole drive: that accelerations come late shows where it brakes hard, at its end."""
    return delay(simulate("mixed_drive", None), ns, *begins)


def delay(measurements: Iterable[Measurement], ns: int, *begins: str) -> list[Measurement]:
    return sorted(
        (
            Measurement(m.source, m.t + late, m.arrival + late, m.values)
            for m in measurements
            for late in [ns if any(c.startswith(begins) for c in m.values) else 0]
        ),
        key=lambda m: m.arrival,
    )


@pytest.mark.parametrize("late", [0.15, pytest.param(0.3, marks=pytest.mark.slow)])
def test_a_channel_that_is_late_is_found_by_how_much(late: float) -> None:
    measurements = delayed(round(late * 1e9), "vehicle.", "wheel.")
    found = {f.channels[0]: f.value for f in check(measurements) if f.kind == "time offset"}
    assert found, "something is late"
    assert all(c.startswith(("vehicle.", "wheel.")) for c in found)
    assert list(found.values()) == pytest.approx([late] * len(found), abs=0.05)


def test_a_latency_that_the_configuration_has_is_no_fault() -> None:
    configuration = load(CAR)
    late = replace(configuration.sensors.imu, latency=0.2)
    checker = LogChecker(replace(configuration, sensors=replace(configuration.sensors, imu=late)))
    for m in delayed(200_000_000, "imu."):
        checker.take(m)
    assert [f for f in checker.find().findings if f.kind == "time offset"] == []


@pytest.mark.parametrize("late", [0.15, pytest.param(0.3, marks=pytest.mark.slow)])
def test_fixes_that_are_late_are_found_by_how_much(late: float) -> None:
    late_ones = [f for f in check(delayed(round(late * 1e9), "gnss.lat")) if f.kind == "time offset"]
    (found,) = [f for f in late_ones if "gnss.lat" in f.channels]
    assert found.value == pytest.approx(late + 0.02, abs=0.03)  # the receiver's own latency is 20 ms
    assert "`sensors.gnss.latency`" in found.text


def test_fixes_are_compared_with_the_earliest_speed() -> None:
    """That of the bus is smoothed, and late as well."""
    late = delay(delayed(150_000_000, "gnss.lat"), 80_000_000, "vehicle.")
    (found,) = [f for f in check(late) if "gnss.lat" in f.channels]
    assert found.value == pytest.approx(0.17, abs=0.03)
    assert "than wheel speeds" in found.text


SLOW = """
duration: 40 s
initial: {speed: 5 m/s}
inputs: {rack: {sine: {amplitude: 0.03, frequency: 0.25, start: 2}}, front_torque: 60}
"""
FAST = """
duration: 60 s
initial: {speed: 30 m/s}
inputs:
  rack: {sine: {amplitude: 0.002, frequency: 0.25, start: 2}}
  front_torque: [[0, 700], [6, 700], [7, -100], [13, -100], [14, 800], [20, 800], [21, -150], [28, -150], [29, 800],
    [36, 800], [37, 0], [40, 0], [41, 600], [50, 600], [51, 0]]
plant: {tyre_stiffness: -20 %}
"""


@lru_cache
def drive_off_centre(scenario: str) -> tuple[list[Measurement], Configuration]:
    """IMU before and antenna behind the centre of mass by a metre."""
    car = load(CAR)
    imu = replace(car.sensors.imu, position=(1.0, 0.0, 0.0))
    gnss = replace(car.sensors.gnss, antenna=(-1.2, 0, 1))
    car = replace(car, sensors=replace(car.sensors, imu=imu, gnss=gnss))
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(scenario)
        file.flush()
        return vehicled.simulate(file.name, car, seed=7, gnss="rtk").measurements, car


@pytest.mark.parametrize("scenario", [pytest.param(SLOW, marks=pytest.mark.slow), FAST])
@pytest.mark.parametrize("known", [True, False])
def test_dynamics_of_the_car_are_no_time_offsets(scenario: str, known: bool) -> None:
    """Slip of driven wheels, sideslip at speed and places of sensors were: of 0.1 to 0.4 s in these drives."""
    measurements, car = drive_off_centre(scenario)
    checker = LogChecker(car if known else None)
    for m in measurements:
        checker.take(m)
    found = checker.find()
    assert [f for f in found.findings if f.kind == "time offset"] == []
    if known:
        compared = {lag.channel: lag for lag in found.lags if math.isfinite(lag.sigma)}
        assert {"imu.ay", "gnss.course"} <= compared.keys()
        assert all(abs(lag.offset) < 3.0 * lag.sigma for c, lag in compared.items() if c != "steer.wheel")


@pytest.mark.parametrize("begin", ["gnss.", "vehicle."])
def test_a_channel_that_is_late_at_speed_is_found_beside_slip(begin: str) -> None:
    measurements, car = drive_off_centre(FAST)
    checker = LogChecker(car)
    for m in delay(measurements, 250_000_000, begin):
        checker.take(m)
    found = [f for f in checker.find().findings if f.kind == "time offset"]
    assert {f.channels[0] for f in found if f.channels[0].startswith(begin)}
    assert all(c.startswith(begin) for f in found for c in f.channels)
    assert [f.value for f in found] == pytest.approx([0.25] * len(found), abs=0.1)


@pytest.mark.slow
def test_a_weave_at_steady_speed_shows_no_time_offset_of_fixes() -> None:
    """Speeds at different places of the car differ by some parts in a thousand in bends: that looked like 0.1 s."""
    assert (
        check(vehicled.simulate(str(WEAVE), load(CAR), seed=7, gnss="rtk", duration=120.0).measurements) == []
    )
