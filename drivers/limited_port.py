"""A port that is read up to a rate."""

import time
from collections.abc import Callable

from drivers.ports import is_network, open_port
from vehicled.trust.token_bucket import TokenBucket

_BURST_S = 0.1
_NETWORK_BURST_S = 0.5
"""Burst accepted from a network while the reading thread was not running, as time at the full rate: the
kernel buffers more for a connection than for a serial port."""
_DATAGRAM = 50
"""Bytes that a shorter datagram counts as, since receiving it takes as long. This limits datagrams to 4000
per second."""
_REST_S = 0.005
"""Pause of the reading thread while a line carries too much, so that it wakes seldom."""

_MOST_WAITING = 16 << 20
"""Bytes discarded at most: more than any line buffers, so that reading a flooded line ends."""


class LimitedPort:
    """Bytes from a device and to it. What comes beyond a rate is discarded."""

    def __init__(self, port: str, baud: int, most: float, discarded: Callable[[int], None]) -> None:
        """Open a port (see `drivers.ports`). Raises OSError.

        baud: bits per second. most: bytes per second that are taken. discarded: gets the number of others.
        """
        self._port = open_port(port, baud)
        self._bucket = TokenBucket(most, most * (_NETWORK_BURST_S if is_network(port) else _BURST_S))
        self._discarded = discarded

    def read(self, wait_s: float) -> bytes:
        """Waiting bytes, or the first that come within `wait_s`; empty if none come, or if they exceed the rate.

        Raises OSError if the device is gone.
        """
        data = self._port.read(wait_s)
        cost = max(len(data), _DATAGRAM * self._port.datagrams)
        if not cost or self._bucket.take(time.monotonic_ns(), cost):
            return data
        self._discarded(len(data))
        time.sleep(_REST_S)
        return b""

    def discard_waiting(self) -> int:
        """Discard what has come so far; returns how many bytes. Raises OSError if the device is gone."""
        count = 0
        while count < _MOST_WAITING and (data := self._port.read(0.0)):
            count += len(data)
        return count

    def write(self, data: bytes) -> None:
        """Send bytes. Raises OSError if the device is gone, or does not take them."""
        self._port.write(data)

    def close(self) -> None:
        """Close the port. Raises OSError if the device is gone."""
        self._port.close()
