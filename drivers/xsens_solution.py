"""Receiver and navigation filter of Xsens sensors with GNSS, such as MTi-680 and MTi-G-710 (document MT0101P)."""

import math
import struct
from typing import NamedTuple

from drivers import reference
from drivers.pvt import XSENS, Pvt, find_solution
from drivers.utc import find_utc_ns
from drivers.xsens_packets import (
    ALTITUDE_ELLIPSOID,
    EULER_ANGLES,
    GNSS_PVT_DATA,
    LAT_LON,
    NED,
    NWU,
    STATUS_WORD,
    UTC_TIME,
    VELOCITY_XYZ,
    Packet,
    Packets,
    read_numbers,
)

_FILTER_VALID = 1 << 1
_UTC_KNOWN = 0b111
"""Flags: date, time of day and leap seconds are known."""
_OLDEST_NS = 2_000_000_000
_UTC = struct.Struct(">IH6B")


class AgedFix(NamedTuple):
    """A fix of the receiver in the sensor."""

    age_ns: int
    """Age of the fix at the time of the message, ns; 0 if the message has no UTC."""
    values: dict[str, float] | None
    """Channels `gnss.…`; None if they are impossible."""


def read_fix(packets: Packets) -> AgedFix | None:
    """The fix in a message, which has one only if it is new."""
    packet = packets.get(GNSS_PVT_DATA)
    if packet is None:
        return None
    if len(packet.data) < XSENS.size:
        return AgedFix(0, None)
    pvt = Pvt(*XSENS.unpack_from(packet.data))
    return AgedFix(_find_age(packets, pvt), find_solution(pvt))


def read_reference(packets: Packets) -> dict[str, float]:
    """Channels `reference.…` of the navigation filter, from a message with valid position or velocity."""
    status = packets.get(STATUS_WORD)
    if status is None or not int.from_bytes(status.data) & _FILTER_VALID:
        return {}
    values: dict[str, float] = {}
    place, height = _read(packets, LAT_LON, 2), _read(packets, ALTITUDE_ELLIPSOID, 1)
    if place is not None and height is not None:
        values |= reference.position((*place, *height))
    if (velocity := _read(packets, VELOCITY_XYZ, 3)) is not None:
        values |= reference.velocity(*_to_ned(velocity, packets[VELOCITY_XYZ].coordinates))
    angles = _read(packets, EULER_ANGLES, 3)
    if values and angles is not None:  # without a receiver, the attitude is not that of a navigation filter
        roll, pitch, yaw = map(math.radians, angles)
        coordinates = packets[EULER_ANGLES].coordinates
        if coordinates == NED:
            values |= reference.attitude_by_ned(yaw, pitch, roll)
        else:
            values |= reference.attitude_by_enu(
                yaw + (math.pi / 2.0 if coordinates == NWU else 0.0), pitch, roll
            )
    return {c: v for c, v in values.items() if abs(v) < 1e6}


def _read(packets: Packets, identifier: int, count: int) -> tuple[float, ...] | None:
    return read_numbers(packets[identifier], count) if identifier in packets else None


def _to_ned(vector: tuple[float, ...], coordinates: int) -> tuple[float, float, float]:
    x, y, z = vector
    if coordinates == NED:
        return x, y, z
    return (x, -y, -z) if coordinates == NWU else (y, x, -z)


def _find_age(packets: Packets, pvt: Pvt) -> int:
    sampled, fixed = _read_utc(packets.get(UTC_TIME)), pvt.find_utc_ns()
    if sampled is None or fixed is None or not 0 <= sampled - fixed < _OLDEST_NS:
        return 0
    return sampled - fixed


def _read_utc(packet: Packet | None) -> int | None:
    if packet is None or len(packet.data) != _UTC.size:
        return None
    nano, year, month, day, hour, minute, second, flags = _UTC.unpack(packet.data)
    if flags & _UTC_KNOWN != _UTC_KNOWN:
        return None
    return find_utc_ns(year, month, day, hour, minute, second, nano)
