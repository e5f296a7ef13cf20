"""`vehicled bench step`: the form of its result, and the consistency of its figures."""

import dataclasses
import json
import re

import pytest

from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.simulation import drive
from vehicled.simulation.drive import simulate
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import find_scenario
from vehicled.studies.benchmarks import instances, reference, step

TIMES = ("model_step_us", "filter_step_us", "filter_step_with_fix_us", "lu169_us")


@pytest.fixture(scope="module")
def found():
    """Result for one second of the drive, and the reported progress."""
    configuration = load_daemon_configuration("prototype")
    scenario = dataclasses.replace(find_scenario("mixed_drive"), duration=1.0)
    measurements, _ = simulate(scenario, make_plant(configuration, scenario.plant), seed=1)
    reported: list[float] = []
    return step.bench_step(configuration, measurements, scenario.begin.speed, reported.append), reported


def test_percentiles_of_times_are_ordered(found):
    result, _ = found
    for key in TIMES:
        times = result[key]
        assert 0.0 < times["median"] <= times["p99"] <= times["p999"]


def test_operations_add_up(found):
    operations = found[0]["operations"]
    kernels, n = operations["kernels"], operations["iterations"]
    once = sum(kernels[k] for k in ("predict", "factor", "recover", "finish"))
    twice = sum(kernels[k] for k in ("project_velocity", "project_acceleration"))
    assert operations["step"] == once + n * kernels["iterate"] + 2 * twice
    # `factor` is a sparse elimination of 91 coordinates, with far fewer operations than the 169³/3 of a dense one.
    assert 1_000 < kernels["factor"] < step.SIZE**3 / 30


def test_progress_rises_from_start_to_end_of_the_drive(found):
    reported = found[1]
    assert reported == sorted(reported)
    assert reported[0] < 0.05
    assert reported[-1] == pytest.approx(1.0, abs=0.05)


def test_the_command_prints_one_object_or_a_table(found, monkeypatch, capsys):
    times = {"median": 10.0, "p99": 11.0, "p999": 12.0}
    peer = {**times, "median": 321.0, "error_m": 0.03, "version": "1.2"}
    compared = {"reference_step_us": {**times, "error_m": 0.01}, "peers": {"exudyn": peer}}
    monkeypatch.setattr(step, "bench_step", lambda *_: dict(found[0]))
    side_by_side = [{"width": 8, "step_us": times, "us_per_instance": 1.25}]
    monkeypatch.setattr(reference, "bench_reference", lambda *_: compared)
    monkeypatch.setattr(instances, "bench_instances", lambda *_: side_by_side)
    monkeypatch.setattr(drive, "simulate", lambda *_: ([], None))
    assert main(["bench", "step", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == found[0] | compared | {"instances": side_by_side}
    assert err == ""
    assert main(["bench", "step"]) == 0
    out, _ = capsys.readouterr()
    assert f"{found[0]['filter_step_us']['median']:.1f}" in out
    assert f"{found[0]['operations']['step']} operations" in out
    assert re.search(r"^exudyn 1.2 +321.0 +11.0 +12.0 +32.1 +0.030$", out, re.M)
    assert "mujoco: not installed" in out
    assert re.search(r"^8 +10.0 +11.0 +12.0 +1.25$", out, re.M)


def test_times_of_cars_side_by_side_are_consistent(monkeypatch):
    monkeypatch.setattr(instances, "WIDTHS", (1, 8))
    reported: list[float] = []
    vehicle = load_configuration("prototype").vehicle
    rows = instances.bench_instances(vehicle, reported.append, duration=0.4)
    assert [row["width"] for row in rows] == [1, 8]
    for row in rows:
        assert 0.0 < row["step_us"]["median"] <= row["step_us"]["p99"] <= row["step_us"]["p999"]
        assert row["us_per_instance"] == pytest.approx(row["step_us"]["median"] / row["width"])
    assert len(reported) == 100
    assert reported[-1] == pytest.approx(0.4)


def test_an_unknown_benchmark_is_bad_usage(capsys):
    assert main(["bench", "coffee"]) == 2
    assert "coffee" in capsys.readouterr().err
