"""Signals as events that the main thread waits for, whichever thread the kernel delivers them to."""

import contextlib
import select
import signal
import socket
import time
from types import FrameType
from typing import Any, Self

_TAKEN = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """While entered, in the main thread: SIGTERM, SIGINT and SIGHUP interrupt nothing; `wait` returns them."""

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # Python's own handler, in C, writes the number here at once; ours has nothing to do.
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._handlers_before: dict[signal.Signals, Any] = {s: signal.signal(s, _ignore) for s in _TAKEN}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float) -> signal.Signals | None:
        """The next signal, or None after so many seconds without one."""
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self._reader], [], [], max(end - time.monotonic(), 0.0))
            if not ready:
                return None
            with contextlib.suppress(BlockingIOError):
                number = self._reader.recv(1)[0]
                if number in _TAKEN:
                    return signal.Signals(number)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass
