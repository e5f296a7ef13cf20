"""OxTS NCOM: what RT and xNAV systems send and store, in packets of 72 bytes.

Format: Oxford Technical Solutions, "NCOM data format" manual. Each packet has a navigation solution, and eight
bytes of status whose meaning the status channel gives; each of three checksums is the sum of all bytes before it
but the first. Axes are forward, right, down; specific force includes gravity. Times are of GPS, and become UTC here.
"""

import math
import struct
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from replay.foreign.mapped_log import SignalRecord
from replay.foreign.mapping import RIGHT_DOWN_IMU, LogMapping, map_names, turned
from replay.problems import Problems
from vehicled.errors import UsageError

SUFFIX = ".ncom"
LENGTH, SYNC = 72, 0xE7
CHECKED = (22, 61, 71)
"""Places of checksums, each the sum of all bytes before it except the first."""

_PROBE = 2000
"""Number of packets of which one must have the full time, which comes several times a second."""
_MINUTE_MS = 60_000
_OUT_OF_ORDER_MS = 1000
"""A step back of at most this is a packet out of order; a larger one means the next minute."""
_GPS_EPOCH_MINUTES = 5_266_080
"""From 1970 to 6 January 1980."""
_LATEST_MINUTE = 52_596_000
"""A hundred years later."""
_LEAP_SECONDS = ((19_454_400, 18), (18_662_400, 17), (17_085_600, 16), (15_246_720, 15), (0, 14))
"""GPS minutes, and the seconds by which GPS time is ahead of UTC from then on."""

_HEAD = struct.Struct("<H")
_PLACE = struct.Struct("<ddf")
_ACCURACY = struct.Struct("<HHHB")
_FULL_TIME = struct.Struct("<iBB")
_INVALID_24 = -(1 << 23)
_RAW_IMU, _LOCKED = 1, 4
_OTHERS = 11, *range(20, 23)
"""Navigation status of packets for internal use, which have another structure, and of packets for input
events, whose time is that of the event."""
_OLDEST = 150
"""Age from which accuracies are out of date, in the unit of their age byte."""

_QUALITY: Mapping[int, float] = {
    **dict.fromkeys((2, 3, 12, 13, 20, 21, 25, 26), 1.0),
    **dict.fromkeys((4, 7, 8, 9, 14, 17, 18, 22, 27, 30, 31), 2.0),
    **dict.fromkeys((6, 16, 24, 29), 4.0),
    **dict.fromkeys((5, 15, 23, 28), 5.0),
}
"""Of NMEA by the mode of position: GNSS alone; differential; RTK integer; RTK float. Others: none."""

_UNITS = {
    **dict.fromkeys(("ax", "ay", "az"), "m/s²"),
    **{f"{of}{axis}": "rad/s" for of in ("", "solution.") for axis in ("wx", "wy", "wz")},
    **dict.fromkeys(("lat", "lon", "heading", "pitch", "roll", "course"), "rad"),
    **dict.fromkeys(("alt", "h_acc", "v_acc"), "m"),
    **dict.fromkeys(("vn", "ve", "vd", "speed"), "m/s"),
    "quality": "",
    "satellites": "",
}
"""Units of the signals, which have the axes and signs of the packets."""


MAPPING: LogMapping = map_names(
    {
        **RIGHT_DOWN_IMU,
        "gnss.lat": "lat",
        "gnss.lon": "lon",
        "gnss.alt": "alt",
        "gnss.quality": "quality",
        "gnss.h_acc": "h_acc",
        "gnss.v_acc": "v_acc",
        "gnss.speed": "speed",
        "gnss.course": "course",
        "reference.lat": "lat",
        "reference.lon": "lon",
        "reference.alt": "alt",
        "reference.roll": "roll",
        "reference.pitch": turned("pitch"),
        "reference.yaw": turned("heading", math.pi / 2),
        "reference.vn": "vn",
        "reference.ve": "ve",
        "reference.vd": "vd",
        "reference.wx": "solution.wx",
        "reference.wy": turned("solution.wy"),
        "reference.wz": turned("solution.wz"),
    }
)
"""Converts to axes forward, left, up; yaw from east."""


class _Packet(NamedTuple):
    at: int
    """Byte of the file at which it begins."""
    data: bytes


