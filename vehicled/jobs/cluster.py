"""Jobs on a Dask cluster (extra `cluster`), whose scheduler distributes them to workers on any machine."""

from __future__ import annotations

import pickle
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from vehicled.errors import UsageError
from vehicled.jobs.failures import ExecutorError, WorkerLostError
from vehicled.jobs.installation import Installation, describe_installation
from vehicled.jobs.interface import SharingExecutor

if TYPE_CHECKING:
    import distributed

P = ParamSpec("P")
R = TypeVar("R")

_CONNECT_S = 10.0
"""s: timeout for the connection, and then for the first worker."""
_CHECK_S = 1.0
"""s between two checks whether the cluster has been left."""
_WITHOUT_WORKERS_S = 60.0
"""s after which a cluster without workers counts as lost."""

_ONE_AT_A_TIME = threading.Lock()
"""A worker may have several threads, but a job needs a process for itself, as everywhere."""


class _Outcome(NamedTuple):
    """Result of a job, and information on its worker."""

    result: Any
    worker: str
    threads: int
    processor: str


class _Job(NamedTuple):
    future: Future[Any]
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    alone: bool = False
    """Whether no other job was running when it was started."""


class Cluster(SharingExecutor):
    """The workers of a Dask scheduler. A context manager: leaving it cancels the jobs that have not started.

    Jobs of a worker that is killed are started again on others, as often as the scheduler permits (its
    setting `distributed.scheduler.allowed-failures`, 3). The scheduler counts that for all jobs of a worker,
    including waiting ones. Therefore jobs that have reached the number are started once more, one by one when
    all others are done. This shows which of them kill their workers; these are a WorkerLostError.
    """

    def __init__(self, address: str, note: Callable[[str], None] = lambda _: None) -> None:
        """`address` of the scheduler, such as tcp://host:8786; TLS by Dask's own settings `distributed.comm.tls`.

        `note` receives remarks on the workers for the user. Raises UsageError without the extra `cluster`,
        and ExecutorError if there is no scheduler, or none with workers.
        """
        if find_spec("distributed") is None:
            raise UsageError("--scheduler: needs the extra `cluster`: pip install 'vehicled[cluster]'")
        import distributed

        if (
            address.startswith("tls:")
            and distributed.Security().get_connection_args("client")["ssl_context"] is None
        ):
            raise UsageError(
                f"--scheduler {address}: expected certificates in Dask's settings `distributed.comm.tls`"
            )
        self._address, self._note = address, note
        self._noted: set[str] = set()
        self._installation = describe_installation()
        self._pending: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._running = 0
        self._suspects: deque[_Job] = deque()
        self._ended = threading.Event()
        try:
            with warnings.catch_warnings():
                # Warnings about other versions; `describe_installation` compares those that matter.
                warnings.simplefilter("ignore")
                self._client = distributed.Client(
                    address, timeout=_CONNECT_S, set_as_default=False, name="vehicled"
                )
        except (OSError, ValueError, RuntimeError) as error:
            raise ExecutorError(f"{address}: no Dask scheduler: {error}") from None
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_S)
        except TimeoutError:
            self._client.close()
            raise ExecutorError(f"{address}: the scheduler has no workers; expected at least one") from None
        threading.Thread(target=self._watch, name="cluster", daemon=True).start()

    @property
    def workers(self) -> int:
        """Present number of workers."""
        return len(self._client.nthreads())

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a job. `fn` must be importable on scheduler and workers; arguments may be results of `share`."""
        job = _Job(Future(), partial(fn, **kwargs), args)
        self._pending.add(job.future)
        job.future.add_done_callback(self._pending.discard)
        self._begin(job)
        return job.future

    def share(self, value: Any) -> Any:
        """An argument for `submit` that replaces the value, which is sent once.

        It is the result of a task, which the scheduler repeats if the worker that has it is killed.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            return self._client.submit(pickle.loads, pickle.dumps(value), pure=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, which continues; without `wait`, results of running jobs are discarded."""
        if wait and not cancel_futures:
            for future in tuple(self._pending):
                future.exception()
        self._ended.set()
        self._client.close()

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=False)

    def _begin(self, job: _Job) -> None:
        with self._lock:
            self._running += 1
        remote = self._client.submit(_work, self._installation, job.fn, *job.args, pure=False)
        job.future.add_done_callback(lambda future: remote.cancel() if future.cancelled() else None)
        remote.add_done_callback(partial(self._finish, job))

    def _finish(self, job: _Job, remote: distributed.Future[Any]) -> None:
        """Finish a job, in a thread of the client."""
        outcome: _Outcome | None = None
        failure: BaseException | None = None
        try:
            if self._ended.is_set() or remote.cancelled():
                raise CancelledError
            outcome = self._receive(remote)
        except BaseException as error:  # includes CancelledError
            failure = self._translate(error)
        suspected = isinstance(failure, WorkerLostError) and not job.alone
        following = None
        with self._lock:
            self._running -= 1
            if suspected:
                self._suspects.append(job._replace(alone=True))
            if self._running == 0 and self._suspects:
                following = self._suspects.popleft()
        if following is not None:
            self._begin(following)
        if not suspected:
            self._settle(job.future, outcome, failure)

    def _receive(self, remote: distributed.Future[Any]) -> _Outcome:
        """Outcome of a job that has ended, or is repeated because its worker was killed with the result.

        Raises the job's error, or CancelledError when the cluster is left: all clusters of a process share
        this thread, which must not wait for ever.
        """
        while True:
            try:
                outcome: _Outcome = remote.result(_CHECK_S)
                return outcome
            except TimeoutError:
                if remote.status == "error":  # raised by the job
                    raise
                if self._ended.is_set():
                    raise CancelledError from None

    def _settle(self, future: Future[Any], outcome: _Outcome | None, failure: BaseException | None) -> None:
        if future.done() or not future.set_running_or_notify_cancel():
            return
        if outcome is None:
            future.set_exception(failure)
            return
        for note in list_notes(outcome, self._installation):
            if note not in self._noted:
                self._noted.add(note)
                self._note(note)
        future.set_result(outcome.result)

    def _translate(self, error: BaseException) -> BaseException:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return WorkerLostError()
        if isinstance(error, CancelledError):
            return ExecutorError(f"{self._address}: the scheduler has gone")
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ModuleNotFoundError):
                return ExecutorError(
                    f"{self._address}: {cause}; expected the same packages on scheduler and workers"
                )
            cause = cause.__cause__
        return error

    def _watch(self) -> None:
        """Check for workers, in a separate thread: without workers the jobs would wait for ever."""
        seen = time.monotonic()
        while not self._ended.wait(1.0):
            try:
                count = self.workers
            except Exception:
                continue  # the connection is lost: the jobs end with that error
            if count:
                seen = time.monotonic()
            elif time.monotonic() - seen > _WITHOUT_WORKERS_S:
                for future in tuple(self._pending):
                    if not future.done() and future.set_running_or_notify_cancel():
                        future.set_exception(ExecutorError(f"{self._address}: all workers have gone"))
                return


def list_notes(outcome: _Outcome, here: Installation) -> list[str]:
    """Remarks on a worker for the user."""
    notes = []
    if outcome.threads > 1:
        notes.append(
            f"{outcome.worker} has {outcome.threads} threads and runs one job at a time: "
            f"`dask worker --nworkers {outcome.threads} --nthreads 1` uses all of its processors"
        )
    if outcome.processor != here.processor:
        notes.append(
            f"{outcome.worker} has another kind of processor: last digits may differ from those of this machine"
        )
    return notes


def _work(client: Installation, fn: Callable[..., Any], *args: Any) -> _Outcome:
    """Run a job on a worker. Raises ExecutorError if it has another version of the program."""
    from distributed import get_worker

    worker = get_worker()
    here = describe_installation()
    if difference := client.find_difference(here):
        raise ExecutorError(f"{worker.address}: {difference}")
    with _ONE_AT_A_TIME:
        return _Outcome(fn(*args), worker.address, worker.state.nthreads, here.processor)
