"""Signals as events that the main thread waits for, whichever thread the kernel delivers them to."""

import contextlib
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self

from vehicled.terminal.termination import Terminated

_TAKEN = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""In the order in which they are returned: signals that end the program come first."""
_READ = 4096
"""Bytes per read: more than the kernel keeps."""


class Signals:
    """While entered, in the main thread, SIGTERM, SIGINT and SIGHUP do not interrupt; `wait` returns them.

    As in the kernel, a signal that comes several times before `wait` counts once; others are not lost.
    """

    def __enter__(self) -> Self:
        self._caught: set[int] = set()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # Python's own handler, in C, writes a byte to this socket at once, which ends a wait. If the socket
        # is full, it already has bytes that end the wait. Our handler notes which signals have come.
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._handlers_before: dict[signal.Signals, Any] = {s: signal.signal(s, self._note) for s in _TAKEN}
        self._mask_before = signal.pthread_sigmask(signal.SIG_UNBLOCK, _TAKEN)
        return self

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float) -> signal.Signals | None:
        """Return the next signal, or None after so many seconds without one."""
        end = time.monotonic() + seconds
        while True:
            for number in _TAKEN:
                if number in self._caught:
                    self._caught.remove(number)
                    return number
            ready, _, _ = select.select([self._reader], [], [], max(end - time.monotonic(), 0.0))
            if not ready:
                return None
            with contextlib.suppress(BlockingIOError):
                self._reader.recv(_READ)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._caught.add(number)


@contextlib.contextmanager
def hold_reload() -> Iterator[None]:
    """While entered, the kernel holds back SIGHUP until `Signals` is entered: it would end a starting process.

    For a process without other threads; threads that start meanwhile block it as well.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_as_daemon(run: Callable[[], int]) -> int:
    """Exit status of `run`, which enters `Signals`; 0 if SIGTERM comes earlier, as while a model compiles."""
    with hold_reload():
        try:
            return run()
        except Terminated:
            print("vehicled: SIGTERM: ending", file=sys.stderr)
            return 0
