"""RTCM 3 messages, which carry corrections to GNSS receivers: framing, message numbers, place of the base.

RTCM 10403: preamble 0xD3, six bits that are 0, ten bits of length, up to 1023 bytes, of which the first twelve bits
are the message number, CRC-24Q. Which number means what: https://rtcm.org, and any caster's source table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import pymap3d

from drivers.framing import FoundFrame, FrameDecoder
from vehicled.messages import Measurement

_PREAMBLE = 0xD3
_HEAD, _CRC = 3, 3
"""Bytes before and after the message."""
_CRC24Q = 0x1864CFB
_STATIONS = (1005, 1006)
_STATION_BYTES = 19
_LEAST_RADIUS, _GREATEST_RADIUS = 6.2e6, 6.5e6
"""Limits of the distance of places on Earth from its centre, m; some bases send zeros until their place is
set."""
_DESCRIPTIONS = frozenset(
    {
        *(1005, 1006, 1007, 1008, 1013, 1029, 1032, 1033, 1230),
        *(1019, 1020, 1041, 1042, 1043, 1044, 1045, 1046),
    }
)


def _make_crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte << 16
        for _ in range(8):
            crc = crc << 1 ^ (_CRC24Q if crc & 0x800000 else 0)
        table.append(crc & 0xFFFFFF)
    return tuple(table)


_CRC_TABLE = _make_crc_table()


def rtcm_checksum(body: bytes | bytearray) -> int:
    """CRC-24Q of an RTCM 3 message from its preamble to the end of its payload."""
    crc = 0
    for byte in body:
        crc = (crc << 8 & 0xFFFFFF) ^ _CRC_TABLE[crc >> 16 ^ byte]
    return crc


def parse_at_rtcm(buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
    """The frame at a preamble and its length, as from `_parse`; for a damaged one the number of bytes checked."""
    have = len(buffer) - start
    if have > 1 and buffer[start + 1] & 0xFC:
        return FoundFrame.GARBAGE, 1
    if have > 4:
        # Damaged messages often contain the preamble of one byte, so the message number is checked too.
        number = buffer[start + 3] << 4 | buffer[start + 4] >> 4
        if not (1001 <= number <= 1304 or 4001 <= number <= 4095):
            return FoundFrame.GARBAGE, 1
    if have < 5:
        return FoundFrame.MORE, 0
    total = _HEAD + (buffer[start + 1] << 8 | buffer[start + 2]) + _CRC
    if have < total:
        return FoundFrame.MORE, 0
    end = start + total - _CRC
    if rtcm_checksum(buffer[start:end]) != int.from_bytes(buffer[end : end + _CRC]):
        return FoundFrame.DAMAGED, total
    return FoundFrame.MESSAGE, total


class RtcmDecoder(FrameDecoder):
    """Cuts whole frames with a right checksum out of a stream; what is between them is counted."""

    LONGEST = _HEAD + 1023 + _CRC
    PATIENCE_NS = 10_000_000_000  # mobile networks pause in the midst of a frame

    def __init__(self) -> None:
        super().__init__("rtcm")
        self._frames: list[bytes] = []

    def take(self, data: bytes, arrival_ns: int) -> list[bytes]:
        """The frames that `data` completes, in order, with head and checksum. Never raises, whatever the bytes."""
        self.feed(data, arrival_ns)
        frames, self._frames = self._frames, []
        return frames

    def _parse(self, buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
        sync = buffer.find(_PREAMBLE, start)
        if sync != start:
            return FoundFrame.GARBAGE, (len(buffer) if sync < 0 else sync) - start
        kind, length = parse_at_rtcm(buffer, start)
        return kind, 1 if kind is FoundFrame.DAMAGED else length

    def _decode(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        self._frames.append(message)


def message_number(frame: bytes) -> int:
    """Message number of a whole frame, such as 1077; 0 if the frame is too short."""
    return int.from_bytes(frame[_HEAD : _HEAD + 2]) >> 4 if len(frame) >= _HEAD + 2 + _CRC else 0


def is_correction(number: int) -> bool:
    """Whether messages of this number age: observations and corrections, but not what describes base and orbits."""
    return number != 0 and number not in _DESCRIPTIONS


class BaseStation(NamedTuple):
    """Where the antenna of a base is, by its messages 1005 and 1006."""

    station: int
    latitude: float
    """deg, WGS 84 or the service's own frame."""
    longitude: float
    height: float
    """m, above the ellipsoid."""


def read_base(frame: bytes) -> BaseStation | None:
    """The base that a whole frame describes; None if it is another message, or the place is not on Earth."""
    if message_number(frame) not in _STATIONS or len(frame) < _HEAD + _STATION_BYTES + _CRC:
        return None
    bits = int.from_bytes(frame[_HEAD : _HEAD + _STATION_BYTES])

    def field(begin: int, length: int) -> int:
        return bits >> (8 * _STATION_BYTES - begin - length) & ((1 << length) - 1)

    def metres(begin: int) -> float:
        value = field(begin, 38)
        return 1e-4 * (value - (1 << 38) if value >> 37 else value)

    # DF025, DF026, DF027: the antenna's reference point, Earth-centred.
    x, y, z = metres(34), metres(74), metres(114)
    if not _LEAST_RADIUS < math.hypot(x, y, z) < _GREATEST_RADIUS:
        return None
    latitude, longitude, height = pymap3d.ecef2geodetic(x, y, z)
    return BaseStation(field(12, 12), float(latitude), float(longitude), float(height))
