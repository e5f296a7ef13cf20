"""`vehicled bench observers`: its rows, what is made of them, its resumption after an interruption, its output."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import matplotlib.image
import numpy as np
import pytest
from vehicled.studies.benchmarks.ledger import Ledger
from vehicled.studies.observers.discrete import DiscreteEKF

from vehicled.cli import main, make_parser
from vehicled.commands.benches import observers as command
from vehicled.errors import RunError, UsageError
from vehicled.studies.benchmarks import observer_plots, observers
from vehicled.studies.benchmarks import observer_verdicts as verdicts
from vehicled.studies.benchmarks.observers import Run, Setup
from vehicled.studies.observers.error_state import ErrorEKF

KEYS = {
    *("mechanism", "sensors", "rate_hz", "level", "filter", "seed"),
    *("position_rmse", "velocity_rmse", "position_rmse_second_half", "velocity_rmse_second_half"),
    *("nis", "us_per_step", "failed_at"),
}
"""What scripts may rely on."""
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
    """Runs of 1 s, and nothing kept of them for other tests."""
    caches = (observers.calc_truth, observers.get_linkage, observers.calc_wrong_rmse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observers, "STEPS", 200)
        for kept in caches:
            kept.cache_clear()
        yield
        for kept in caches:
            kept.cache_clear()


@pytest.fixture(scope="module")
def rows(short):
    filters = ("errorEKF", "errorEKF_FE", "DEKF", "UKF-TR", "none")
    return [
        observers.run_case(Run(mechanism, sensors, rate, "L2", name, seed))
        for mechanism, sensors, rate in (
            ("four_bar", "encoders", 200),
            ("four_bar", "crank_gyros", 20),
            ("five_bar", "encoders", 20),
        )
        for name in filters
        for seed in (10, 11)
    ]


def changed(rows, where, **values):
    """Rows of which those with `where` have other values."""
    return [
        {**row, **values} if all(row[k] == v for k, v in where.items()) else row for row in map(dict, rows)
    ]


def judge(rows):
    found = verdicts.judge(verdicts.gather(rows))
    names = ("accurate", "accurate_otherwise", "cheapest", "growth", "better", "forces")
    return dict(zip(names, found, strict=True))


# -- rows ---------------------------------------------------------------------------------------------------


def test_a_row_has_what_scripts_rely_on(rows):
    row = rows[0]
    assert KEYS.issubset(row)
    assert observers.get_run(row) == Run("four_bar", "encoders", 200, "L2", "errorEKF", 10)
    assert json.loads(json.dumps(row)) == row
    assert (row["readings"], row["states"], row["rank"], row["observable"]) == (1, 2, 2, True)


def test_errors_are_those_of_the_trace(rows, short):
    row = rows[0]
    trace = observers.run_filter(observers.get_run(row))
    linkage = observers.get_linkage("four_bar", "encoders", False)
    for what, order in (("position", 0), ("velocity", 1), ("acceleration", 2)):
        error = getattr(trace, what)
        assert error.shape == (200, 1)
        assert row[f"{what}_rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
        assert row[f"{what}_rmse_second_half"] == pytest.approx(np.sqrt(np.mean(error[100:] ** 2)))
        alone = next(r for r in rows if r["filter"] == "none" and r["mechanism"] == "four_bar")
        assert row[f"{what}_relative"] == pytest.approx(row[f"{what}_rmse"] / alone[f"{what}_rmse"])
        if order:
            before = (linkage.z, linkage.zd)[order - 1]
            # What is taken for the truth is the derivative of what is taken for the truth before it.
            assert np.gradient(before[:, 0], observers.H)[2:-2] == pytest.approx(
                (linkage.zd, linkage.zdd)[order - 1][2:-2, 0], abs=1e-3 * np.abs(linkage.zdd).max()
            )
    assert list(trace.innovations) == list(range(200))
    assert row["nis"] == pytest.approx(np.mean([i.nis for i in trace.innovations.values()]))
    assert np.mean(np.abs(trace.position[100:]) < 3 * trace.deviation[100:]) > 0.97


def test_sensors_that_see_angles_through_gravity_alone(rows):
    """A gyroscope on the crank: filters with the transition of free masses never learn of the angle."""
    by_filter = {r["filter"]: r for r in rows if r["sensors"] == "crank_gyros" and r["seed"] == 10}
    for row in by_filter.values():
        assert row["observable"] and (row["rank"], row["rank_free_masses"]) == (2, 1)
    start = np.pi / 16
    for name in ("errorEKF", "DEKF"):
        assert by_filter[name]["position_rmse_second_half"] > 0.8 * start
    for name in ("errorEKF_FE", "UKF-TR"):
        assert by_filter[name]["position_rmse_second_half"] < 0.3 * start


def test_what_disturbs_some_steps_does_not_count_in_the_cost(short, monkeypatch):
    """Every tenth step has a reading and takes 100 µs, the others 10 µs, but for one of a second; the machine gets
    three times as slow after half of them."""
    linkage = observers.get_linkage("four_bar", "encoders", False)
    clock = iter(())
    monkeypatch.setattr(time, "process_time_ns", lambda: next(clock))

    def timed(turns, factor):
        nonlocal clock
        wrong = observers.make_wrong(linkage, 1.0)
        timed = observers._Timed(observers.FILTERS["errorEKF"](wrong, linkage, False))
        for turn in range(turns):
            timed.turns.append([])
            slow = 1 if turn < turns / 2 else 3
            took = [factor * slow * (100_000 if k % 10 == 9 else 10_000) for k in range(20)]
            took[5] *= 100_000 if turn == 1 else 1
            clock = itertools.chain.from_iterable((0, ns) for ns in took)
            for k in range(20):
                timed.step(np.array([timed.observer.z[0]]) if k % 10 == 9 else None)
        return timed

    usual = (2 * 100 + 18 * 10) / 20
    assert timed(2, 1).calc_us_per_step() > timed(1, 1).calc_us_per_step() == pytest.approx(usual)
    assert timed(4, 5).calc_cost(timed(4, 2)) == pytest.approx(2.5)


def test_repairs_are_reported(short, monkeypatch):
    class Repairs(DiscreteEKF):
        def step(self, readings):
            self.repairs += readings is not None
            return super().step(readings)

    monkeypatch.setitem(observers.FILTERS, "DEKF", observers._of_state(Repairs))
    assert observers.run_case(Run("four_bar", "encoders", 50, "L1", "DEKF", 3))["repairs"] == 50


def test_a_process_that_is_killed_is_said(monkeypatch, tmp_path):
    """The job kills its process, as the system does where there is no memory left."""
    monkeypatch.setattr(observers, "run_case", _die)
    with pytest.raises(RunError, match="a process of the benchmark was killed"):
        ledger = Ledger(None, observers.get_run, "a run")
        observers.bench_observers([Run("four_bar", "encoders", 10, "L1", "none", 1)], 1, ledger, print)


def _die(run):
    os.kill(os.getpid(), signal.SIGKILL)


# -- what is made of rows -----------------------------------------------------------------------------------


def test_medians_are_over_seeds(rows):
    result = verdicts.gather(rows)[Setup("four_bar", "encoders", 200, "L2")]["DEKF"]
    both = [r["position_rmse"] for r in rows[:10] if r["filter"] == "DEKF"]
    assert result.median("position_rmse") == pytest.approx(np.mean(both)) and len(both) == 2
    broken = verdicts.Result(result.setup, "DEKF", (dict(result.rows[0], failed_at=0.5), result.rows[1]))
    assert not broken.sound and broken.median("nis") == result.rows[1]["nis"]
    assert result.median("failed_at") is None
    five = verdicts.gather(rows)[Setup("five_bar", "encoders", 20, "L2")]["DEKF"]
    assert five.consistency == pytest.approx(five.median("nis") / 2)


def test_what_holds_of_real_runs(rows):
    found = judge(rows)
    assert found["better"].held and "24 runs" in found["better"].numbers
    # A second is enough for the force-estimating filter to beat all others with gyros on the cranks.
    assert found["accurate"].held is False and "errorEKF_FE" in found["accurate"].numbers
    assert found["forces"].numbers.count("of 3 set-ups") == 2


def test_verdicts_turn_with_the_rows(rows):
    better = changed(rows, {"filter": "UKF-TR"}, position_rmse=1e-6, velocity_rmse=1e-6)
    assert judge(better)["accurate"].held
    worse = changed(better, {"filter": "DEKF"}, position_rmse=5e-7)
    assert "2 × DEKF in position" in judge(worse)["accurate"].numbers
    assert not judge(worse)["accurate"].held
    # One that estimates forces does not count among those that do not.
    forces = changed(better, {"filter": "errorEKF_FE"}, position_rmse=1e-9)
    assert not judge(forces)["accurate"].held and judge(forces)["accurate_otherwise"].held

    assert judge(changed(rows, {"filter": "errorEKF_FE"}, position_rmse=9.0))["forces"].held is False
    assert judge(changed(rows, {"filter": "errorEKF_FE"}, position_rmse=1e-9, velocity_rmse=1e-9))[
        "forces"
    ].held

    lost = judge(changed(rows, {"filter": "DEKF", "seed": 11}, velocity_relative=1.5))["better"]
    assert not lost.held and "1.5 of its error (DEKF" in lost.numbers
    broken = judge(changed(rows, {"filter": "DEKF", "seed": 11}, failed_at=0.7))["better"]
    assert not broken.held and "3 broke down, first DEKF in four_bar, encoders, 200 Hz" in broken.numbers
    blind = {"filter": "DEKF", "sensors": "encoders"}
    hidden = changed(rows, blind, velocity_relative=1.5, observable=False)
    assert judge(hidden)["better"].held


def test_costs_are_judged_by_the_rows(rows):
    cost = {"errorEKF": 1.0, "errorEKF_FE": 2.0, "DEKF": 1.2, "UKF-TR": 5.0}
    dear = rows
    for name, value in cost.items():
        dear = changed(dear, {"filter": name}, cost=value)
    steady = judge(dear)
    assert steady["cheapest"].held and "DEKF 1.2 ×" in steady["cheapest"].numbers
    assert steady["growth"].held is False
    growing = judge(changed(dear, {"filter": "UKF-TR", "mechanism": "five_bar"}, cost=7.5))["growth"]
    assert growing.held and "UKF-TR 1.5 ×" in growing.numbers
    assert judge(changed(dear, {"filter": "DEKF"}, cost=0.9))["cheapest"].held is False
    alone = [row for row in dear if row["mechanism"] == "four_bar"]
    assert judge(alone)["growth"].held is None


def test_without_the_filters_there_is_no_verdict(rows):
    assert {v.held for v in judge([r for r in rows if r["filter"] == "none"]).values()} == {None}


def test_jobs_and_standings(rows):
    cheap = changed(rows, {"filter": "DEKF"}, position_rmse=0.001, velocity_rmse=0.01, cost=1.1, nis=1.0)
    cheap = changed(cheap, {"filter": "UKF-TR"}, position_rmse=0.00099, velocity_rmse=0.01, cost=5.0)
    results = verdicts.gather(cheap)
    job = verdicts.find_jobs(results)[0]
    assert (job.position.filter, job.thrifty.filter, job.consistent.filter) == ("UKF-TR", "DEKF", "DEKF")
    standings = {s.filter: s for s in verdicts.calc_standings(results)}
    assert "none" not in standings
    assert standings["DEKF"].level_position == standings["DEKF"].setups == 3
    assert standings["DEKF"].cost == 1.1
    broken = verdicts.calc_standings(verdicts.gather(changed(cheap, {"filter": "DEKF"}, failed_at=0.1)))
    assert next(s for s in broken if s.filter == "DEKF").failed == 3


def test_set_ups_are_told_with_what_they_do_not_see(short):
    setups = [Setup("four_bar", s, r, "L2") for s in ("encoders", "crank_gyros") for r in (200, 10)]
    encoders, gyros = verdicts.tell_sights((s, observers.calc_sight(s)) for s in setups)
    assert encoders == "four_bar, encoders, 200/10 Hz, L2: observable, rank 2 of 2"
    assert "only through the dynamics: theta" in gyros
    sight = observers.calc_sight(setups[2])
    (line,) = verdicts.tell_sights([(setups[2], observers.Sight(sight.free_masses, sight.free_masses))])
    assert line.endswith("NOT OBSERVABLE, rank 1 of 2: unseen theta")


# -- the table ----------------------------------------------------------------------------------------------


def test_the_table_tells_who_broke_down_when_and_by_what(short, monkeypatch):
    class Breaks(ErrorEKF):
        def step(self, readings):
            if self.mechanism.t > 0.5:
                raise self.fail("out of order")
            return super().step(readings)

    monkeypatch.setitem(observers.FILTERS, "DEKF", observers._error_state(Breaks))
    found = [observers.run_case(Run("four_bar", "encoders", 50, "L1", n, 3)) for n in ("DEKF", "none")]
    text = "\n".join(command._lines(found))
    assert found[0]["failed_at"] == pytest.approx(0.505, abs=0.006)
    assert f"DEKF          seed 3 broke down at {found[0]['failed_at']:.3f} s" in text
    assert f"last read {found[0]['last_readings']}: Breaks at t" in text and "out of order" in text
    assert "NOT HELD  every filter is better" in text


def test_the_table_has_medians_jobs_and_verdicts(rows):
    lines = command._lines(rows)
    at = lines.index("four_bar, encoders, 200 Hz, L2, medians over seeds 10 11")
    cells = dict(zip(lines[at + 2].split()[1:], lines[at + 1].split(), strict=False))
    assert lines[at + 2].startswith("errorEKF ") and len(cells) > 5
    median = verdicts.gather(rows)[Setup("four_bar", "encoders", 200, "L2")]["errorEKF"].median
    assert float(lines[at + 2].split()[1]) == pytest.approx(median("position_rmse"), rel=0.01)
    text = "\n".join(lines)
    for heading in ("== four_bar, crank_gyros ==", "== which filter for which job", "== what is to hold =="):
        assert heading in text
    hidden = changed(rows, {"sensors": "crank_gyros"}, observable=False, rank=1)
    assert "NOT OBSERVABLE, rank 1 of 2" in "\n".join(command._lines(hidden))


# -- pictures -----------------------------------------------------------------------------------------------


def test_pictures(rows, short, tmp_path):
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
    assert "costs_four_bar_L2.png" in names and any(n.startswith("history_four_bar") for n in names)
    for name in names:
        assert matplotlib.image.imread(tmp_path / "new" / name).std() > 0.01


def test_a_filter_looks_the_same_in_every_picture():
    every = observer_plots.choose_looks([*observers.FILTERS, "errorEKF_new", "none"])
    assert len(set(every.values())) == len(every) == len(observers.FILTERS) + 1
    for some in (["SCKF", "UKF-TR"], ["none", "DEKF"]):
        looks = observer_plots.choose_looks(some)
        assert looks == {name: every[name] for name in some if name != "none"}


# -- the command --------------------------------------------------------------------------------------------


def test_the_command_knows_what_there_is():
    assert set(command._FILTERS) == {*observers.FILTERS, observers.NO_FILTER}
    offered = (command._MECHANISMS, command._SENSORS, command._RATES, command._LEVELS)
    there = (observers.CASES, observers.SENSORS, observers.RATES, observers.LEVELS)
    assert offered == tuple(map(tuple, there))


def test_filters_may_be_called_as_in_python():
    args = make_parser("bench").parse_args([*COMMAND, "--filter", "UKF_TR", "UKF-FE", "errorEKF_EJ"])
    assert args.filter == ["UKF-TR", "UKF-FE", "errorEKF_EJ"]


def test_one_list_or_a_table_and_resumption(capsys, tmp_path):
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
    assert rows[0]["position_rmse"] == rows[1]["position_rmse"] > 2.0
    assert rows[2]["position_rmse"] != rows[3]["position_rmse"] < 0.05
    assert "four_bar, encoders, 10 Hz, L1: observable, rank 2 of 2\n" in err and "estimating" not in err

    lines = path.read_text().splitlines(keepends=True)
    assert sorted(map(json.loads, lines), key=lambda r: (r["filter"] != "none", r["seed"])) == rows
    path.write_text("".join(lines[:3]) + lines[3][:30])  # cut off in the fourth
    assert main(choice) == 0
    out, err = capsys.readouterr()
    assert "4 runs, 3 of them known" in err and "1 of 1 runs" in err
    assert out.startswith(
        "== four_bar, encoders ==\nfour_bar, encoders, 10 Hz, L1, medians over seeds 10 11\n"
    )
    again = [json.loads(line) for line in path.read_text().splitlines()]
    assert again[:3] == [json.loads(line) for line in lines[:3]]
    made = json.loads(lines[3])
    assert again[3]["position_rmse"] == made["position_rmse"] and len(again) == 4


def test_ctrl_c_leaves_a_file_to_go_on_from(tmp_path):
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
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == ""
    assert f"of 40 runs are in {path}; the same command goes on" in err and "Traceback" not in err
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    ledger = Ledger(path, observers.get_run, "a run")
    assert 0 < len(rows) < 40
    assert ledger[observers.get_run(rows[0])] == rows[0]


def test_a_file_of_something_else_is_refused(tmp_path):
    for text in ("hello\n", '{"seed": 1}\n', "[1]\n", "half a line"):
        path = tmp_path / "notes.txt"
        path.write_text(text)
        with pytest.raises(UsageError, match=r"notes.txt:1: expected a run"):
            Ledger(path, observers.get_run, "a run")
        assert path.read_text() == text


@pytest.mark.parametrize(
    ("option", "says"),
    [("--workers 0", "--workers: expected at least 1"), ("--seed -1", "--seed: expected 0")],
)
def test_observers_refuses_what_it_cannot_run(option, says, capsys):
    assert main(["bench", "observers", *option.split()]) == 2
    assert says in capsys.readouterr().err
