"""Passes over drives: one after another here, or in parallel on an executor, with the same results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from typing import TypeVar

from vehicled.identification.vehicle.prediction_error import ScoredDrive
from vehicled.jobs.interface import SharingExecutor

R = TypeVar("R")
Seconds = Callable[[float], None]
"""Receives the seconds done."""


class Passes:
    """Drives that are evaluated repeatedly; they are sent to an executor only once."""

    def __init__(self, drives: Sequence[ScoredDrive], executor: SharingExecutor | None) -> None:
        self._drives, self._executor = drives, executor
        self._shared = [] if executor is None else [executor.share(drive) for drive in drives]

    def run(self, work: Callable[..., R], progress: Seconds) -> list[R]:
        """Results of `work` per drive, in order; its second argument receives the seconds done, or is None.

        `work` must be importable (or a partial of an importable function). Raises its errors.
        """
        done = 0.0
        if self._executor is None:
            results = []
            for drive in self._drives:
                results.append(work(drive, lambda seconds, begun=done: progress(begun + seconds)))
                done += drive.length
            return results
        futures = [self._executor.submit(work, shared) for shared in self._shared]
        try:
            for future in as_completed(futures):
                future.result()
                done += self._drives[futures.index(future)].length
                progress(done)
        finally:
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]
