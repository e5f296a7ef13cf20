"""The default executor: processes of this machine."""

from __future__ import annotations

import pickle
import signal
import tempfile
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from vehicled.jobs.failures import WorkerLostError
from vehicled.jobs.interface import SharingExecutor

P = ParamSpec("P")
R = TypeVar("R")

RETRIES = 3
"""How often a job is started again after its process was killed: as often as Dask's schedulers do by default."""

# Not by fork, which would copy the numerical libraries with their threads in an undefined state.
_CONTEXT = get_context("spawn")


class LocalProcesses(ThreadPoolExecutor, SharingExecutor):
    """At most a given number of processes that share nothing with this one, each with one job at a time.

    So it is known which job a process had when it was killed: that job is started again in another process,
    RETRIES times, and is then a WorkerLostError. `concurrent.futures.ProcessPoolExecutor` would end all jobs.

    A context manager: leaving it ends the processes, whatever they do.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._idle: list[_Process] = []
        self._running: set[_Process] = set()
        self._ended = False
        self._shared = tempfile.TemporaryDirectory(prefix="vehicled-")

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a job. `fn` must be importable; it, its arguments and its result are sent between processes."""
        return super().submit(self._call, partial(_resolve, fn, *args, **kwargs))

    def share(self, value: Any) -> Any:
        """An argument for `submit` that replaces the value, which is sent through a file."""
        with tempfile.NamedTemporaryFile(dir=self._shared.name, delete=False) as file:
            pickle.dump(value, file)
        return _Shared(file.name)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; without `wait` at once, including running jobs."""
        if wait:
            super().shutdown(wait, cancel_futures=cancel_futures)
        self._ended = True
        super().shutdown(wait=False, cancel_futures=True)
        for process in (*self._running, *self._idle):
            process.end()
        self._shared.cleanup()

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=False)

    def _call(self, work: Callable[[], R]) -> R:
        """Run a job, in one of the threads; there is one for each process."""
        content = pickle.dumps(work)
        for _ in range(1 + RETRIES):
            process = self._take()
            self._running.add(process)
            try:
                if self._ended:
                    break
                outcome = process.call(content)
            except (EOFError, OSError):
                continue
            finally:
                self._running.discard(process)
                if self._ended:
                    process.end()
            self._idle.append(process)
            value, raised = pickle.loads(outcome)
            if raised is not None:
                raise value from _RemoteError(raised)
            result: R = value
            return result
        raise CancelledError if self._ended else WorkerLostError

    def _take(self) -> _Process:
        try:
            return self._idle.pop()
        except IndexError:
            return _Process()


class _Shared(NamedTuple):
    """A value in a file."""

    path: str


@lru_cache(maxsize=4)
def _load(shared: _Shared) -> Any:
    """Load a shared value; the most recent ones are kept, as a process often needs the same ones again."""
    return pickle.loads(Path(shared.path).read_bytes())


def _resolve(fn: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Call a function with shared values loaded, in a process of the executor."""
    return fn(*(_load(a) if isinstance(a, _Shared) else a for a in args), **kwargs)


class _RemoteError(Exception):
    """Place in the other process at which an exception was raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class _Process:
    """One process, and the connection to it."""

    def __init__(self) -> None:
        self._connection, theirs = _CONTEXT.Pipe()
        # Not a daemon process: jobs may start processes of their own.
        self._process = _CONTEXT.Process(target=_serve, args=(theirs,))
        self._process.start()
        theirs.close()

    def call(self, work: bytes) -> bytes:
        """Send work, and return the pickled outcome. Raises EOFError or OSError if the process ends."""
        self._connection.send_bytes(work)
        return self._connection.recv_bytes()

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.terminate()


def _serve(connection: Connection) -> None:
    """Main function of such a process: it does jobs until the other process is gone."""
    # Ctrl-C reaches all processes of a terminal; the first one ends the others. A handler, unlike SIG_IGN, is
    # not passed on to programs that a job starts.
    signal.signal(signal.SIGINT, lambda *_: None)
    while True:
        try:
            content = connection.recv_bytes()
        except EOFError:
            return
        outcome = _work(content)
        try:
            connection.send_bytes(outcome)
        except OSError:
            return


def _work(content: bytes) -> bytes:
    """Pickled outcome: a result and None, or an exception and where it was raised."""
    outcome: tuple[Any, str | None]
    try:
        outcome = pickle.loads(content)(), None
        return pickle.dumps(outcome)
    except Exception as error:
        outcome = error, traceback.format_exc()
    try:
        packed = pickle.dumps(outcome)
        pickle.loads(packed)  # not all exceptions can be unpickled
    except Exception:
        return pickle.dumps((RuntimeError(repr(outcome[0])), outcome[1]))
    return packed
