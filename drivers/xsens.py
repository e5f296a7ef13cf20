"""Xsens MTi inertial sensors: MTData2 messages of the Xbus protocol (document MT0101P).

A message is `FA FF MID LEN data checksum`, or with LEN = FF and two more bytes for the length; all numbers
are big-endian, and the bytes from the second on sum up to 0 modulo 256. The data of an MTData2 message are
packets: a 16-bit data identifier, one byte for the size, and the value. The two lowest bits of an identifier
give the number format, the next two the coordinate system of orientations.

Acceleration is specific force (at rest +9.81 along the axis that points up), rate of turn is calibrated;
both are in the axes of the sensor. Free acceleration, velocity increments and orientation are not used.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

from drivers.clock import DeviceClock
from drivers.framing import FoundFrame, FrameDecoder
from drivers.serial_port import SerialDriver, SerialOptions, nanoseconds
from vehicled.messages import Measurement

MTDATA2 = 0x36
PACKET_COUNTER = 0x1020
SAMPLE_TIME_FINE = 0x1060
ACCELERATION = 0x4020
ACCELERATION_HR = 0x4040
RATE_OF_TURN = 0x8020
RATE_OF_TURN_HR = 0x8040
STATUS_WORD = 0xE020

TICK_NS = 100_000
"""SampleTimeFine counts 0.1 ms."""
TICKS = 1 << 32

FLOAT32, FP1220, FP1632, FLOAT64 = range(4)
"""Number formats, as in the two lowest bits of a data identifier."""

_LONGEST_DATA = 2048
_ACCELERATION_CHANNELS = ("imu.ax", "imu.ay", "imu.az")
_RATE_CHANNELS = ("imu.wx", "imu.wy", "imu.wz")
_CHANNELS = {  # calibrated values are preferred to the high-rate ones
    ACCELERATION_HR: _ACCELERATION_CHANNELS,
    RATE_OF_TURN_HR: _RATE_CHANNELS,
    ACCELERATION: _ACCELERATION_CHANNELS,
    RATE_OF_TURN: _RATE_CHANNELS,
}
_CLIPPED = {channel: 1 << (8 + i) for i, channel in enumerate(_ACCELERATION_CHANNELS + _RATE_CHANNELS)}
"""Bits of the status word for a sensor at the end of its range."""


@dataclass(frozen=True, kw_only=True)
class XsensOptions(SerialOptions):
    """The sensor must be configured to send MTData2 with Acceleration, RateOfTurn and SampleTimeFine."""


class XsensDecoder(FrameDecoder):
    """MTData2 messages as IMU measurements; counts the packets that are missing between them."""

    LONGEST = _LONGEST_DATA + 7

    def __init__(self, name: str, options: XsensOptions) -> None:
        super().__init__(name)
        self.counters |= {"missed": 0, "clipped": 0}
        self._latency_ns = nanoseconds(options.latency)
        self._clock = DeviceClock(tick_ns=TICK_NS, wrap=TICKS, latency_ns=self._latency_ns)
        self._packet: int | None = None

    def reset(self) -> None:
        """Discard an incomplete message, and begin counting packets anew."""
        super().reset()
        self._packet = None  # packets that the device sent while not connected do not count as missed

    def _parse(self, buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
        sync = buffer.find(0xFA, start)
        if sync != start:
            return FoundFrame.GARBAGE, (len(buffer) if sync < 0 else sync) - start
        have = len(buffer) - start
        if have < 2:
            return FoundFrame.MORE, 0
        if buffer[start + 1] != 0xFF:
            return FoundFrame.GARBAGE, 1
        if have < 4:
            return FoundFrame.MORE, 0
        header, length = 4, buffer[start + 3]
        if length == 0xFF:
            if have < 6:
                return FoundFrame.MORE, 0
            header, length = 6, buffer[start + 4] << 8 | buffer[start + 5]
            if length > _LONGEST_DATA:
                return FoundFrame.GARBAGE, 1
        total = header + length + 1
        if have < total:
            return FoundFrame.MORE, 0
        if sum(buffer[start + 1 : start + total]) & 0xFF:
            return FoundFrame.DAMAGED, 1
        return FoundFrame.MESSAGE, total

    def _decode(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        if message[2] != MTDATA2:
            return
        packets = _packets(message[6:-1] if message[3] == 0xFF else message[4:-1])
        values: dict[str, float] = {}
        for identifier, channels in _CHANNELS.items():
            if identifier in packets:
                numbers = _numbers(*packets[identifier])
                if numbers is not None and all(map(math.isfinite, numbers)):
                    values.update(zip(channels, numbers, strict=True))
                else:
                    self.counters["out_of_range"] += 1
        self._drop_clipped(packets, values)
        self._count_missed(packets)
        if values:
            t = stamp_ns - self._latency_ns
            if SAMPLE_TIME_FINE in packets and len(packets[SAMPLE_TIME_FINE][1]) == 4:
                t = self._clock.to_host(int.from_bytes(packets[SAMPLE_TIME_FINE][1]), stamp_ns)
                self.counters["clock_restarts"] = self._clock.restarts
            out.append(Measurement(self.name, t, arrival_ns, values))

    def _drop_clipped(self, packets: dict[int, tuple[int, bytes]], values: dict[str, float]) -> None:
        status = int.from_bytes(packets[STATUS_WORD][1]) if STATUS_WORD in packets else 0
        for channel in [c for c in values if status & _CLIPPED[c]]:
            del values[channel]
            self.counters["clipped"] += 1

    def _count_missed(self, packets: dict[int, tuple[int, bytes]]) -> None:
        if PACKET_COUNTER in packets:
            packet = int.from_bytes(packets[PACKET_COUNTER][1]) & 0xFFFF
            if self._packet is not None:
                gap = packet - self._packet & 0xFFFF
                if 1 < gap < 0x8000:  # more is a restart of the device
                    self.counters["missed"] += gap - 1
            self._packet = packet


def _packets(data: bytes) -> dict[int, tuple[int, bytes]]:
    """Data identifier without its format bits -> (number format, value); what is cut off is left out."""
    packets = {}
    at = 0
    while at + 3 <= len(data):
        identifier, size = data[at] << 8 | data[at + 1], data[at + 2]
        value = data[at + 3 : at + 3 + size]
        if len(value) == size:
            packets[identifier & 0xFFF0] = identifier & 0b11, value
        at += 3 + size
    return packets


def _numbers(number_format: int, value: bytes) -> tuple[float, ...] | None:
    """The three components of a vector in any number format; None if the size does not fit."""
    size = (12, 12, 18, 24)[number_format]
    if len(value) != size:
        return None
    match number_format:
        case 0:
            return struct.unpack(">3f", value)
        case 1:
            return tuple(i / 2**20 for i in struct.unpack(">3i", value))
        case 2:  # the 32 bits of the fraction go before the 16 of the whole part
            return tuple(whole + fraction / 2**32 for fraction, whole in struct.iter_unpack(">Ih", value))
    return struct.unpack(">3d", value)


class Xsens(SerialDriver):
    """An Xsens MTi on a serial port."""

    Options = XsensOptions

    def __init__(self, name: str, options: XsensOptions, emit: Callable[[Measurement], None]) -> None:
        super().__init__(name, options, emit, XsensDecoder(name, options))
