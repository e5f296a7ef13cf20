"""Writes log lines to stderr in a thread of its own: a slow terminal or journal never blocks the estimator."""

import logging
import os
import queue
import sys
import time
from logging.handlers import QueueHandler, QueueListener

_BACKLOG = 1000

_JOURNAL_PRIORITY = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


class _BoundedHandler(QueueHandler):
    """Drops lines when the backlog is full."""

    dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Listener(QueueListener):
    """Ends after the last line, even if the queue is full at that time."""

    def enqueue_sentinel(self) -> None:
        self.queue.put(None)  # type: ignore[attr-defined]


class _JournalFormatter(logging.Formatter):
    """The journal adds time and process itself, and takes the priority from the start of every line."""

    def format(self, record: logging.LogRecord) -> str:
        priority = f"<{_JOURNAL_PRIORITY.get(record.levelno, 6)}>"
        return "\n".join(priority + line for line in super().format(record).splitlines())


class _TerminalFormatter(logging.Formatter):
    """With times in UTC, as in the names of recordings."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class Logging:
    """While entered, all log records go to stderr."""

    def __init__(self, level: int) -> None:
        backlog: queue.Queue[logging.LogRecord] = queue.Queue(_BACKLOG)
        self._handler = _BoundedHandler(backlog)
        output = logging.StreamHandler(sys.stderr)
        if "JOURNAL_STREAM" in os.environ:
            output.setFormatter(_JournalFormatter("%(name)s: %(message)s"))
        else:
            output.setFormatter(_TerminalFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        self._listener = _Listener(backlog, output)
        self._level = level

    @property
    def dropped(self) -> int:
        """Lines lost because they came faster than they could be written."""
        return self._handler.dropped

    def __enter__(self) -> "Logging":
        logging.root.addHandler(self._handler)
        self._level_before = logging.root.level
        logging.root.setLevel(self._level)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        logging.root.removeHandler(self._handler)
        logging.root.setLevel(self._level_before)
        self._listener.stop()
