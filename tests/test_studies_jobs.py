"""Jobs in processes: order, progress, resumption from a file, processes that are killed."""

import json
import os
import signal

import pytest

from vehicled.errors import RunError, UsageError
from vehicled.studies.jobs import Ledger, run_jobs, run_resumable


def square(n: int) -> dict[str, int]:
    return {"n": n, "square": n * n, "process": os.getpid()}


def get_n(row):
    return int(row["n"])


def die(n: int) -> None:
    """As the system kills a process where there is no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(n: int) -> None:
    raise UsageError(f"not {n}")


def test_results_are_in_order_and_equal_jobs_are_run_once():
    reported, entered = [], []
    rows = run_jobs(square, [3, 1, 2, 3], 2, reported.append, entered.append)
    assert [row["square"] for row in rows] == [9, 1, 4, 9]
    assert reported == [1, 2, 3]
    assert sorted(map(get_n, entered)) == [1, 2, 3]
    assert os.getpid() not in {row["process"] for row in rows}


def test_no_jobs_are_no_results():
    assert run_jobs(square, [], 4, print) == []


def test_a_run_goes_on_from_its_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    first = run_resumable(square, [1, 2], 1, lambda _: None, Ledger(path, get_n, "a square"))
    path.write_text(path.read_text() + '{"n": 3, "squ')  # interrupted while it was written
    reported = []
    again = run_resumable(square, [2, 3, 1], 1, reported.append, Ledger(path, get_n, "a square"))
    assert again[0] == first[1]
    assert again[2] == first[0]
    assert again[1]["square"] == 9
    assert reported == [1]
    assert [json.loads(line) for line in path.read_text().splitlines()] == [*first, again[1]]


def test_a_process_that_is_killed_is_an_error():
    with pytest.raises(RunError, match="a process of the benchmark was killed"):
        run_jobs(die, [1], 1, print)


def test_an_error_of_a_job_is_that_of_the_run():
    with pytest.raises(UsageError, match="not 7"):
        run_jobs(refuse, [7], 1, print)


@pytest.mark.parametrize("text", ["hello\n", '{"seed": 1}\n', "[1]\n", "half a line"])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"notes.txt:1: expected a square"):
        Ledger(path, get_n, "a square")
    assert path.read_text() == text
