"""Jobs in processes of their own: results in order, progress, and a file from which an interrupted run goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, TypeVar

from vehicled.errors import RunError, UsageError

J = TypeVar("J", bound=Hashable)
R = TypeVar("R")


class Ledger(Generic[J]):
    """Results of jobs, each a row of JSON that names its job; in a file too, a line each, if there is one."""

    def __init__(self, path: Path | None, key: Callable[[dict[str, Any]], J], expected: str) -> None:
        """`key`: the job of a row, KeyError or TypeError if it is none; `expected`: the rows in messages.

        Without a path they are kept for this run alone. Raises UsageError for a file of something else.
        """
        self._path, self._key = path, key
        self._rows: dict[J, dict[str, Any]] = {}
        if path is None or not path.exists():
            return
        text = path.read_text(errors="replace")
        whole = text[: text.rfind("\n") + 1]
        for n, line in enumerate(whole.splitlines(), 1):
            try:
                row = json.loads(line)
                self._rows[key(row)] = row
            except (ValueError, KeyError, TypeError):
                raise UsageError(f"{path}:{n}: expected {expected}") from None
        if whole != text:  # cut off while it was written
            if not whole:
                raise UsageError(f"{path}:1: expected {expected}")
            path.write_text(whole)

    def __getitem__(self, job: J) -> dict[str, Any]:
        return self._rows[job]

    def __contains__(self, job: J) -> bool:
        return job in self._rows

    def missing(self, jobs: Iterable[J]) -> list[J]:
        """Those without a row, in order, each once."""
        return [job for job in dict.fromkeys(jobs) if job not in self]

    def enter(self, row: dict[str, Any]) -> None:
        """Keep a row, and append it to the file. Raises OSError."""
        self._rows[self._key(row)] = row
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def run_jobs(
    work: Callable[[J], R],
    jobs: Iterable[J],
    workers: int,
    progress: Callable[[float], None],
    done: Callable[[R], None] = lambda _: None,
) -> list[R]:
    """`work` of each job, in their order, in at most `workers` processes that share nothing with this one.

    `work` must be importable (or a partial of what is); equal jobs are run once. `progress` receives the number of
    jobs that are finished, `done` each result as soon as it is there: `Ledger.enter`. Raises what `work` raises, and
    RunError when a process is killed from outside; jobs that have not begun are cancelled then, as by Ctrl-C.
    """
    ordered = list(jobs)
    results: dict[J, R] = {}
    # Not by fork, which would copy the numerical libraries with their threads in an undefined state.
    with ProcessPoolExecutor(max(workers, 1), get_context("spawn"), initializer=_end_silently) as pool:
        pending = {pool.submit(work, job): job for job in dict.fromkeys(ordered)}
        try:
            for n, future in enumerate(as_completed(pending), 1):
                results[pending[future]] = result = future.result()
                done(result)
                progress(n)
        except BrokenProcessPool:
            raise RunError("a process of the benchmark was killed; is there enough memory?") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [results[job] for job in ordered]


def run_resumable(
    work: Callable[[J], dict[str, Any]],
    jobs: Iterable[J],
    workers: int,
    progress: Callable[[float], None],
    ledger: Ledger[J],
) -> list[dict[str, Any]]:
    """Rows of the jobs, in their order, from the ledger or new; `progress` receives the number of new ones."""
    ordered = list(jobs)
    run_jobs(work, ledger.missing(ordered), workers, progress, ledger.enter)
    return [ledger[job] for job in ordered]


def _end_silently() -> None:
    """Ctrl-C reaches all processes of a terminal; only the first one reports it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
