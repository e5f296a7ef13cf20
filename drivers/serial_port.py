"""Devices that send bytes: on serial ports, USB adapters and pseudo-terminals, and over TCP and UDP."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from drivers.base import Driver, Latency
from drivers.framing import FrameDecoder
from drivers.limited_port import LimitedPort
from drivers.ports import check_baud, check_port
from vehicled.messages import Measurement
from vehicled.units import Positive

_WAIT_S = 0.02
_BITS_PER_BYTE = 10  # with start and stop bit
_LEAST_RATE = 2_000_000
"""Least limit of the rate of reading, bits/s: adapters that are USB devices themselves ignore the baud
rate."""


@dataclass(frozen=True, kw_only=True)
class SerialOptions:
    """Options of all devices that send bytes."""

    port: str
    """Path of the device; best a stable one (`/dev/serial/by-id/…` or from a udev rule). Over a network
    `socket://HOST:PORT` (TCP, where the device is the server) or `udp://[ADDRESS]:PORT` (of this machine)."""
    baud: Annotated[int, Positive] = 115200
    """Bits per second of a serial port. From any line, bytes are read up to this rate or 2 Mbit/s, whichever
    is larger; bytes beyond it are discarded."""
    latency: Latency = 0.0
    """Least time from measurement to the arrival of the message, s: filtering in the device, transmission."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong): a port that is no path and no complete URL, a rate that serial ports lack."""
        if wrong := check_port(self.port):
            yield "port", wrong
        elif wrong := check_baud(self.port, self.baud):
            yield "baud", wrong


def nanoseconds(seconds: float) -> int:
    """Seconds as integer nanoseconds, rounded."""
    return round(seconds * 1e9)


class SerialDriver(Driver):
    """Reads a port into the decoder that the subclass names."""

    def __init__(
        self, name: str, options: SerialOptions, emit: Callable[[Measurement], None], decoder: FrameDecoder
    ) -> None:
        super().__init__(name, options, emit)
        self.decoder: FrameDecoder = decoder
        self._line: LimitedPort | None = None
        self._writing = threading.Lock()
        """Held while writing, when the port must not be closed: its descriptor could then be another
        file's."""

    @property
    def port(self) -> str:
        """As configured."""
        port: str = self.options.port
        return port

    def write(self, data: bytes) -> None:
        """Send bytes to the device, from any thread. Raises OSError if it is not open or does not take them."""
        with self._writing:
            if self._line is None:
                raise OSError(f"{self.options.port} is not open")
            self._line.write(data)

    def _open(self) -> None:
        o: SerialOptions = self.options
        self._line = LimitedPort(o.port, o.baud, max(o.baud, _LEAST_RATE) / _BITS_PER_BYTE, self._discarded)

    def _receive(self) -> tuple[bool, list[Measurement]]:
        assert self._line is not None
        data = self._line.read(_WAIT_S)
        return bool(data), self.decoder.feed(data, time.monotonic_ns())

    def _discard_waiting(self) -> int:
        assert self._line is not None
        return self._line.discard_waiting()

    def _close(self) -> None:
        with self._writing:
            line, self._line = self._line, None
        if line is not None:
            line.close()
