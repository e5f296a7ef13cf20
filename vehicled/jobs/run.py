"""Many jobs on an executor: results in order, progress, and jobs whose process is killed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Executor, as_completed
from typing import Any, TypeVar

from vehicled.jobs.failures import WorkerLostError
from vehicled.jobs.ledger import Ledger

J = TypeVar("J", bound=Hashable)
R = TypeVar("R")


def run_jobs(
    work: Callable[[J], R],
    jobs: Iterable[J],
    executor: Executor,
    progress: Callable[[float], None],
    done: Callable[[R], None] = lambda _: None,
    lost: Callable[[J, WorkerLostError], R] | None = None,
) -> list[R]:
    """Results of `work` on each job, in their order, on an executor of this package.

    `work` must be importable (or a partial of an importable function); equal jobs are run once. `progress`
    receives the number of finished jobs, `done` each result as soon as it is available: `Ledger.enter`.
    Raises what `work` raises; jobs that have not started are then cancelled, as by Ctrl-C. A job whose
    process was killed at every attempt has the result of `lost`; without `lost`, the others are finished
    before its WorkerLostError is raised.
    """
    ordered = list(jobs)
    results: dict[J, R] = {}
    failure: WorkerLostError | None = None
    pending = {executor.submit(work, job): job for job in dict.fromkeys(ordered)}
    try:
        for n, future in enumerate(as_completed(pending), 1):
            job = pending[future]
            try:
                results[job] = future.result()
            except WorkerLostError as error:
                if lost is None:
                    failure = error
                else:
                    results[job] = lost(job, error)
            if job in results:
                done(results[job])
            progress(n)
    finally:
        for future in pending:
            future.cancel()
    if failure is not None:
        raise failure
    return [results[job] for job in ordered]


def run_resumable(
    work: Callable[[J], dict[str, Any]],
    jobs: Iterable[J],
    executor: Executor,
    progress: Callable[[float], None],
    ledger: Ledger[J],
) -> list[dict[str, Any]]:
    """Rows of the jobs, in their order, from the ledger or new; `progress` receives the number of new ones."""
    ordered = list(jobs)
    run_jobs(work, ledger.missing(ordered), executor, progress, ledger.enter)
    return [ledger[job] for job in ordered]
