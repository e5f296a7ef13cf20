"""Functions that worker processes import and run; and a Dask cluster of two workers."""

import os
import signal
import time
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from vehicled.errors import UsageError


class Here(Executor):
    """Runs jobs at once in this process, for tests that need no worker processes: each takes seconds to start."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def square(n: int) -> dict[str, int]:
    return {"n": n, "square": n * n, "process": os.getpid()}


def get_n(row: dict[str, Any]) -> int:
    return int(row["n"])


def die(n: int) -> None:
    """End like a process that the system kills for lack of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(folder: str, n: int) -> dict[str, int]:
    """Number 3 dies the first time."""
    begun = Path(folder) / f"{n}-{len(list(Path(folder).glob(f'{n}-*')))}"
    begun.touch()
    if begun.name == "3-0":
        die(n)
    return square(n)


def die_by_number(n: int) -> dict[str, int]:
    """Odd numbers die each time."""
    if n % 2:
        die(n)
    return square(n)


def refuse(n: int) -> None:
    raise UsageError(f"not {n}")


class UnpicklableError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} {two}")


def fail_oddly(n: int) -> None:
    raise UnpicklableError(n, n)


def square_slowly(n: int) -> dict[str, int]:
    time.sleep(0.1)
    return square(n)


def leave_mark(folder: str, n: int) -> int:
    (Path(folder) / str(n)).touch()
    time.sleep(0.2)
    return n


def start_cluster(workers: int = 2) -> Any:
    """A cluster as a context manager, with `scheduler_address`. Dask is an optional dependency."""
    import dask
    import distributed

    # Otherwise Dask gives up a killed worker after 15 s, although the worker is restarting.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"})
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    )
