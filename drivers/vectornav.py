"""VectorNav inertial sensors: ASCII messages and binary output groups (VN-100 manual UM001, chapters 3, 4).

ASCII: `$VNxxx,…*XX`, where XX is the exclusive or of the bytes in between, or `*XXXX` with their CRC-16.
Binary: `FA`, a byte with the groups present, 16 bits per group for the fields present, the payload in the
order of groups and fields (little-endian), and the CRC-16 (polynomial 1021, start 0, high byte first) over
all but the sync byte. The length is not transmitted: it follows from the fields, so that all must be known.

Acceleration is specific force. Compensated values are preferred to uncompensated ones. All in the axes of
the sensor, or of its reference frame rotation where that is configured in the device. The receivers in the
sensor and its navigation filter are read by `drivers.vectornav_solution`.
"""

import math
import struct
from binascii import crc_hqx
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from drivers.clock import DeviceClock
from drivers.framing import FoundFrame, FrameDecoder, parse_line, xor_checksum
from drivers.serial_port import SerialDriver, SerialOptions, nanoseconds
from drivers.vectornav_solution import RECEIVERS, read_fix, read_gps_line, read_ins_line, read_reference
from vehicled.messages import Measurement

ACCELERATION_CHANNELS = ("imu.ax", "imu.ay", "imu.az")
RATE_CHANNELS = ("imu.wx", "imu.wy", "imu.wz")

# Length of every field of every binary output group, bytes; 0: no such field.
_GNSS_LENGTHS = (8, 8, 2, 1, 1, 24, 24, 12, 12, 12, 4, 4, 2, 28, 2, 12)
FIELD_LENGTHS = (
    (8, 8, 8, 12, 16, 12, 24, 12, 12, 24, 20, 28, 2, 4, 8, 0),  # 1, common
    (8, 8, 8, 2, 8, 8, 8, 4, 4, 1, 1, 0, 0, 0, 0, 0),  # 2, time
    (2, 12, 12, 12, 4, 4, 16, 12, 12, 12, 12, 2, 40, 0, 0, 0),  # 3, IMU
    _GNSS_LENGTHS,  # 4, first receiver
    (2, 12, 16, 36, 12, 12, 12, 12, 12, 12, 28, 24, 12, 0, 0, 0),  # 5, attitude
    (2, 24, 24, 12, 12, 12, 12, 12, 12, 4, 4, 68, 64, 0, 0, 0),  # 6, INS
    _GNSS_LENGTHS,  # 7, second receiver
)
# Two fields of the receivers' groups go on with so many bytes per satellite; the count is in their head.
_SATELLITE_FIELDS = {14: (0, 8), 15: (10, 28)}  # field: (place of the count, bytes per satellite)

Field = tuple[int, int]
"""Group and field, both counted from 0."""

TIME_FIELDS: tuple[Field, ...] = ((0, 0), (1, 0), (0, 1), (1, 1))
"""TimeStartup and TimeGps, 64 bits, ns: field 0 or 1 of their group."""
ACCELERATION_FIELDS: tuple[Field, ...] = ((0, 8), (2, 9), (2, 2))
RATE_FIELDS: tuple[Field, ...] = ((0, 5), (2, 10), (2, 3))
IMU_FIELD: Field = (0, 9)
"""Uncompensated acceleration, then uncompensated rate."""

# Places of acceleration and rate among the fields of an ASCII message. VNYBA and VNYIA carry accelerations
# without gravity, which are no specific force: only their rates are taken.
_ASCII = {
    b"VNIMU": (3, 6),
    b"VNYMR": (6, 9),
    b"VNQMR": (7, 10),
    b"VNMAR": (3, 6),
    b"VNACC": (0, None),
    b"VNGYR": (None, 0),
    b"VNISL": (9, 12),
    b"VNISE": (9, 12),
    b"VNYBA": (None, 6),
    b"VNYIA": (None, 6),
}
_OF_LINES = -1
"""Stands for a receiver's group: fixes in ASCII messages."""
_LONGEST_LINE = 256


@dataclass(frozen=True, kw_only=True)
class VectorNavOptions(SerialOptions):
    """Both kinds of output are understood, even mixed; only the binary one can carry the device's time."""


