"""`vehicled bench observers`: its rows, conclusions from them, resumption after an interruption, output."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import cache
from itertools import combinations
from typing import get_args

import matplotlib.image
import numpy as np
import pytest
from jobs_rig import Here

from vehicled.cli import main, make_parser
from vehicled.commands.benches import observers as command
from vehicled.filter.settings import Kind as CarKind
from vehicled.jobs.ledger import Ledger
from vehicled.studies.benchmarks import (
    observer_cases,
    observer_filters,
    observer_plots,
    observer_tables,
    observers,
)
from vehicled.studies.benchmarks import observer_conclusions as conclusions
from vehicled.studies.benchmarks.literal import NOTICES
from vehicled.studies.benchmarks.observer_cases import ObserverRun, Setup
from vehicled.studies.benchmarks.observer_published import find_published, read_published
from vehicled.studies.observers.factory import KINDS, Kind, of_errors
from vehicled.studies.observers.linkage_errors import LinkageErrors
from vehicled.studies.observers.unscented import UnscentedKF

KEYS = {
    *("mechanism", "sensors", "rate_hz", "level", "filter", "seed"),
    *("position_rmse", "velocity_rmse", "position_rmse_second_half", "velocity_rmse_second_half"),
    *("nis", "us_per_step", "failed_at"),
}
"""Keys on which scripts may rely."""
COMMAND = (
    "bench",
    "observers",
    "--mechanism",
    "four_bar",
    "--sensors",
    "encoders",
    "--rate",
    "10",
    "--level",
    "L1",
)


@pytest.fixture(scope="module")
def short():
    """Runs of 1 s. Their caches are separate from those for runs of full length."""
    modules = (observer_cases, observers, observer_plots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observer_cases, "STEPS", 200)
        for name in ("calc_truth", "get_linkage", "calc_setup_observability", "calc_wrong_rmse"):
            kept = [m for m in modules if hasattr(m, name)]
            fresh = cache(getattr(kept[0], name).__wrapped__)
            for module in kept:
                patch.setattr(module, name, fresh)
        yield


@pytest.fixture(scope="module")
def rows(short):
    filters = ("errorEKF", "errorEKF_FE", "DEKF", "UKF-TR", "none")
    return [
        observers.run_case(ObserverRun(mechanism, sensors, rate, "L2", name, seed))
        for mechanism, sensors, rate in (
            ("four_bar", "encoders", 200),
            ("four_bar", "crank_gyros", 20),
            ("five_bar", "encoders", 20),
        )
        for name in filters
        for seed in (10, 11)
    ]


def changed(rows, where, **values):
    """Copies of the rows; those that match `where` get other values."""
    return [
        {**row, **values} if all(row[k] == v for k, v in where.items()) else row for row in map(dict, rows)
    ]


def check(rows):
    found = conclusions.check_statements(conclusions.gather(rows))
    names = ("accurate", "accurate_otherwise", "cheapest", "growth", "better", "forces")
    return dict(zip(names, found, strict=True))


# -- rows ---------------------------------------------------------------------------------------------------


def test_a_row_has_the_documented_keys(rows):
    row = rows[0]
    assert KEYS.issubset(row)
    assert observers.get_run(row) == ObserverRun("four_bar", "encoders", 200, "L2", "errorEKF", 10)
    assert json.loads(json.dumps(row)) == row
    assert (row["readings"], row["states"], row["rank"], row["observable"]) == (1, 2, 2, True)


def test_errors_of_a_row_equal_those_of_its_trace(rows, short):
    row = rows[0]
    trace = observers.run_filter(observers.get_run(row))
    linkage = observer_cases.get_linkage("four_bar", "encoders", False)
    for what, order in (("position", 0), ("velocity", 1), ("acceleration", 2)):
        error = getattr(trace, what)
        assert error.shape == (200, 1)
        assert row[f"{what}_rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
        assert row[f"{what}_rmse_second_half"] == pytest.approx(np.sqrt(np.mean(error[100:] ** 2)))
        alone = next(r for r in rows if r["filter"] == "none" and r["mechanism"] == "four_bar")
        assert row[f"{what}_relative"] == pytest.approx(row[f"{what}_rmse"] / alone[f"{what}_rmse"])
        if order:
            before = (linkage.z, linkage.zd)[order - 1]
            # True velocity and acceleration are derivatives of true position and velocity.
            assert np.gradient(before[:, 0], observer_cases.H)[2:-2] == pytest.approx(
                (linkage.zd, linkage.zdd)[order - 1][2:-2, 0], abs=1e-3 * np.abs(linkage.zdd).max()
            )
    assert list(trace.updates) == list(range(200))
    assert row["nis"] == pytest.approx(np.mean([u.nis for u in trace.updates.values()]))
    # Errors are correlated over tens of steps: so short a run determines consistency only to a factor of three.
    assert 1 / 3 < np.mean((trace.position[100:] / trace.deviation[100:]) ** 2) < 3


def test_a_crank_gyroscope_observes_the_angle_only_through_gravity(rows):
    """Filters with the transition matrix of free masses (errorEKF, DEKF) cannot correct the angle."""
    by_filter = {r["filter"]: r for r in rows if r["sensors"] == "crank_gyros" and r["seed"] == 10}
    for row in by_filter.values():
        assert row["observable"]
        assert (row["rank"], row["rank_free_masses"]) == (2, 1)
    start = np.pi / 16
    for name in ("errorEKF", "DEKF"):
        assert by_filter[name]["position_rmse_second_half"] > 0.8 * start
    for name in ("errorEKF_FE", "UKF-TR"):
        assert by_filter[name]["position_rmse_second_half"] < 0.3 * start


@pytest.mark.parametrize("name", ["SCKF", "errorEKF_AFE", "errorEKF_SFE"])
def test_literal_runs_report_deviations_from_the_publication(short, name):
    setup = ("four_bar", "encoders", 20, "L2", name, 10)
    literal, usual = (observers.run_case(ObserverRun(*setup, literal=flag)) for flag in (True, False))
    assert usual["notice"] is None
    assert literal["notice"] == NOTICES.get(name)
    table = "\n".join(observer_tables.format_linkages([literal]))
    assert (
        ("NOT AS PUBLISHED" in table) == (name in NOTICES) == (f"{name:<13}not the published form" in table)
    )
    assert "NOT AS PUBLISHED" not in "\n".join(observer_tables.format_linkages([usual]))


def test_the_filters_without_a_notice_are_those_with_published_figures():
    assert KINDS.keys() - NOTICES.keys() == {
        *("errorEKF", "errorEKF_EJ", "errorEKF_FE", "DEKF", "CEKF", "DIEKFpm", "SCKF", "UKF-TR", "UKF-FE")
    }
    assert {name for *_, name in read_published()} == KINDS.keys() - NOTICES.keys()


def test_help_lists_the_filters_without_a_published_form(capsys):
    with pytest.raises(SystemExit):
        make_parser("bench").parse_args(["bench", "observers", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    _, others = text.split("The others have no published form here")
    assert all(name in others for name in NOTICES)


def _run(name, literal):
    return observers.run_filter(ObserverRun("five_bar", "coupler_gyros", 20, "L2", name, 10, literal=literal))


def test_literal_adaptive_force_estimation_equals_the_form_without_adaptation(short):
    one, other = (_run(name, True).position for name in ("errorEKF_FE", "errorEKF_AFE"))
    assert one == pytest.approx(other, abs=1e-12)


def test_filters_of_different_names_give_different_estimates(short):
    """Improved forms differ from published ones, too. All estimates differ visibly within a second."""
    forms = [(n, literal) for n in ("CEKF", "DIEKFpm", "SCKF") for literal in (False, True)]
    runs = {form: _run(*form).position for form in forms}
    for a, b in combinations(forms, 2):
        both = min(len(runs[a]), len(runs[b]))
        assert both > 50
        assert np.abs(runs[a][:both] - runs[b][:both]).max() > 1e-3, (a, b)


def test_only_literal_runs_with_the_published_noise_have_published_figures(short):
    setup = ("four_bar", "encoders", 10, "L2")
    row = observers.run_case(ObserverRun(*setup, "CEKF", 10, literal=True))
    assert (row["published"]["failed_step"], row["published"]["position_rmse"]) == (1304, None)
    others = [ObserverRun(*setup, "CEKF", 11, True), ObserverRun(*setup, "CEKF", 10)]
    others += [
        ObserverRun("four_bar", "encoders", 10, "L1", "CEKF", 10, True),
        ObserverRun(*setup, "none", 10, True),
    ]
    assert [find_published(run) for run in others] == [None] * 4
    (row,) = [observers.run_case(ObserverRun(*setup, "SCKF", 10, literal=True))]
    assert row["published"]["nis"] == 0.934
    text = "\n".join(observer_tables.format_linkages([row]))
    assert f"{row['position_rmse'] / 0.0258:.3f}" in text.split("over the published figures")[1]
    assert "published figures" not in "\n".join(observer_tables.format_linkages([row | {"published": None}]))


def test_repairs_are_reported(short, monkeypatch):
    class Repairs(UnscentedKF):
        def step(self, readings):
            self.repairs += readings is not None
            return super().step(readings)

    monkeypatch.setitem(KINDS, "DEKF", Kind(Repairs))
    assert observers.run_case(ObserverRun("four_bar", "encoders", 50, "L1", "DEKF", 3))["repairs"] == 50


# -- conclusions from rows ----------------------------------------------------------------------------------


def test_medians_are_over_seeds(rows):
    result = conclusions.gather(rows)[Setup("four_bar", "encoders", 200, "L2")]["DEKF"]
    both = [r["position_rmse"] for r in rows[:10] if r["filter"] == "DEKF"]
    assert result.median("position_rmse") == pytest.approx(np.mean(both))
    assert len(both) == 2
    broken = conclusions.FilterResult(
        result.setup, "DEKF", (dict(result.rows[0], failed_at=0.5), result.rows[1])
    )
    assert not broken.sound
    assert broken.median("nis") == result.rows[1]["nis"]
    assert result.median("failed_at") is None
    five = conclusions.gather(rows)[Setup("five_bar", "encoders", 20, "L2")]["DEKF"]
    assert five.consistency == pytest.approx(five.median("nis") / 2)


def test_in_real_runs_filters_are_better_than_the_wrong_model_alone(rows):
    better = check(rows)["better"]
    assert better.held
    assert "24 runs" in better.numbers


def test_statements_about_accuracy_follow_from_the_rows(rows):
    better = changed(rows, {"filter": "UKF-TR"}, position_rmse=1e-6, velocity_rmse=1e-6)
    assert check(better)["accurate"].held
    worse = changed(better, {"filter": "DEKF"}, position_rmse=5e-7)
    assert "2 × DEKF in position" in check(worse)["accurate"].numbers
    assert not check(worse)["accurate"].held
    # A filter that estimates forces is compared only with other such filters.
    forces = changed(better, {"filter": "errorEKF_FE"}, position_rmse=1e-9)
    assert not check(forces)["accurate"].held
    assert check(forces)["accurate_otherwise"].held

    assert check(changed(rows, {"filter": "errorEKF_FE"}, position_rmse=9.0))["forces"].held is False
    assert check(changed(rows, {"filter": "errorEKF_FE"}, position_rmse=1e-9, velocity_rmse=1e-9))[
        "forces"
    ].held

    lost = check(changed(rows, {"filter": "DEKF", "seed": 11}, velocity_relative=1.5))["better"]
    assert not lost.held
    assert "1.5 of its error (DEKF" in lost.numbers
    broken = check(changed(rows, {"filter": "DEKF", "seed": 11}, failed_at=0.7))["better"]
    assert not broken.held
    assert "3 broke down, first DEKF in four_bar, encoders, 200 Hz" in broken.numbers
    blind = {"filter": "DEKF", "sensors": "encoders"}
    hidden = changed(rows, blind, velocity_relative=1.5, observable=False)
    assert check(hidden)["better"].held


def test_statements_about_cost_follow_from_the_rows(rows):
    cost = {"errorEKF": 1.0, "errorEKF_FE": 2.0, "DEKF": 1.2, "UKF-TR": 5.0}
    dear = rows
    for name, value in cost.items():
        dear = changed(dear, {"filter": name}, cost=value)
    steady = check(dear)
    assert steady["cheapest"].held
    assert "DEKF 1.2 ×" in steady["cheapest"].numbers
    assert steady["growth"].held is False
    growing = check(changed(dear, {"filter": "UKF-TR", "mechanism": "five_bar"}, cost=7.5))["growth"]
    assert growing.held
    assert "UKF-TR 1.5 ×" in growing.numbers
    assert check(changed(dear, {"filter": "DEKF"}, cost=0.9))["cheapest"].held is False
    alone = [row for row in dear if row["mechanism"] == "four_bar"]
    assert check(alone)["growth"].held is None


def test_without_filters_no_statement_is_decided(rows):
    assert {v.held for v in check([r for r in rows if r["filter"] == "none"]).values()} == {None}


def test_recommendations_and_standings_follow_from_the_rows(rows):
    cheap = changed(rows, {"filter": "DEKF"}, position_rmse=0.001, velocity_rmse=0.01, cost=1.1, nis=1.0)
    cheap = changed(cheap, {"filter": "UKF-TR"}, position_rmse=0.00099, velocity_rmse=0.01, cost=5.0)
    results = conclusions.gather(cheap)
    job = conclusions.find_recommendations(results)[0]
    assert (job.position.filter, job.cheapest.filter, job.consistent.filter) == ("UKF-TR", "DEKF", "DEKF")
    standings = {s.filter: s for s in conclusions.calc_standings(results)}
    assert "none" not in standings
    assert standings["DEKF"].level_position == standings["DEKF"].setups == 3
    assert standings["DEKF"].cost == 1.1
    broken = conclusions.calc_standings(conclusions.gather(changed(cheap, {"filter": "DEKF"}, failed_at=0.1)))
    assert next(s for s in broken if s.filter == "DEKF").failed == 3


def test_observability_is_described_for_each_set_up(short):
    setups = [Setup("four_bar", s, r, "L2") for s in ("encoders", "crank_gyros") for r in (200, 10)]
    calc = observer_cases.calc_setup_observability
    encoders, gyros = conclusions.describe_observability((s, calc(s)) for s in setups)
    assert encoders == "four_bar, encoders, 200/10 Hz, L2: observable, rank 2 of 2"
    assert "only through the dynamics: theta" in gyros
    free = calc(setups[2]).free_masses
    hidden = observer_cases.SetupObservability(free, free)
    (line,) = conclusions.describe_observability([(setups[2], hidden)])
    assert line.endswith("NOT OBSERVABLE, rank 1 of 2: unobservable theta")


# -- the table ----------------------------------------------------------------------------------------------


def test_the_table_names_failed_filters_with_time_and_reason(short, monkeypatch):
    class Breaks(LinkageErrors):
        def simulate(self, h):
            if self.mechanism.t > 0.5:
                raise self.fail("out of order")
            super().simulate(h)

    monkeypatch.setitem(KINDS, "DEKF", Kind(of_errors(Breaks)))
    found = [
        observers.run_case(ObserverRun("four_bar", "encoders", 50, "L1", n, 3)) for n in ("DEKF", "none")
    ]
    text = "\n".join(observer_tables.format_linkages(found))
    assert found[0]["failed_at"] == pytest.approx(0.505, abs=0.006)
    assert f"DEKF          seed 3 broke down at {found[0]['failed_at']:.3f} s" in text
    assert f"last reading {found[0]['last_readings']}: observer at t" in text
    assert "out of order" in text
    assert "NOT HELD  every filter is better" in text


def test_the_table_has_medians_recommendations_and_conclusions(rows):
    lines = observer_tables.format_linkages(rows)
    at = lines.index("four_bar, encoders, 200 Hz, L2, medians over seeds 10 11")
    cells = dict(zip(lines[at + 2].split()[1:], lines[at + 1].split(), strict=False))
    assert lines[at + 2].startswith("errorEKF ")
    assert len(cells) > 5
    median = conclusions.gather(rows)[Setup("four_bar", "encoders", 200, "L2")]["errorEKF"].median
    assert float(lines[at + 2].split()[1]) == pytest.approx(median("position_rmse"), rel=0.01)
    text = "\n".join(lines)
    for heading in (
        "== four_bar, crank_gyros ==",
        "== which filter in which set-up",
        "== statements about the filters ==",
    ):
        assert heading in text
    hidden = changed(rows, {"sensors": "crank_gyros"}, observable=False, rank=1)
    assert "NOT OBSERVABLE, rank 1 of 2" in "\n".join(observer_tables.format_linkages(hidden))


# -- pictures -----------------------------------------------------------------------------------------------


def test_plots_are_drawn_also_of_failed_runs(rows, short, tmp_path):
    some = [r for r in rows if r["mechanism"] == "four_bar" and r["filter"] in ("errorEKF", "none")]
    broken = changed(some, {"sensors": "crank_gyros", "filter": "errorEKF"}, failed_at=0.5, nis=None)
    for what in ("position", "velocity", "acceleration"):
        broken = changed(
            broken,
            {"failed_at": 0.5},
            **{f"{what}_rmse": None, f"{what}_rmse_second_half": None, f"{what}_relative": None},
        )
    observer_plots.draw(broken, tmp_path / "new")
    names = {f.name for f in (tmp_path / "new").iterdir()}
    assert {"errors_four_bar_encoders_L2.png", "errors_four_bar_crank_gyros_L2.png"} < names
    assert "costs_four_bar_L2.png" in names
    assert any(n.startswith("history_four_bar") for n in names)
    for name in names:
        assert matplotlib.image.imread(tmp_path / "new" / name).std() > 0.01


def test_a_filter_has_the_same_style_in_every_plot():
    every = observer_plots.choose_styles([*KINDS, "errorEKF_new", "none"])
    assert len(set(every.values())) == len(every) == len(KINDS) + 1
    for some in (["SCKF", "UKF-TR"], ["none", "DEKF"]):
        styles = observer_plots.choose_styles(some)
        assert styles == {name: every[name] for name in some if name != "none"}


# -- the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "choices"),
    [
        ("--filter", {*KINDS, observer_filters.NO_FILTER, *get_args(CarKind)}),
        ("--mechanism", {*observer_cases.CASES, "vehicle"}),
        ("--sensors", {*observer_cases.SENSORS, "rtk", "conventional"}),
        ("--rate", set(map(str, observer_cases.RATES))),
        ("--level", {*observer_cases.LEVELS}),
    ],
)
def test_the_command_offers_every_choice(option, choices, capsys):
    assert main(["bench", "observers", option, "0"]) == 2
    (offered,) = re.findall(r"choose from (.*?)\)", capsys.readouterr().err)
    assert set(offered.replace("'", "").split(", ")) == choices


def test_filter_names_may_have_underscores_for_hyphens():
    args = make_parser("bench").parse_args([*COMMAND, "--filter", "UKF_TR", "UKF-FE", "errorEKF_EJ"])
    assert args.filter == ["UKF-TR", "UKF-FE", "errorEKF_EJ"]


def test_the_command_prints_json_or_a_table_and_resumes(short, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "open_executor", lambda args, jobs: Here())
    path = tmp_path / "rows.jsonl"
    some = ("--filter", "none", "DEKF", "--seed", "10", "11")
    choice = [*COMMAND, *some, "--workers", "1", "--resume", str(path)]
    assert main([*choice, "--json"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert [(r["filter"], r["seed"]) for r in rows] == [
        ("none", 10),
        ("none", 11),
        ("DEKF", 10),
        ("DEKF", 11),
    ]
    assert KEYS.issubset(rows[0])
    assert rows[0]["position_rmse"] == rows[1]["position_rmse"]
    assert rows[2]["position_rmse"] != rows[3]["position_rmse"] < 0.5 * rows[0]["position_rmse"]
    assert "four_bar, encoders, 10 Hz, L1: observable, rank 2 of 2\n" in err
    assert "estimating" not in err

    lines = path.read_text().splitlines(keepends=True)
    assert sorted(map(json.loads, lines), key=lambda r: (r["filter"] != "none", r["seed"])) == rows
    path.write_text("".join(lines[:3]) + lines[3][:30])  # cut off in the fourth line
    assert main(choice) == 0
    out, err = capsys.readouterr()
    assert "4 runs, 3 of them known" in err
    assert "1 of 1 runs" in err
    assert out.startswith(
        "== four_bar, encoders ==\nfour_bar, encoders, 10 Hz, L1, medians over seeds 10 11\n"
    )
    again = [json.loads(line) for line in path.read_text().splitlines()]
    assert again[:3] == [json.loads(line) for line in lines[:3]]
    made = json.loads(lines[3])
    assert again[3]["position_rmse"] == made["position_rmse"]
    assert len(again) == 4


def test_ctrl_c_leaves_a_file_from_which_the_run_resumes(tmp_path):
    path = tmp_path / "rows.jsonl"
    choice = [*COMMAND, "--filter", "none", "CEKF", "--seed", *map(str, range(20, 40)), "--resume", str(path)]
    with subprocess.Popen(
        [sys.executable, "-m", "vehicled", *choice, "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert f"of 40 runs are in {path}; the same command continues" in err
    assert "Traceback" not in err
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    ledger = Ledger(path, observers.get_run, "a run")
    assert 0 < len(rows) < 40
    assert ledger[observers.get_run(rows[0])] == rows[0]


@pytest.mark.parametrize(
    ("option", "says"),
    [("--workers 0", "--workers: expected at least 1"), ("--seed -1", "--seed: expected 0")],
)
def test_numbers_out_of_range_are_refused(option, says, capsys):
    assert main(["bench", "observers", *option.split()]) == 2
    assert says in capsys.readouterr().err