class NcomSignals:
    """The solution in an NCOM file. What is damaged is skipped and counted."""

    has_clock = True

    def __init__(self, path: Path) -> None:
        """UsageError if there is no packet with the full time near the start."""
        self.path = path
        self.problems = Problems(path.name)
        self._first_minute = self._find_first_minute()

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of every signal."""
        return _UNITS

    def _find_first_minute(self) -> int:
        """GPS minutes at the first packet: only some packets have them, all have the milliseconds in the minute."""
        clock = _Clock()
        n = -1
        with open(self.path, "rb") as file:
            for n, packet in enumerate(_read_packets(file, Problems(self.path.name))):
                clock.advance(packet)
                minutes = _full_minutes(packet)
                if minutes is not None:
                    return minutes - clock.minutes
                if n >= _PROBE:
                    break
        if n < 0:
            raise UsageError(
                f"{self.path}: no packet of NCOM in it; expected {LENGTH} bytes that begin with E7"
            )
        raise UsageError(f"{self.path}: no packet with the full time (status channel 0) in the first {n + 1}")

    def find_mapping(self) -> LogMapping:
        """The mapping of the standard signals."""
        return MAPPING

    def records(self, wanted: Collection[str]) -> Iterator[SignalRecord]:
        """One per packet with a solution, UTC in ns since 1970."""
        del wanted  # a packet is read as a whole
        clock = _Clock()
        first = self._first_minute
        status: dict[str, float] = {}
        with open(self.path, "rb") as file:
            for packet in _read_packets(file, self.problems):
                navigation = packet.data[21]
                clock.advance(packet)
                minutes = _full_minutes(packet)
                if minutes is not None and minutes != first + clock.minutes:
                    gap = minutes - first - clock.minutes
                    self.problems.add("gap", f"byte {packet.at}", f"{gap} minutes without a packet")
                    first = minutes - clock.minutes
                _read_status(packet.data, status)
                values = _decode(packet.data, navigation)
                if navigation == _LOCKED:
                    values |= status
                if values:
                    t = _utc_ns(first + clock.minutes, clock.ms)
                    yield SignalRecord(t, t, values)


class _Clock:
    """Minutes since that of the first packet, and milliseconds in the minute, which alone all packets have."""

    def __init__(self) -> None:
        self._total_ms: int | None = None
        self.minutes, self.ms = 0, 0

    def advance(self, packet: _Packet) -> None:
        (ms,) = _HEAD.unpack_from(packet.data, 1)
        before = ms if self._total_ms is None else self._total_ms
        self._total_ms = before + (ms - before + _OUT_OF_ORDER_MS) % _MINUTE_MS - _OUT_OF_ORDER_MS
        self.minutes, self.ms = divmod(self._total_ms, _MINUTE_MS)


def _utc_ns(minutes: int, ms: int) -> int:
    leap = next(seconds for since, seconds in _LEAP_SECONDS if minutes >= since)
    return ((minutes + _GPS_EPOCH_MINUTES) * _MINUTE_MS + ms - leap * 1000) * 1_000_000


def _read_packets(file: IO[bytes], problems: Problems) -> Iterator[_Packet]:
    """The packets with right checksums, without those of `_OTHERS`; what is between them is skipped and counted."""
    buffer, begin = b"", 0
    while chunk := file.read(1 << 16):
        buffer += chunk
        at = skipped = 0
        while len(buffer) - at >= LENGTH:
            data = buffer[at : at + LENGTH]
            if _is_packet(data):
                if skipped:
                    problems.add("damaged", f"byte {begin + at - skipped}", f"{skipped} bytes skipped")
                    skipped = 0
                if data[21] not in _OTHERS:
                    yield _Packet(begin + at, data)
                at += LENGTH
            else:
                following = buffer.find(SYNC, at + 1)
                following = len(buffer) if following < 0 else following
                skipped += following - at
                at = following
        if skipped:
            problems.add("damaged", f"byte {begin + at - skipped}", f"{skipped} bytes skipped")
        buffer, begin = buffer[at:], begin + at
    if buffer:
        problems.add("truncated", f"byte {begin}", f"{len(buffer)} bytes without a complete packet")


def _is_packet(data: bytes) -> bool:
    return (
        data[0] == SYNC
        and sum(data[1:71]) & 0xFF == data[71]
        and sum(data[1:61]) & 0xFF == data[61]
        and sum(data[1:22]) & 0xFF == data[22]
        and int.from_bytes(data[1:3], "little") < _MINUTE_MS
    )


def _full_minutes(packet: _Packet) -> int | None:
    if packet.data[62] != 0:
        return None
    (minutes, _, _) = _FULL_TIME.unpack_from(packet.data, 63)
    return int(minutes) if 0 < minutes < _LATEST_MINUTE else None


def _read_status(data: bytes, status: dict[str, float]) -> None:
    """Read the eight bytes of status into `status`."""
    if data[62] == 0:
        _, satellites, mode = _FULL_TIME.unpack_from(data, 63)
        status["quality"] = _QUALITY.get(mode, 0.0)
        if satellites != 0xFF:
            status["satellites"] = float(satellites)
    elif data[62] == 3:
        north, east, down, age = _ACCURACY.unpack_from(data, 63)
        if age < _OLDEST:
            status["h_acc"] = math.hypot(north, east) / math.sqrt(2.0) * 1e-3
            status["v_acc"] = down * 1e-3
        else:
            status.pop("h_acc", None)
            status.pop("v_acc", None)


def _decode(data: bytes, navigation: int) -> dict[str, float]:
    """Decode a packet: everything once the system is locked, before that only the IMU's measurements."""
    values: dict[str, float] = {}
    if _RAW_IMU <= navigation <= _LOCKED:
        for name, at, unit in (("ax", 3, 1e-4), ("ay", 6, 1e-4), ("az", 9, 1e-4)):
            _put(values, name, data, at, unit)
        for name, at, unit in (("wx", 12, 1e-5), ("wy", 15, 1e-5), ("wz", 18, 1e-5)):
            _put(values, name, data, at, unit)
    if navigation == _LOCKED:
        values |= {f"solution.{axis}": values[axis] for axis in ("wx", "wy", "wz") if axis in values}
        values["lat"], values["lon"], values["alt"] = _PLACE.unpack_from(data, 23)
        for name, at in (("vn", 43), ("ve", 46), ("vd", 49)):
            _put(values, name, data, at, 1e-4)
        for name, at in (("heading", 52), ("pitch", 55), ("roll", 58)):
            _put(values, name, data, at, 1e-6)
        if "vn" in values and "ve" in values:
            values["speed"] = math.hypot(values["vn"], values["ve"])
            values["course"] = math.atan2(values["ve"], values["vn"]) % math.tau
    return values


def _put(values: dict[str, float], name: str, data: bytes, at: int, unit: float) -> None:
    number = int.from_bytes(data[at : at + 3], "little", signed=True)
    if number != _INVALID_24:
        values[name] = number * unit
