"""The packets in MTData2 messages of Xsens sensors: identifiers and number formats (document MT0101P)."""

import math
import struct
from typing import NamedTuple

UTC_TIME = 0x1010
PACKET_COUNTER = 0x1020
SAMPLE_TIME_FINE = 0x1060
EULER_ANGLES = 0x2030
ACCELERATION = 0x4020
ACCELERATION_HR = 0x4040
ALTITUDE_ELLIPSOID = 0x5020
LAT_LON = 0x5040
GNSS_PVT_DATA = 0x7010
RATE_OF_TURN = 0x8020
RATE_OF_TURN_HR = 0x8040
VELOCITY_XYZ = 0xD010
STATUS_WORD = 0xE020

FLOAT32, FP1220, FP1632, FLOAT64 = range(4)
"""Number formats, as in the two lowest bits of a data identifier."""
ENU, NED, NWU = 0x0, 0x4, 0x8
"""Coordinate systems, as in the next two bits."""

_SIZES = 4, 4, 6, 8
_HEAD = struct.Struct(">HB").unpack_from
"""Identifier and number of bytes."""


class Packet(NamedTuple):
    """A value and how it is written."""

    number_format: int
    coordinates: int
    data: bytes


Packets = dict[int, Packet]
"""Packets by data identifier, without its format bits."""


def read_packets(data: bytes) -> Packets:
    """The packets in the data of a message; one that is cut off is left out."""
    packets = {}
    at = 0
    end = len(data)
    while at + 3 <= end:
        identifier, size = _HEAD(data, at)
        at += 3 + size
        if at <= end:
            value = data[at - size : at]
            packets[identifier & 0xFFF0] = Packet(identifier & 0b11, identifier & 0b1100, value)
    return packets


def read_numbers(packet: Packet, count: int) -> tuple[float, ...] | None:
    """The `count` numbers of a packet in any format; None if its size does not fit or a number is not finite."""
    form, _, data = packet
    if len(data) != count * _SIZES[form]:
        return None
    numbers: tuple[float, ...]
    match form:
        case 0:
            numbers = struct.unpack(f">{count}f", data)
        case 1:
            numbers = tuple(i / 2**20 for i in struct.unpack(f">{count}i", data))
        case 2:  # the 32 bits of the fraction go before the 16 of the whole part
            numbers = tuple(whole + fraction / 2**32 for fraction, whole in struct.iter_unpack(">Ih", data))
        case _:
            numbers = struct.unpack(f">{count}d", data)
    return numbers if all(map(math.isfinite, numbers)) else None
