"""An open serial port, USB adapter or pseudo-terminal: 8 data bits, no parity, 1 stop bit, read up to a rate."""

import contextlib
import os
import select
import termios
import time
from collections.abc import Callable

import serial

from vehicled.token_bucket import TokenBucket

_CHUNK = 4096
"""Bytes: what the kernel keeps of a line."""
_BURST_S = 0.1
_REST_S = 0.005
"""Pause of the reading thread once a line carries too much: so it is woken seldom."""
_WRITE_WITHIN_S = 0.5


class SerialLine:
    """Bytes from a device and to it, for this program alone. What comes beyond a rate is discarded."""

    def __init__(self, path: str, baud: int, most: float, discarded: Callable[[int], None]) -> None:
        """Open the port. Raises OSError.

        baud: bits per second. most: bytes per second that are taken. discarded: gets the number of others.
        """
        # The path is resolved afresh each time, so a device that comes back under its stable name is found.
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=_WRITE_WITHIN_S, exclusive=True)
        except (ValueError, termios.error) as error:  # a baud rate that pyserial rejects; a port just lost
            raise OSError(f"{path}: {error}") from None
        with contextlib.suppress(OSError, ValueError, NotImplementedError):  # not every port can
            self._port.set_low_latency_mode(True)  # USB adapters otherwise hold bytes back for 16 ms
        self._bucket = TokenBucket(most, _BURST_S * most)
        self._discarded = discarded

    def read(self, timeout: float) -> bytes:
        """What has come, or comes first within `timeout`, s; empty if nothing does, or more than is taken.

        Raises OSError if the line is gone.
        """
        if not select.select([self._port.fileno()], [], [], timeout)[0]:
            return b""
        data = os.read(self._port.fileno(), _CHUNK)
        if not data:
            raise OSError(f"{self._port.port}: hung up")
        if self._bucket.take(time.monotonic_ns(), len(data)):
            return data
        self._discarded(len(data))
        time.sleep(_REST_S)
        return b""

    def write(self, data: bytes) -> None:
        """Send bytes. Raises OSError if the line is gone, or does not take them."""
        self._port.write(data)

    def close(self) -> None:
        """Close the port. Raises OSError if the line is gone."""
        self._port.close()
