"""Devices that send bytes: on serial ports, USB adapters and pseudo-terminals, and over TCP and UDP."""

import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

from drivers.base import Driver
from drivers.framing import FrameDecoder
from drivers.ports import Port, check_port, is_network, open_port
from vehicled.messages import Measurement
from vehicled.token_bucket import TokenBucket
from vehicled.units import NonNegative, Positive, Seconds

_WAIT_S = 0.02
_BITS_PER_BYTE = 10  # with start and stop bit
_LEAST_LINE = 2_000_000
"""Bits per second that are read at least: adapters that are USB devices themselves keep to no baud rate."""
_BURST_S = 0.1
_NETWORK_BURST_S = 0.5
"""What has come while the reading thread was not running, as time at the full rate: the kernel keeps more of it for a
connection than for a serial port."""
_REST_S = 0.005
"""Pause of the reading thread once a line carries too much: so it is woken seldom."""


@dataclass(frozen=True, kw_only=True)
class SerialOptions:
    """Options of all devices that send bytes."""

    port: str
    """Path of the device; best a stable one (`/dev/serial/by-id/…` or from a udev rule). Over a network
    `socket://HOST:PORT` (TCP, where the device is the server) or `udp://[ADDRESS]:PORT` (of this machine)."""
    baud: Annotated[int, Positive] = 115200
    """Bits per second of a serial port. Any line that carries more is read up to this or 2 Mbit/s; what comes beyond
    is discarded."""
    latency: Annotated[Seconds, NonNegative] = 0.0
    """Least time from measurement to the arrival of the message, s: filtering in the device, transmission."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a port that is neither a path nor a complete URL."""
        if wrong := check_port(self.port):
            yield "port", wrong


def nanoseconds(seconds: float) -> int:
    """Seconds as integer nanoseconds, rounded."""
    return round(seconds * 1e9)


class SerialDriver(Driver):
    """Reads a port into the decoder that the subclass names."""

    FAULTS = (OSError, termios.error)  # serial.SerialException is an OSError

    def __init__(
        self, name: str, options: SerialOptions, emit: Callable[[Measurement], None], decoder: FrameDecoder
    ) -> None:
        super().__init__(name, options, emit)
        self.decoder: FrameDecoder = decoder
        self._port: Port | None = None
        line = max(options.baud, _LEAST_LINE) / _BITS_PER_BYTE
        burst = _NETWORK_BURST_S if is_network(options.port) else _BURST_S
        self._bytes = TokenBucket(line, burst * line)

    def _open(self) -> None:
        self._port = open_port(self.options.port, self.options.baud)

    def _receive(self) -> tuple[bool, list[Measurement]]:
        assert self._port is not None
        data = self._port.read(_WAIT_S)
        now = time.monotonic_ns()
        if not self._bytes.take(now, len(data)):
            self._counters["discarded_bytes"] += len(data)
            self.guard.exceeded(now)
            data = b""
            time.sleep(_REST_S)
        return bool(data), self.decoder.feed(data, now)

    def _close(self) -> None:
        if self._port is not None:
            port, self._port = self._port, None
            port.close()
