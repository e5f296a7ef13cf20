"""`vehicled bench live`: its keys, figures that belong together, and how samples are followed."""

import copy
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_rig import is_running, wait_until

from vehicled.cli import main
from vehicled.studies.live import run as live
from vehicled.studies.live.latency import pair_sent
from vehicled.studies.live.parts import PARTS

POINTS = ("median", "p99", "p999")


SECONDS = 8
"""On a busy machine the daemon takes some of them to begin."""


@pytest.fixture(scope="module")
def found():
    """A few seconds, in processes of their own."""
    command = [sys.executable, "-m", "vehicled", "bench", "live", "--duration", str(SECONDS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "driving" in done.stderr
    return json.loads(done.stdout)


def test_it_has_the_keys_of_the_contract(found):
    assert {"step_us", "latency_us", "warm_us", "missed", "steps", "cpu_share", "rss_mb", "lost"} <= set(
        found
    )
    for times in (
        found["step_us"],
        found["latency_us"],
        found["latency_us"]["imu"],
        found["latency_us"]["can"],
    ):
        assert 0.0 < times["median"] <= times["p99"] <= times["p999"]
    assert isinstance(found["warm_us"], float)
    assert found["warm_us"] > 0.0


def test_its_figures_are_those_of_a_daemon_that_runs(found):
    # From its start until the last sample has been used: a second or two more.
    assert found["seconds"] >= SECONDS
    assert SECONDS * 250 <= found["steps"] + found["skipped"] < 20.0 * 250
    assert 0 <= found["skipped"] <= found["missed"] <= found["steps"] + found["skipped"]
    assert found["lost"] == 0
    assert found["restarts"] == 0
    assert 0.0 < found["cpu_share"] < 4.0
    assert 20.0 < found["rss_mb"] < 2000.0
    assert found["rss_mb_per_hour"] is None  # too short
    assert found["recording_mb"] > 0.1


def test_the_parts_of_a_step_are_no_longer_than_the_step(found):
    for times in found["breakdown_us"].values():
        assert {*PARTS, "sources", "step", "waiting"} <= set(times)
        for part in (*PARTS, "sources", "waiting"):
            assert times[part]["median"] <= times["step"]["median"]
        assert times["step"]["median"] <= 1.1 * times["step"]["p99"]
    # The histogram's resolution is 6 %, and the recorder measures the step from outside.
    live = found["breakdown_us"]["live"]["step"]
    assert live["median"] < 1.1 * found["step_us"]["median"]
    assert found["step_us"]["median"] < 1.1 * found["tick_us"]["median"]


def test_a_sample_waits_for_the_step_and_for_nothing_backwards(found):
    for device, stages in found["latency_stages_us"].items():
        assert set(stages) == {"to_driver", "to_step", "to_subscriber"}
        for stage, times in stages.items():
            # A sample that was late in the queue gets the time of the step after which it came.
            assert 0.0 < times["median"] <= times["p99"] <= times["p999"], stage
            assert times["median"] < found["latency_us"][device]["median"]
        # No sample waits longer for its step than a period, unless steps are missed.
        assert found["missed"] or stages["to_step"]["p999"] < 4100.0


def test_the_table_names_what_was_measured(found, monkeypatch, capsys):
    """And the load is as many busy processes as there are processors."""
    warm = {"warm_us": found["warm_us"], "warm_p99_us": found["warm_p99_us"]}
    measured = copy.deepcopy(found)
    warm["parts_us"] = measured["breakdown_us"].pop("warm")
    loads = []

    def bench_live(car, path, folder, drive, load, progress):
        loads.append(load)
        (folder / "run.mcap").touch()
        return measured

    monkeypatch.setattr(live, "bench_live", bench_live)
    monkeypatch.setattr(live, "bench_warm", lambda car, recording: warm)
    assert main(["bench", "live", "--duration", str(SECONDS), "--load", "--seed", "2"]) == 0
    out = capsys.readouterr().out
    processors = len(os.sched_getaffinity(0))
    assert loads == [processors]
    for text in (
        "sample to subscriber",
        "live over warm",
        "where a sample waits",
        f"missed in {SECONDS} s, beside",
    ):
        assert text in out
    assert f"beside {processors} busy processes" in out


def test_busy_processes_never_wait_and_end_with_the_measurement():
    def children():
        own = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
        return {int(pid) for pid in own}

    def processor_ticks(pid):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])

    before = children()
    with live.busy_processes(1):
        (busy,) = children() - before
        wait_until(lambda: processor_ticks(busy) >= 10)
        assert os.sched_getscheduler(busy) == os.SCHED_OTHER
    assert not is_running(busy)


@pytest.mark.parametrize(
    "arguments", [["--duration", "1"], ["--duration", "5kg"], ["--duration", "soon"], ["--seed", "-1"]]
)
def test_bad_arguments_are_one_line_each(arguments, capsys):
    assert main(["bench", "live", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"vehicled: {arguments[0]} {arguments[1]}: ")


MS = 1_000_000


@given(
    st.lists(st.tuples(st.integers(0, 3 * MS), st.booleans()), min_size=1, max_size=60),
)
def test_samples_that_are_lost_do_not_shift_the_others(samples):
    """Sent every 4 ms, less than that under way, some lost."""
    sent = np.arange(len(samples), dtype=np.int64) * 4 * MS
    arrived = [k for k, (_, lost) in enumerate(samples) if not lost]
    times = np.array([sent[k] + samples[k][0] for k in arrived], dtype=np.int64)
    assert pair_sent(sent, times).tolist() == arrived


@given(st.lists(st.integers(0, 30 * MS), min_size=1, max_size=60))
def test_no_sample_arrives_before_it_is_sent_or_twice(delays):
    """Samples that a stalled reader takes together keep their order."""
    sent = np.arange(len(delays), dtype=np.int64) * 4 * MS
    times = np.maximum.accumulate(sent + np.array(delays, dtype=np.int64))
    places = pair_sent(sent, times)
    assert places.tolist() == list(range(len(delays)))  # nothing was lost
    assert np.all(sent[places] <= times)


def test_what_was_never_sent_has_no_place():
    assert pair_sent(np.array([10, 20]), np.array([5, 12, 13])).tolist() == [-1, -1, 0]
    assert pair_sent(np.array([], dtype=np.int64), np.array([5])).tolist() == [-1]
    assert pair_sent(np.array([5]), np.array([], dtype=np.int64)).tolist() == []
