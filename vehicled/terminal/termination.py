"""SIGTERM, by which job schedulers, `timeout` and service managers end a process: with the order of Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM has come. What is done about Ctrl-C is done about it."""


@contextmanager
def raising_terminated() -> Iterator[None]:
    """Within it, in the main thread, SIGTERM raises Terminated, unless it is handled or ignored already."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_by_sigterm() -> None:
    """End this process by the signal that it has had, so that whoever sent it sees that."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
