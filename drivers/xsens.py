"""Xsens MTi inertial sensors: MTData2 messages of the Xbus protocol (document MT0101P).

A message is `FA FF MID LEN data checksum`, or with LEN = FF and two more bytes for the length; all numbers
are big-endian, and the bytes from the second on sum up to 0 modulo 256. The data of an MTData2 message are
packets: a 16-bit data identifier, one byte for the size, and the value. The two lowest bits of an identifier
give the number format, the next two the coordinate system of orientations.

Acceleration is specific force (at rest +9.81 along the axis that points up), rate of turn is calibrated;
both are in the axes of the sensor. Free acceleration and velocity increments are not used. `drivers.xsens_solution`
reads the receiver in the sensor and its navigation filter.
"""

from collections.abc import Callable
from dataclasses import dataclass

from drivers.clock import DeviceClock
from drivers.framing import FoundFrame, FrameDecoder
from drivers.serial_port import SerialDriver, SerialOptions, nanoseconds
from drivers.xsens_packets import (
    ACCELERATION,
    ACCELERATION_HR,
    PACKET_COUNTER,
    RATE_OF_TURN,
    RATE_OF_TURN_HR,
    SAMPLE_TIME_FINE,
    STATUS_WORD,
    Packets,
    read_numbers,
    read_packets,
)
from drivers.xsens_solution import read_fix, read_reference
from vehicled.messages import Measurement

MTDATA2 = 0x36

TICK_NS = 100_000
"""SampleTimeFine counts 0.1 ms."""
TICKS = 1 << 32

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
_ANY_CLIPPED = sum(_CLIPPED.values())


@dataclass(frozen=True, kw_only=True)
class XsensOptions(SerialOptions):
    """The sensor must be configured to send MTData2 with Acceleration, RateOfTurn and SampleTimeFine."""


class XsensDecoder(FrameDecoder):
    """MTData2 messages as measurements of IMU, receiver and navigation filter; counts those that are missing."""

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
        packets = read_packets(message[6:-1] if message[3] == 0xFF else message[4:-1])
        values: dict[str, float] = {}
        for identifier, channels in _CHANNELS.items():
            if identifier in packets:
                numbers = read_numbers(packets[identifier], 3)
                if numbers is not None:
                    values.update(zip(channels, numbers, strict=True))
                else:
                    self.counters["out_of_range"] += 1
        self._drop_clipped(packets, values)
        self._count_missed(packets)
        found, fix = read_reference(packets), read_fix(packets)
        if values or found or fix is not None:
            t = stamp_ns - self._latency_ns
            if SAMPLE_TIME_FINE in packets and len(packets[SAMPLE_TIME_FINE].data) == 4:
                t = self._clock.to_host(int.from_bytes(packets[SAMPLE_TIME_FINE].data), stamp_ns)
                self.counters["clock_restarts"] = self._clock.restarts
            if values:
                out.append(Measurement(self.name, t, arrival_ns, values))
            if found:
                out.append(Measurement(self.name, t, arrival_ns, found))
            if fix is not None and fix.values is None:
                self.counters["out_of_range"] += 1
            elif fix is not None and fix.values:
                out.append(Measurement(self.name, t - fix.age_ns, arrival_ns, fix.values))

    def _drop_clipped(self, packets: Packets, values: dict[str, float]) -> None:
        status = int.from_bytes(packets[STATUS_WORD].data) if STATUS_WORD in packets else 0
        if not status & _ANY_CLIPPED:
            return
        for channel in [c for c in values if status & _CLIPPED[c]]:
            del values[channel]
            self.counters["clipped"] += 1

    def _count_missed(self, packets: Packets) -> None:
        if PACKET_COUNTER in packets:
            packet = int.from_bytes(packets[PACKET_COUNTER].data) & 0xFFFF
            if self._packet is not None:
                gap = packet - self._packet & 0xFFFF
                if 1 < gap < 0x8000:  # a larger gap means that the device restarted
                    self.counters["missed"] += gap - 1
            self._packet = packet


class Xsens(SerialDriver):
    """An Xsens MTi on a serial port."""

    Options = XsensOptions

    def __init__(self, name: str, options: XsensOptions, emit: Callable[[Measurement], None]) -> None:
        super().__init__(name, options, emit, XsensDecoder(name, options))
