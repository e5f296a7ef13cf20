"""The same work on a Dask cluster (extra `cluster`), whose scheduler gives the jobs to workers anywhere."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from vehicled.errors import RunError, UsageError
from vehicled.jobs.lost import WorkerLostError
from vehicled.jobs.program import Program, describe_program

if TYPE_CHECKING:
    import distributed

P = ParamSpec("P")
R = TypeVar("R")

_CONNECT_S = 10.0
"""For the connection, and then for the first worker."""
_WITHOUT_WORKERS_S = 60.0
"""A cluster without workers for so long has none any more."""

_ONE_AT_A_TIME = threading.Lock()
"""A worker may have several threads; a job has a process for itself, as everywhere."""


class _Answer(NamedTuple):
    """Result of a job, and what is to be known of its worker."""

    result: Any
    worker: str
    threads: int
    processor: str


class Cluster(Executor):
    """The workers of a Dask scheduler. A context manager: leaving it cancels the jobs that have not begun.

    Jobs of a worker that is killed are begun again on others, as often as the scheduler permits (its setting
    `distributed.scheduler.allowed-failures`), and are a WorkerLostError then.
    """

    def __init__(self, address: str, note: Callable[[str], None] = lambda _: None) -> None:
        """`address` of the scheduler, such as tcp://host:8786; TLS by Dask's own settings `distributed.comm.tls`.

        `note` receives what a user should know of the workers. Raises UsageError without the extra `cluster`, and
        RunError where there is no scheduler, or none with workers.
        """
        if find_spec("distributed") is None:
            raise UsageError("--scheduler: needs the extra `cluster`: pip install 'vehicled[cluster]'")
        import distributed

        self._address, self._note = address, note
        self._noted: set[str] = set()
        self._program = describe_program()
        self._pending: set[Future[Any]] = set()
        self._ended = threading.Event()
        try:
            with warnings.catch_warnings():
                # Of other versions; what matters of them is in `describe_program`.
                warnings.simplefilter("ignore")
                self._client = distributed.Client(
                    address, timeout=_CONNECT_S, set_as_default=False, name="vehicled"
                )
        except (OSError, ValueError, RuntimeError) as error:
            raise RunError(f"{address}: no Dask scheduler: {error}") from None
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_S)
        except TimeoutError:
            self._client.close()
            raise RunError(f"{address}: the scheduler has no workers; expected at least one") from None
        threading.Thread(target=self._watch, name="cluster", daemon=True).start()

    @property
    def workers(self) -> int:
        """How many there are now."""
        return len(self._client.nthreads())

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """`fn` must be importable on scheduler and workers."""
        outer: Future[R] = Future()
        self._pending.add(outer)
        inner = self._client.submit(_work, self._program, partial(fn, *args, **kwargs), pure=False)
        outer.add_done_callback(partial(self._cancel, inner))
        inner.add_done_callback(partial(self._finish, outer))
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, which remains; without `wait` what runs there ends without anyone to receive it."""
        if wait and not cancel_futures:
            for future in tuple(self._pending):
                future.exception()
        self._ended.set()
        self._client.close()

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=False)

    def _cancel(self, inner: distributed.Future[Any], outer: Future[Any]) -> None:
        self._pending.discard(outer)
        if outer.cancelled():
            inner.cancel()

    def _finish(self, outer: Future[Any], inner: distributed.Future[Any]) -> None:
        """In a thread of the client."""
        if outer.done() or not outer.set_running_or_notify_cancel():
            return
        try:
            answer: _Answer = inner.result()
        except BaseException as error:  # a CancelledError too
            outer.set_exception(self._translate(error))
            return
        for note in answer_notes(answer, self._program):
            if note not in self._noted:
                self._noted.add(note)
                self._note(note)
        outer.set_result(answer.result)

    def _translate(self, error: BaseException) -> BaseException:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return WorkerLostError()
        if isinstance(error, CancelledError):
            return RunError(f"{self._address}: the scheduler has gone")
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ModuleNotFoundError):
                return RunError(f"{self._address}: {cause}; expected this program on scheduler and workers")
            cause = cause.__cause__
        return error

    def _watch(self) -> None:
        """In a thread of its own: without workers the jobs would wait for ever."""
        seen = time.monotonic()
        while not self._ended.wait(1.0):
            try:
                count = self.workers
            except Exception:
                continue  # the connection is lost, which the jobs say
            if count:
                seen = time.monotonic()
            elif time.monotonic() - seen > _WITHOUT_WORKERS_S:
                for future in tuple(self._pending):
                    if not future.done() and future.set_running_or_notify_cancel():
                        future.set_exception(RunError(f"{self._address}: all workers have gone"))
                return


def answer_notes(answer: _Answer, here: Program) -> list[str]:
    """What a user should know of a worker."""
    notes = []
    if answer.threads > 1:
        notes.append(
            f"{answer.worker} has {answer.threads} threads and runs one job at a time: "
            f"`dask worker --nworkers {answer.threads} --nthreads 1` uses all of its processors"
        )
    if answer.processor != here.processor:
        notes.append(
            f"{answer.worker} has another kind of processor: last digits may differ from those of this machine"
        )
    return notes


def _work(program: Program, work: Callable[[], Any]) -> _Answer:
    """On a worker. Raises RunError where it has another version of the program."""
    from distributed import get_worker

    worker = get_worker()
    here = describe_program()
    if difference := program.find_difference(here):
        raise RunError(f"{worker.address}: {difference}")
    with _ONE_AT_A_TIME:
        return _Answer(work(), worker.address, worker.state.nthreads, here.processor)
