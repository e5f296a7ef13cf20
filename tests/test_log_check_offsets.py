"""`vehicled check --log`: delays of channels are found, and vehicle dynamics are not taken for delays."""

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
    """The whole drive, because only hard braking at its end shows a delay of accelerations."""
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
def test_the_delay_of_a_channel_is_found(late: float) -> None:
    measurements = delayed(round(late * 1e9), "vehicle.", "wheel.")
    found = {f.channels[0]: f.value for f in check(measurements) if f.kind == "time offset"}
    assert found, "something is late"
    assert all(c.startswith(("vehicle.", "wheel.")) for c in found)
    assert list(found.values()) == pytest.approx([late] * len(found), abs=0.05)


def test_a_latency_in_the_configuration_is_not_reported() -> None:
    configuration = load(CAR)
    late = replace(configuration.sensors.imu, latency=0.2)
    checker = LogChecker(replace(configuration, sensors=replace(configuration.sensors, imu=late)))
    for m in delayed(200_000_000, "imu."):
        checker.take(m)
    assert [f for f in checker.find().findings if f.kind == "time offset"] == []


@pytest.mark.parametrize("late", [0.15, pytest.param(0.3, marks=pytest.mark.slow)])
def test_the_delay_of_fixes_is_found(late: float) -> None:
    late_ones = [f for f in check(delayed(round(late * 1e9), "gnss.lat")) if f.kind == "time offset"]
    (found,) = [f for f in late_ones if "gnss.lat" in f.channels]
    assert found.value == pytest.approx(late + 0.02, abs=0.03)  # the receiver's own latency is 20 ms
    assert "`sensors.gnss.latency`" in found.text


def test_fixes_are_compared_with_the_earliest_speed() -> None:
    """The vehicle speed on the bus is late as well, so that wheel speeds are the reference."""
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
    """A drive with the IMU a metre ahead of the centre of mass, and the antenna more than a metre behind it."""
    car = load(CAR)
    imu = replace(car.sensors.imu, position=(1.0, 0.0, 0.0))
    gnss = replace(car.sensors.gnss, antenna=(-1.2, 0, 1))
    car = replace(car, sensors=replace(car.sensors, imu=imu, gnss=gnss))
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(scenario)
        file.flush()
        return vehicled.simulate(file.name, car, seed=7, gnss="rtk").measurements, car


@pytest.mark.parametrize("scenario", [pytest.param(SLOW, marks=pytest.mark.slow), FAST])
@pytest.mark.parametrize("known", [pytest.param(True, marks=pytest.mark.slow), False])
def test_vehicle_dynamics_are_not_reported_as_time_offsets(scenario: str, known: bool) -> None:
    """Before, wheel slip, sideslip and sensor positions were reported as offsets of 0.1 to 0.4 s in these drives."""
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
def test_the_delay_of_a_channel_is_found_at_high_speed_despite_wheel_slip(begin: str) -> None:
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
    """Before, the different speeds of points of the car in bends, some ‰, were taken for a delay of 0.1 s."""
    assert (
        check(vehicled.simulate(str(WEAVE), load(CAR), seed=7, gnss="rtk", duration=120.0).measurements) == []
    )
