"""Devices on serial ports, USB adapters and pseudo-terminals: 8 data bits, no parity, 1 stop bit."""

import contextlib
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import serial

from drivers.base import Driver
from drivers.framing import FrameDecoder
from vehicled.messages import Measurement
from vehicled.token_bucket import TokenBucket
from vehicled.units import NonNegative, Positive, Seconds

_WAIT_S = 0.02
_BITS_PER_BYTE = 10  # with start and stop bit
_LEAST_LINE = 2_000_000
"""Bits per second that are read at least: adapters that are USB devices themselves keep to no baud rate."""
_BURST_S = 0.1
_REST_S = 0.005
"""Pause of the reading thread once a line carries too much: so it is woken seldom."""


@dataclass(frozen=True, kw_only=True)
class SerialOptions:
    """Options of all devices on serial ports."""

    port: str
    """Path of the device; best a stable one (`/dev/serial/by-id/…` or from a udev rule)."""
    baud: Annotated[int, Positive] = 115200
    """Bits per second. A line that carries more is read up to this or 2 Mbit/s; what comes beyond is discarded."""
    latency: Annotated[Seconds, NonNegative] = 0.0
    """Least time from measurement to the arrival of the message, s: filtering in the device, transmission."""


def nanoseconds(seconds: float) -> int:
    """Seconds as integer nanoseconds, rounded."""
    return round(seconds * 1e9)


class SerialDriver(Driver):
    """Reads a serial port into the decoder that the subclass names."""

    FAULTS = (OSError, termios.error)  # serial.SerialException is an OSError

    def __init__(
        self, name: str, options: SerialOptions, emit: Callable[[Measurement], None], decoder: FrameDecoder
    ) -> None:
        super().__init__(name, options, emit)
        self.decoder: FrameDecoder = decoder
        self._port: Any = None
        line = max(options.baud, _LEAST_LINE) / _BITS_PER_BYTE
        self._bytes = TokenBucket(line, _BURST_S * line)

    def _open(self) -> None:
        # The path is looked up afresh each time, so a device that comes back under its stable name is found.
        try:
            self._port = serial.Serial(self.options.port, self.options.baud, timeout=_WAIT_S, exclusive=True)
        except ValueError as error:  # pyserial rejects a baud rate
            raise OSError(f"{self.options.port}: {error}") from None
        with contextlib.suppress(OSError, ValueError, NotImplementedError):  # not every port can
            self._port.set_low_latency_mode(True)  # USB adapters otherwise hold bytes back for 16 ms

    def _receive(self) -> tuple[bool, list[Measurement]]:
        data = self._port.read(self._port.in_waiting or 1)
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