class MessageLayout(NamedTuple):
    """The contents of a binary message, from its header."""

    offsets: dict[Field, int]
    """Where each field begins, from the sync byte; fields behind one of variable length are left out."""
    fixed: int
    """Length of the whole message, apart from the satellites, bytes."""
    order: tuple[Field, ...]
    """All fields if one of them is of variable length, else empty."""


@lru_cache(maxsize=64)
def layout(header: bytes) -> MessageLayout | None:
    """The layout of the messages with a given header (sync byte to last field word); None if not a header."""
    words = iter(struct.unpack_from(f"<{(len(header) - 2) // 2}H", header, 2))
    offsets: dict[Field, int] = {}
    order: list[Field] = []
    at = len(header)
    variable = False
    for group in range(7):
        if not header[1] >> group & 1:
            continue
        word = next(words)
        if not word:
            return None
        for number in range(16):
            if not word >> number & 1:
                continue
            length = FIELD_LENGTHS[group][number]
            if not length:
                return None
            if not variable:
                offsets[group, number] = at
            order.append((group, number))
            variable = variable or _has_satellites(group, number)
            at += length
    return MessageLayout(offsets, at + 2, tuple(order) if variable else ())


def _has_satellites(group: int, number: int) -> bool:
    return group in (3, 6) and number in _SATELLITE_FIELDS


