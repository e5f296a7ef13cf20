"""Jobs in processes: order, progress, resumption from a file, processes that are killed."""

import json
import multiprocessing
import os
import time
from concurrent.futures import CancelledError
from functools import partial

import jobs_rig
import pytest
from jobs_rig import get_n, square

from vehicled.errors import UsageError
from vehicled.jobs.failures import ExecutorError
from vehicled.jobs.ledger import Ledger
from vehicled.jobs.local import LocalProcesses
from vehicled.jobs.run import run_jobs, run_resumable


@pytest.fixture
def executor():
    with LocalProcesses(2) as executor:
        yield executor


def test_results_are_in_order_and_equal_jobs_are_run_once(executor):
    reported, entered = [], []
    rows = run_jobs(square, [3, 1, 2, 3], executor, reported.append, entered.append)
    assert [row["square"] for row in rows] == [9, 1, 4, 9]
    assert reported == [1, 2, 3]
    assert sorted(map(get_n, entered)) == [1, 2, 3]
    assert os.getpid() not in {row["process"] for row in rows}


def test_no_jobs_give_no_results(executor):
    assert run_jobs(square, [], executor, print) == []


def test_a_run_is_resumed_from_its_file(tmp_path, executor):
    path = tmp_path / "rows.jsonl"
    first = run_resumable(square, [1, 2], executor, lambda _: None, Ledger(path, get_n, "a square"))
    path.write_text(path.read_text() + '{"n": 3, "squ')  # interrupted while it was written
    reported = []
    again = run_resumable(square, [2, 3, 1], executor, reported.append, Ledger(path, get_n, "a square"))
    assert again[0] == first[1]
    assert again[2] == first[0]
    assert again[1]["square"] == 9
    assert reported == [1]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(lines[:2], key=get_n) == first
    assert lines[2:] == [again[1]]


@pytest.mark.parametrize("name", ["Übung", "a\u2028b", "a\x85b", os.fsdecode(b"a\xff")])
def test_any_file_name_can_be_in_a_row(tmp_path, name):
    path = tmp_path / "rows.jsonl"
    Ledger(path, lambda row: row["log"], "a row").enter({"log": name})
    assert Ledger(path, lambda row: row["log"], "a row").missing([name]) == []


def test_the_job_of_a_killed_process_is_done_by_another(tmp_path, executor):
    rows = run_jobs(partial(jobs_rig.die_once, str(tmp_path)), range(8), executor, lambda _: None)
    assert [row["square"] for row in rows] == [n * n for n in range(8)]
    assert sorted(p.name for p in tmp_path.glob("3-*")) == ["3-0", "3-1"]
    assert len(list(tmp_path.iterdir())) == 9, "no other job was begun twice"


def test_a_job_that_kills_each_of_its_processes_is_an_error_after_the_others_are_done(tmp_path, executor):
    done = []
    with pytest.raises(ExecutorError, match="its process was killed each time"):
        run_jobs(jobs_rig.die_by_number, range(4), executor, lambda _: None, done.append)
    assert sorted(map(get_n, done)) == [0, 2]


def test_a_lost_job_can_have_its_own_row(executor):
    rows = run_jobs(
        jobs_rig.die_by_number, [1, 2], executor, print, lost=lambda n, e: {"n": n, "error": str(e)}
    )
    assert "killed each time" in rows[0]["error"]
    assert rows[1]["square"] == 4


def test_an_error_of_a_job_is_raised_by_the_run(executor):
    with pytest.raises(UsageError, match="not 7"):
        run_jobs(jobs_rig.refuse, [7], executor, print)


def test_an_error_that_cannot_be_pickled_is_described(executor):
    with pytest.raises(RuntimeError, match=r"UnpicklableError\('5 5'\)"):
        run_jobs(jobs_rig.fail_oddly, [5], executor, print)


def test_closing_the_executor_ends_its_processes():
    with LocalProcesses(2) as executor:
        futures = [executor.submit(time.sleep, 600) for _ in range(5)]
        while sum(f.running() for f in futures) < 2 or len(multiprocessing.active_children()) < 2:
            time.sleep(0.01)
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(timeout=10)
    for process in multiprocessing.active_children():
        process.join(10)
        assert not process.is_alive()


@pytest.mark.parametrize("text", ["hello\n", '{"seed": 1}\n', "[1]\n", "half a line"])
def test_a_file_with_other_content_is_refused_and_not_changed(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"notes.txt:1: expected a square"):
        Ledger(path, get_n, "a square")
    assert path.read_text() == text


def test_a_shared_value_reaches_its_jobs(executor):
    shared = executor.share(list(range(1000)))
    assert [executor.submit(sum, shared, n).result() for n in range(3)] == [499500, 499501, 499502]
