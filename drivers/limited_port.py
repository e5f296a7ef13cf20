"""A port that is read up to a rate."""

import time
from collections.abc import Callable

from drivers.ports import is_network, open_port
from vehicled.trust.token_bucket import TokenBucket

_BURST_S = 0.1
_NETWORK_BURST_S = 0.5
"""What has come while the reading thread was not running, as time at the full rate: the kernel keeps more of it for a
connection than for a serial port."""
_DATAGRAM = 50
"""Bytes that a shorter datagram counts as: to receive it takes as long as those. That leaves 4000 a second."""
_REST_S = 0.005
"""Pause of the reading thread once a line carries too much: so it is woken seldom."""

_MOST_WAITING = 16 << 20
"""Bytes: more than any line keeps, so that one that carries too much is not read for ever."""


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
        """What has come, or comes first within `wait_s`; empty if nothing does, or more than is taken.

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
