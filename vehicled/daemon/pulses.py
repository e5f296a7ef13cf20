"""Pulses per second of a GNSS receiver, as the kernel has timed them."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path

from vehicled.daemon.utc import read_host_offset

_log = logging.getLogger(__name__)

_KERNEL = Path("/sys/class/pps")
_ASSERT = re.compile(rb"(\d{1,12})\.(\d{9})#(\d{1,20})\s*")
"""Time of the last rising edge by the host's time of day, and the edge's number."""
_LONGEST = 64
"""Largest length of such a line, bytes."""
_EVERY_S = 0.2
"""Time between two readings, short because the time of day may be adjusted between a pulse and its
reading."""
_JOIN_S = 2.0


class PulseReader:
    """Reads a source of pulses in its own thread, and passes the times of pulses on."""

    def __init__(self, name: str, take: Callable[[int], None], kernel: Path = _KERNEL) -> None:
        """`name`: such as `pps0`; `take` receives the times of pulses on the monotonic clock, ns."""
        self._path, self._take = kernel / name / "assert", take
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulses", daemon=True)
        self._number: bytes | None = None
        """Number of the last pulse."""
        self._fault: str | None = None

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._ending.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._ending.wait(_EVERY_S):
            self.read()

    def read(self) -> None:
        """Pass the last pulse on if it is new. A fault is logged once."""
        fault = None
        try:
            with self._path.open("rb") as file:
                line = file.read(_LONGEST)
        except OSError as error:
            fault = f"{self._path}: {error.strerror}"
        else:
            found = _ASSERT.fullmatch(line)
            if found is None:
                fault = f"{self._path}: expected seconds.nanoseconds#number, got {line!r}"
            else:
                self._note(*found.groups())
        if fault is not None and fault != self._fault:
            _log.warning("no pulses per second: %s", fault)
        self._fault = fault

    def _note(self, seconds: bytes, nanoseconds: bytes, number: bytes) -> None:
        # The first pulse that is read may be of any age.
        is_new, self._number = self._number not in (None, number), number
        if is_new:
            self._take(int(seconds) * 1_000_000_000 + int(nanoseconds) - read_host_offset())
