"""Devices that send messages over a serial line of their own."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from drivers.base import Driver
from drivers.framing import FrameDecoder
from drivers.serial_line import SerialLine
from vehicled.messages import Measurement
from vehicled.units import NonNegative, Positive, Seconds

_WAIT_S = 0.02
_BITS_PER_BYTE = 10  # with start and stop bit
_LEAST_RATE = 2_000_000
"""Bits per second that are read at least: adapters that are USB devices themselves keep to no baud rate."""


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

    def __init__(
        self, name: str, options: SerialOptions, emit: Callable[[Measurement], None], decoder: FrameDecoder
    ) -> None:
        super().__init__(name, options, emit)
        self.decoder: FrameDecoder = decoder
        self._line: SerialLine | None = None
        self._writing = threading.Lock()
        """Held while the line is written to and must not be closed: its descriptor may become another file's."""

    def write(self, data: bytes) -> None:
        """Send bytes to the device, from any thread. Raises OSError if it is not open or does not take them."""
        with self._writing:
            if self._line is None:
                raise OSError(f"{self.options.port} is not open")
            self._line.write(data)

    def _open(self) -> None:
        o: SerialOptions = self.options
        self._line = SerialLine(o.port, o.baud, max(o.baud, _LEAST_RATE) / _BITS_PER_BYTE, self._discarded)

    def _receive(self) -> tuple[bool, list[Measurement]]:
        assert self._line is not None
        data = self._line.read(_WAIT_S)
        return bool(data), self.decoder.feed(data, time.monotonic_ns())

    def _close(self) -> None:
        with self._writing:
            line, self._line = self._line, None
        if line is not None:
            line.close()
