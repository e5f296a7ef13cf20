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
from vehicled.units import NonNegative, Positive, Seconds

_WAIT_S = 0.02


@dataclass(frozen=True, kw_only=True)
class SerialOptions:
    """Options of all devices on serial ports."""

    port: str
    """Path of the device; best a stable one (`/dev/serial/by-id/…` or from a udev rule)."""
    baud: Annotated[int, Positive] = 115200
    """Bits per second."""
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
        return bool(data), self.decoder.feed(data, time.monotonic_ns())

    def _close(self) -> None:
        if self._port is not None:
            port, self._port = self._port, None
            port.close()
