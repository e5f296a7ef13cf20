"""The scores of runs with a fault, tested on synthetic runs."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import (
    ESTIMATE_COLUMNS,
    ESTIMATE_INDEX,
    Condition,
    Innovation,
    Measurement,
    SourceFault,
)
from vehicled.studies.faults.drives import FaultDrive
from vehicled.studies.faults.row import Row
from vehicled.studies.faults.scores import Observed, score
from vehicled.studies.faults.tables import format_rows

SECOND = 1_000_000_000
ORIGIN = WorldOrigin(45.0, 7.0, 0.0)
ROW = Row(name="x", make=lambda begin, end: [], culprits=("gnss.",), begin=2.0, end=4.0, metres=0.5)
T = np.arange(0, 8 * SECOND, 20_000_000, dtype=np.int64)


def drive() -> FaultDrive:
    truth = np.zeros((len(T), len(ESTIMATE_COLUMNS)))
    truth[:, ESTIMATE_INDEX["x"]] = 10.0 * T * 1e-9
    return FaultDrive([Measurement("a", 0, 0, {})], T, truth, ORIGIN)


def observed(east: np.ndarray | float = 0.0, sigma: float = 0.1, **more: object) -> Observed:
    """Estimates with an error to the east, m."""
    values = np.full((len(T), len(ESTIMATE_COLUMNS)), 0.0)
    places = [ORIGIN.to_geodetic(np.array([x, 0.0, 0.0])) for x in 10.0 * T * 1e-9 + east]
    values[:, [ESTIMATE_INDEX[c] for c in ("lat", "lon", "alt")]] = places
    values[:, [k for c, k in ESTIMATE_INDEX.items() if c.startswith("sigma.")]] = sigma
    named = (SourceFault("gnss.position", "rejected", ("position",)),)
    conditions = [
        Condition("running", 0),
        Condition("degraded", round(2.3 * SECOND), None, named),
        Condition("running", round(4.4 * SECOND)),
    ]
    given = Observed(T, values, conditions, [])
    return dataclasses.replace(given, **more)


def rejected(sensor: str, begin: float, end: float) -> list[Innovation]:
    times = np.arange(begin, end, 0.02) * SECOND
    return [Innovation(int(t), int(t), sensor, "a", [], [], [], [], 0.0, 0.0, False, "gate") for t in times]


def test_a_sideslip_that_jumps_by_a_turn_between_samples_of_the_truth_is_no_error():
    """The car goes backwards: its sideslip is ±π, and estimates are between samples of the truth."""
    driven, given = drive(), observed()
    column = ESTIMATE_INDEX["sideslip"]
    driven.truth[:, ESTIMATE_INDEX["vx"]] = given.values[:, ESTIMATE_INDEX["vx"]] = -10.0
    driven.truth[:, column] = np.where(np.arange(len(T)) % 2, 1, -1) * (math.pi - 0.001)
    given.values[:, column] = math.pi - 0.001
    between = dataclasses.replace(given, t=T + 10_000_000)
    assert score(ROW, driven, between)["error_sigma"] == pytest.approx(1.0, abs=0.01)  # 10 ms at 10 m/s


def test_a_run_within_all_limits():
    figures = score(ROW, drive(), observed(0.2))
    assert figures["ok"]
    assert (figures["named"], figures["named_after"]) == ("gnss.position", pytest.approx(0.3))
    assert figures["error_m"] == pytest.approx(0.2, abs=1e-3)
    assert figures["error_sigma"] == pytest.approx(2.0, abs=0.01)
    assert figures["recovered_after"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("change", "miss"),
    [
        ({"east": 0.6, "sigma": 1.0}, "error_m"),
        ({"east": 0.45}, "error_sigma"),
        ({"conditions": []}, "named"),
        ({"died": "out of memory"}, "lives"),
        ({"lost_samples": 3}, "lost_samples"),
        ({"recorded": T[(T < 3.0 * SECOND) | (T > 3.6 * SECOND)]}, "unrecorded"),
        ({"innovations": rejected("imu.gyro", 2.5, 3.2)}, "wrongly_refused"),
        ({"east": np.where(T > 6.0 * SECOND, 5.0, 0.0)}, "recovered_after"),
    ],
)
def test_each_exceeded_limit_is_reported_as_a_miss(change, miss):
    figures = score(ROW, drive(), observed(**change))
    assert figures["misses"] == [miss]
    assert not figures["ok"]


def test_unrecorded_time_is_measured_between_recorded_steps():
    figures = score(ROW, drive(), observed(recorded=T[(T <= 3.0 * SECOND) | (T >= 3.4 * SECOND)]))
    assert figures["unrecorded"] == pytest.approx(0.4, abs=0.021)
    assert figures["ok"]
    assert score(ROW, drive(), observed(recorded=T))["unrecorded"] == 0.0
    assert score(ROW, drive(), observed())["unrecorded"] is None


def test_standard_deviations_can_be_tested_before_errors_are_scored():
    given = observed(np.where(T < 3.0 * SECOND, 0.6, 0.0))
    late = dataclasses.replace(ROW, scored_from=3.5)
    assert score(late, drive(), given)["ok"]
    assert score(dataclasses.replace(late, honest_before=True), drive(), given)["misses"] == ["error_sigma"]


def test_rejections_of_the_culprit_and_short_ones_of_others_are_allowed():
    given = [*rejected("gnss.position", 2.0, 4.0), *rejected("imu.gyro", 2.5, 2.8)]
    figures = score(ROW, drive(), observed(innovations=given))
    assert figures["ok"]
    assert figures["wrongly_refused"] == {"imu.gyro": pytest.approx(0.28, abs=0.03)}


def test_conditions_after_the_end_of_the_drive_do_not_count():
    late = Condition("degraded", 9 * SECOND, None, (SourceFault("imu.gyro", "silent", ()),))
    given = observed()
    assert score(ROW, drive(), dataclasses.replace(given, conditions=[*given.conditions, late]))["ok"]


def test_the_table_marks_missed_limits():
    figures = score(ROW, drive(), observed(0.6, 1.0)) | {
        "fault": "x",
        "drive": "corner",
        "seed": 0,
        "offline": True,
    }
    lines = list(format_rows([figures]))
    assert "0.60!" in lines[1]
    assert lines[-1] == "0 of 1 runs hold"


def test_the_command_lists_faults_and_rejects_unknown_ones(capsys):
    assert main(["bench", "faults", "--list", "--only", "GNSS*"]) == 0
    assert "GNSS frozen" in capsys.readouterr().out
    assert main(["bench", "faults", "--list", "--only", "gnss FROZEN"]) == 0
    assert capsys.readouterr().out == "GNSS frozen\n"
    assert main(["bench", "faults", "--only", "no such"]) == 2
    assert "no fault is called 'no such'" in capsys.readouterr().err
    assert main(["bench", "faults", "--drive", "moon"]) == 2


@pytest.mark.slow
def test_the_command_prints_json(capsys):
    assert main(["bench", "faults", "--offline", "--only", "nothing", "--drive", "slalom", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    keys = "fault seed lives named named_after wrongly_refused error_sigma error_m error_yaw recovered_after"
    assert {*keys.split(), "lost_samples", "missed", "ok"} <= row.keys()
    assert not math.isnan(row["error_m"])
