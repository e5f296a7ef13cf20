"""Clocks of loggers that are seconds apart are found where the drive shows the difference, and only there."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import vehicled
from replay.log import create_log, open_log
from vehicled import Measurement
from vehicled.cli import main
from vehicled.log_check.check import LogChecker
from vehicled.log_check.clocks import ClockFinder
from vehicled.log_check.findings import Finding

CAR = "hatchback"
load = lru_cache(vehicled.load_configuration)


@lru_cache
def drive() -> list[Measurement]:
    return vehicled.simulate("mixed_drive", load(CAR), seed=4, gnss="rtk").measurements


def delayed(ns: int, *begins: str) -> list[Measurement]:
    return sorted(
        (
            Measurement(m.source, m.t + late, m.arrival + late, m.values)
            for m in drive()
            for late in [ns if any(c.startswith(begins) for c in m.values) else 0]
        ),
        key=lambda m: m.arrival,
    )


def check(measurements: list[Measurement]) -> list[Finding]:
    checker = LogChecker(load(CAR))
    for m in measurements:
        checker.take(m)
    return checker.find().findings


@pytest.mark.parametrize(
    "late", [3.0, *(pytest.param(late, marks=pytest.mark.slow) for late in (20.0, -20.0))]
)
@pytest.mark.parametrize("begins", [("gnss.",), ("wheel.", "vehicle.", "steer.", "brake.", "torque.")])
def test_the_offset_of_another_loggers_clock_is_found(late: float, begins: tuple[str, ...]) -> None:
    found = check(delayed(round(late * 1e9), *begins))
    assert {f.kind for f in found} == {"clock"}, "what is compared at the wrong time is not reported"
    for finding in found:
        assert finding.channels
        assert all(c.startswith(begins) for c in finding.channels)
        assert finding.value == pytest.approx(late, abs=0.2)
        assert "(± 0." in finding.text


def test_a_small_difference_of_clocks_is_reported_as_a_time_offset() -> None:
    checker = LogChecker(load(CAR))
    for m in delayed(50_000_000, "gnss."):
        checker.take(m)
    found = checker.find()
    assert [(f.kind, f.channels) for f in found.findings] == [("time offset", ("gnss.lat", "gnss.lon"))]
    (speed,) = [lag for lag in found.lags if lag.channel == "gnss.speed"]
    assert speed.offset == pytest.approx(0.05, abs=0.04)


@pytest.mark.parametrize("late", [3.0, 20.0])
@pytest.mark.parametrize("scenario", ["straight", "weave", "standstill"])
def test_no_clock_is_reported_where_the_drive_does_not_show_the_difference(
    scenario: str, late: float
) -> None:
    """Straight at constant speed; in a weave of 4 s; at standstill, where courses are arbitrary."""
    rng = np.random.default_rng(3)
    finder = ClockFinder()
    swing = 0.3 if scenario == "weave" else 0.0
    for k in range(18_000):
        t = 0.01 * k
        rate = swing * math.sin(2 * math.pi * t / 4.0)
        values = {"imu.wz": rate + rng.normal(0, 0.01), "imu.ax": rng.normal(0, 0.3)}
        finder.take(Measurement("imu", round(t * 1e9), round(t * 1e9), values))
        if k % 10 == 0:
            speed = 20.0 + rng.normal(0, 0.05)
            course = swing * 4.0 / (2 * math.pi) * math.cos(2 * math.pi * t / 4.0) + rng.normal(0, 0.002)
            if scenario == "standstill":
                speed, course = abs(speed - 20.0), rng.uniform(-math.pi, math.pi)
            at = round((t + late) * 1e9)
            finder.take(Measurement("gnss", at, at, {"gnss.speed": speed, "gnss.course": course}))
    assert finder.find() == []


def test_a_clock_is_not_found_from_a_single_event() -> None:
    """The drive has one braking in ten minutes, which could coincide by chance."""
    rng = np.random.default_rng(4)
    finder = ClockFinder()
    for k in range(6000):
        t = 0.1 * k
        braking = -3.0 * math.exp(-(((t - 300.0) / 1.5) ** 2))
        at = round(t * 1e9)
        finder.take(Measurement("imu", at, at, {"imu.ax": braking + rng.normal(0, 0.2)}))
        speed = 25.0 - 3.0 * 1.33 * (1.0 + math.erf((t - 300.0) / 1.5)) + rng.normal(0, 0.02)
        finder.take(Measurement("car", at + 7 * 10**9, at + 7 * 10**9, {"vehicle.speed": speed}))
    assert finder.find() == []


def test_a_clock_is_found_despite_a_pause_of_an_hour() -> None:
    measurements = delayed(3 * 10**9, "gnss.")
    middle = measurements[len(measurements) // 2].arrival
    hour = 3600 * 10**9
    checker = LogChecker(load(CAR))
    for m in measurements:
        late = hour if m.arrival > middle else 0
        checker.take(Measurement(m.source, m.t + late, m.arrival + late, m.values))
    assert "clock" in {f.kind for f in checker.find().findings}


def test_convert_reports_by_how_much_the_clocks_of_its_logs_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "gnss.csv", tmp_path / "car.csv"]
    for path, begins in zip(paths, (True, False), strict=True):
        part = [
            m for m in delayed(20 * 10**9, "gnss.") if any(c.startswith("gnss.") for c in m.values) == begins
        ]
        with create_log(path, {c for m in part for c in m.values}) as log:
            for m in part:
                log.write(m)
    merged = tmp_path / "drive.mcap"
    assert main(["convert", *map(str, paths), str(merged)]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "another clock" in line]
    assert len(lines) == 1
    assert lines[0].startswith("drive.mcap: gnss: 20.0 s (± 0.1 s) later than imu, ")
    assert "clock" in {f.kind for f in check(list(open_log(merged).measurements()))}


def test_a_clock_that_was_set_back_is_the_only_finding() -> None:
    measurements = drive()
    begin = len(measurements) // 2
    after = [
        Measurement(m.source, m.t - 5 * 10**9, m.arrival - 5 * 10**9, m.values) for m in measurements[begin:]
    ]
    found = check([*measurements[:begin], *after])
    assert {f.kind for f in found} == {"clock"}
    assert all(f.value == pytest.approx(-5.0, abs=0.1) and "goes back" in f.text for f in found)


def test_a_single_row_with_an_early_time_is_not_reported() -> None:
    measurements = list(drive())
    stray = measurements[len(measurements) // 2]
    measurements.insert(len(measurements) // 2, Measurement(stray.source, 0, 0, stray.values))
    assert check(measurements) == []
