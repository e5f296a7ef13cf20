"""The daemon in a process of its own, observed from outside: its end, its processor time, its memory, its status."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import msgspec
import zmq

from vehicled.errors import RunError, UsageError

RUN = ("vehicled", "run", "--config")
"""Module and arguments of the daemon, before its configuration file."""

_END_WITHIN_S = 20.0
_PRIORITY = 20
"""As in the service's unit: below the estimator's thread, above everything ordinary."""
_ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""As in the service's unit, unless the caller's environment says otherwise."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class DaemonProcess:
    """`vehicled run`, with the scheduling of the service where permitted. A context manager.

    Leaving it ends the daemon in order, so that its recording is complete. If this program ends, so does the daemon.
    """

    def __init__(
        self, configuration: Path, command_endpoint: str, log: Path, module: tuple[str, ...] = RUN
    ) -> None:
        """Start it. log: file for what it prints. module: another one to run in its place, with its arguments."""
        self._log = log
        self._command = [sys.executable, "-m", *module, str(configuration)]
        self._command_endpoint = command_endpoint
        log.write_bytes(b"")
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        # First, as it raises for a path that is too long: the process would be left running.
        self._connect()
        self._start()

    def _connect(self) -> None:
        self._commands = self._context.socket(zmq.REQ)
        self._commands.linger = 0
        self._commands.connect(self._command_endpoint)
        self._asked = False

    def _start(self) -> None:
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_ENVIRONMENT | os.environ,
                preexec_fn=_end_with_parent,
            )
        # If only the estimator had it, it would wait for whichever thread has the interpreter, and that one for the
        # other programs on this machine.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(self._process.pid, os.SCHED_FIFO, os.sched_param(_PRIORITY))

    def restart(self, after: float) -> None:
        """Kill it without warning, and start it again `after` so many seconds, as a service manager does."""
        self._process.kill()
        self._process.wait()
        self._commands.close()
        time.sleep(after)
        self._connect()
        self._start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def check(self) -> None:
        """Raises UsageError or RunError with the last line that it printed if it has ended."""
        status = self._process.poll()
        if status is not None:
            raise self._failure(status)

    def poll_status(self, seconds: float) -> dict[str, Any] | None:
        """The last `status` message, if a reply comes within so many seconds and there is one. Raises as `check`."""
        self.check()
        if not self._asked:
            self._commands.send(b'{"command": "status"}')
            self._asked = True
        if not self._commands.poll(round(seconds * 1e3)):
            return None
        reply = msgspec.json.decode(self._commands.recv())
        self._asked = False
        return reply["status"] if reply["ok"] else None

    def get_cpu_seconds(self) -> float:
        """Processor time of all its threads so far, s."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def get_memory(self) -> int:
        """Resident memory, bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """End it in order. Raises RunError if it did not end so; harmless if called again."""
        self._context.destroy(linger=0)
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        # After Ctrl-C, which reaches it too, it may get the second signal once it has stopped handling them.
        if self._process.returncode not in (0, -signal.SIGTERM):
            raise self._failure(self._process.returncode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.ExitStack() as stack:
            if kind is not None:  # the first error is the one to report
                stack.enter_context(contextlib.suppress(RunError, UsageError))
            self.stop()

    def _failure(self, status: int) -> RunError | UsageError:
        lines = self._log.read_text(errors="replace").splitlines()
        if lines and lines[-1].startswith("vehicled: "):
            return (UsageError if status == 2 else RunError)(lines[-1].removeprefix("vehicled: "))
        return RunError(f"the daemon ended unexpectedly, status {status}; see {self._log}")


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