class VectorNavDecoder(FrameDecoder):
    """Binary messages and ASCII lines, whichever arrive, as measurements of IMU, receivers and navigation filter."""

    def __init__(self, name: str, options: VectorNavOptions) -> None:
        super().__init__(name)
        self._latency_ns = nanoseconds(options.latency)
        self._clocks = [DeviceClock(tick_ns=1, latency_ns=self._latency_ns) for _ in range(2)]
        """One for TimeStartup, one for TimeGps: outputs of one device may have either."""
        self._last_fixes: dict[int, bytes] = {}

    def _parse(self, buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
        if buffer[start] == 0xFA:
            return self._parse_at_binary(buffer, start)
        if buffer[start] == 0x24:
            return _parse_at_ascii(buffer, start)
        syncs = [at for at in (buffer.find(0xFA, start), buffer.find(0x24, start)) if at >= 0]
        return FoundFrame.GARBAGE, min(syncs, default=len(buffer)) - start

    def _parse_at_binary(self, buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
        have = len(buffer) - start
        if have < 2:
            return FoundFrame.MORE, 0
        groups = buffer[start + 1]
        if not groups or groups & 0x80:
            return FoundFrame.GARBAGE, 1
        header = 2 + 2 * groups.bit_count()
        if have < header:
            return FoundFrame.MORE, 0
        form = layout(bytes(buffer[start : start + header]))
        if form is None:
            return FoundFrame.GARBAGE, 1
        total = form.fixed
        if form.order:
            extra = _satellites(form, buffer, start)
            if extra is None:
                return FoundFrame.MORE, 0
            total += extra
            if total > self.LONGEST:
                return FoundFrame.GARBAGE, 1
        if have < total:
            return FoundFrame.MORE, 0
        if crc_hqx(buffer[start + 1 : start + total], 0):
            return FoundFrame.DAMAGED, 1
        return FoundFrame.MESSAGE, total

    def _decode(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        t = stamp_ns - self._latency_ns
        if message[0] == 0x24:
            if message.startswith(b"$VNGPS,") and not self._is_new(_OF_LINES, _fix_key(message)):
                return
            for values in map(self._checked, _ascii_values(message)):
                if values:
                    out.append(Measurement(self.name, t, arrival_ns, values))
            return
        form = layout(message[: 2 + 2 * message[1].bit_count()])
        assert form is not None  # or `_parse` would not have let it through
        values = self._checked(_binary_values(form.offsets, message))
        found = read_reference(form.offsets, message)
        fixes = [(group, fix) for group in RECEIVERS if (fix := read_fix(form.offsets, message, group))]
        time = next((f for f in TIME_FIELDS if f in form.offsets), None)
        if time is not None and (values or found or fixes):
            at, clock = form.offsets[time], self._clocks[time[1]]
            t = clock.to_host(int.from_bytes(message[at : at + 8], "little"), stamp_ns)
            self.counters["clock_restarts"] = sum(c.restarts for c in self._clocks)
        out.extend(Measurement(self.name, t, arrival_ns, v) for v in (values, found) if v)
        for group, fix in fixes:
            if self._is_new(group, fix.key) and (named := self._checked(fix.values)):
                named = {RECEIVERS[group] + c.removeprefix("gnss"): v for c, v in named.items()}
                out.append(Measurement(self.name, t - fix.age_ns, arrival_ns, named))

    def _is_new(self, group: int, key: bytes) -> bool:
        """Whether a fix differs from the last one of its receiver."""
        before, self._last_fixes[group] = self._last_fixes.get(group), key
        return key != before

    def _checked(self, values: dict[str, float] | None) -> dict[str, float]:
        if values is None or not all(map(math.isfinite, values.values())):
            self.counters["out_of_range"] += 1
        return {k: v for k, v in (values or {}).items() if math.isfinite(v)}


def _satellites(form: MessageLayout, buffer: bytearray, start: int) -> int | None:
    """Bytes that the lists of satellites add to a message; None while their counts have not arrived."""
    at = start + form.fixed - 2 - sum(FIELD_LENGTHS[g][n] for g, n in form.order)
    extra = 0
    for group, number in form.order:
        if _has_satellites(group, number):
            place, each = _SATELLITE_FIELDS[number]
            if at + place >= len(buffer):
                return None
            extra += each * buffer[at + place]
            at += each * buffer[at + place]
        at += FIELD_LENGTHS[group][number]
    return extra


def _parse_at_ascii(buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
    kind, length = parse_line(buffer, start, _LONGEST_LINE)
    if kind is FoundFrame.MESSAGE:
        body, star, check = bytes(buffer[start + 1 : start + length]).rstrip().rpartition(b"*")
        if not star or len(check) not in (2, 4):
            return FoundFrame.TRUNCATED, length
        computed = b"%02X" % xor_checksum(body) if len(check) == 2 else b"%04X" % crc_hqx(body, 0)
        if check.upper() != computed:
            return FoundFrame.DAMAGED, length
    return kind, length


def _fix_key(message: bytes) -> bytes:
    """Time of week, week and kind of the fix in an ASCII message VNGPS: equal for the same fix."""
    return b",".join(message.split(b",", 4)[1:4])


def _ascii_values(message: bytes) -> list[dict[str, float] | None]:
    """Channels of an ASCII message, by measurement (perhaps none); [None] if the message is invalid."""
    header, *fields = message[1:].partition(b"*")[0].split(b",")
    try:
        if header == b"VNGPS":
            return [read_gps_line(fields)]
        if header == b"VNINS":
            return [read_ins_line(fields)]
        values: dict[str, float] = {}
        for place, channels in zip(
            _ASCII.get(header, (None, None)), (ACCELERATION_CHANNELS, RATE_CHANNELS), strict=True
        ):
            if place is not None:
                values.update(zip(channels, map(float, fields[place : place + 3]), strict=True))
    except (ValueError, IndexError):
        return [None]
    return [values] if values else []


def _binary_values(offsets: dict[Field, int], message: bytes) -> dict[str, float]:
    acceleration = next((offsets[f] for f in ACCELERATION_FIELDS if f in offsets), None)
    rate = next((offsets[f] for f in RATE_FIELDS if f in offsets), None)
    if IMU_FIELD in offsets:
        acceleration = offsets[IMU_FIELD] if acceleration is None else acceleration
        rate = offsets[IMU_FIELD] + 12 if rate is None else rate
    values: dict[str, float] = {}
    if acceleration is not None:
        values.update(
            zip(ACCELERATION_CHANNELS, struct.unpack_from("<3f", message, acceleration), strict=True)
        )
    if rate is not None:
        values.update(zip(RATE_CHANNELS, struct.unpack_from("<3f", message, rate), strict=True))
    return values


class VectorNav(SerialDriver):
    """A VectorNav inertial sensor on a serial port."""

    Options = VectorNavOptions

    def __init__(self, name: str, options: VectorNavOptions, emit: Callable[[Measurement], None]) -> None:
        super().__init__(name, options, emit, VectorNavDecoder(name, options))
