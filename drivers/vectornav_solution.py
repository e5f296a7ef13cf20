"""Receivers and navigation filter of VectorNav sensors (manuals of VN-200 and VN-300, UM004 and UM005).

Messages may be sent far more often than there are fixes, and then repeat the last fix. A fix is new if its
time of week differs.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from drivers import reference
from drivers.pvt import find_position, without_height

RECEIVERS = {3: "gnss", 6: "gnss2"}
"""Group of a receiver, counted from 0, to the first part of its channels."""

# Fields of a receiver's group.
_TOW, _FIX, _PLACE, _VELOCITY, _PLACE_SIGMA, _VELOCITY_SIGMA = 1, 4, 5, 7, 9, 10
_ATTITUDES = ((0, 3), (4, 1))
_PLACES = ((0, 6), (5, 1))
_VELOCITIES = ((0, 7), (5, 4))
_STATUSES = ((5, 0), (0, 12))
_GPS_TIMES = ((0, 1), (1, 1), (1, 2))
_FIX_2D = 2
_QUALITY_OF_FIX = {0: 0.0, 1: 0.0, 2: 1.0, 3: 1.0, 4: 2.0, 7: 5.0, 8: 4.0}  # 1: time only; 4: SBAS; 7, 8: RTK
_TRACKING, _WITHOUT_GNSS = 2, 3
_WEEK_NS = 604_800_000_000_000
_OLDEST_NS = 2_000_000_000

Offsets = dict[tuple[int, int], int]
"""Where a field (group and number, both from 0) begins in a message."""


class RepeatedFix(NamedTuple):
    """The last fix of a receiver, which a message contains."""

    key: bytes
    """Equal for the same fix."""
    age_ns: int
    """Age of the fix at the time of the message, ns; 0 if the message has no time."""
    values: dict[str, float] | None
    """Channels `gnss.…`; None if they are impossible."""


def read_fix(offsets: Offsets, message: bytes, group: int) -> RepeatedFix | None:
    """The fix in the group of a receiver; None without the kind of fix: without one, the other fields are zeros."""
    if (group, _FIX) not in offsets:
        return None
    kind = message[offsets[group, _FIX]]
    read = _reader(offsets, message)
    place, velocity = read("<3d", (group, _PLACE)), read("<3f", (group, _VELOCITY))
    tow = read("<Q", (group, _TOW))
    now = read("<Q", *_GPS_TIMES)
    age = 0 if tow is None or now is None else int(now[0] - tow[0]) % _WEEK_NS
    key = repr((kind, tow) if tow is not None else (kind, place, velocity)).encode()
    sigma, speed_sigma = read("<3f", (group, _PLACE_SIGMA)), read("<f", (group, _VELOCITY_SIGMA))
    values = _fix_values(kind, place, velocity, sigma, None if speed_sigma is None else speed_sigma[0])
    return RepeatedFix(key, age if age < _OLDEST_NS else 0, values)


def read_reference(offsets: Offsets, message: bytes) -> dict[str, float]:
    """Channels `reference.…` of the navigation filter, if the message has its status and the filter is aligned."""
    read = _reader(offsets, message)
    status = read("<H", *_STATUSES)
    place, velocity, angles = read("<3d", *_PLACES), read("<3f", *_VELOCITIES), read("<3f", *_ATTITUDES)
    if status is None or (
        place is None and velocity is None
    ):  # a sensor without a receiver has no navigation filter
        return {}
    return _reference_values(int(status[0]), angles, place, velocity)


def read_gps_line(fields: Sequence[bytes]) -> dict[str, float] | None:
    """Channels `gnss.…` of the fields of an ASCII message VNGPS; None if they are impossible. Raises ValueError."""
    kind = int(fields[2])
    place, velocity, sigma = (_floats(fields[i : i + 3]) for i in (4, 7, 10))
    return _fix_values(kind, place, velocity, sigma, float(fields[13]))


def read_ins_line(fields: Sequence[bytes]) -> dict[str, float]:
    """Channels `reference.…` of the fields of an ASCII message VNINS. Raises ValueError."""
    angles, place, velocity = (_floats(fields[i : i + 3]) for i in (3, 6, 9))
    return _reference_values(int(fields[2], 16), angles, place, velocity)


def _floats(fields: Sequence[bytes]) -> tuple[float, ...]:
    if len(fields) != 3:
        raise ValueError("three numbers expected")
    return tuple(map(float, fields))


def _reader(offsets: Offsets, message: bytes) -> Callable[..., tuple[float, ...] | None]:
    """Function that reads the first of several fields present in the message; None if none is."""

    def read(form: str, *fields: tuple[int, int]) -> tuple[float, ...] | None:
        at = next((offsets[f] for f in fields if f in offsets), None)
        return None if at is None else struct.unpack_from(form, message, at)

    return read


def _fix_values(
    kind: int,
    place: tuple[float, ...] | None,
    velocity: tuple[float, ...] | None,
    sigma: tuple[float, ...] | None,
    speed_sigma: float | None,
) -> dict[str, float] | None:
    quality = _QUALITY_OF_FIX.get(kind)
    if not quality:
        return None if quality is None else {"gnss.quality": 0.0}
    values = {"gnss.quality": quality}
    if place is not None:
        found = find_position(*place)
        if found is None:
            return None
        values |= found
        if sigma is not None:
            north, east, down = sigma
            values |= {"gnss.h_acc": math.sqrt((north**2 + east**2) / 2.0), "gnss.v_acc": down}
    if velocity is not None:
        vn, ve, vd = velocity
        values |= {"gnss.vn": vn, "gnss.ve": ve, "gnss.vd": vd}
        values |= {"gnss.speed": math.hypot(vn, ve), "gnss.course": math.atan2(ve, vn) % math.tau}
        if speed_sigma is not None:
            values["gnss.s_acc"] = speed_sigma
    if not all(math.isfinite(v) and abs(v) < 1e9 for v in values.values()):
        return None
    values = {c: v for c, v in values.items() if v > 0.0 or not c.endswith("_acc")}
    return without_height(values) if kind == _FIX_2D else values


def _reference_values(
    status: int,
    angles: tuple[float, ...] | None,
    place: tuple[float, ...] | None,
    velocity: tuple[float, ...] | None,
) -> dict[str, float]:
    mode = status & 3
    values: dict[str, float] = {}
    if mode not in (_TRACKING, _WITHOUT_GNSS):
        return values
    if angles is not None:
        values |= reference.attitude_by_ned(*map(math.radians, angles))
    if mode == _TRACKING:  # without GNSS for 45 s, position and velocity stay as they were
        values |= {} if place is None else reference.position(place)
        values |= {} if velocity is None else reference.velocity(*velocity)
    return {c: v for c, v in values.items() if math.isfinite(v) and abs(v) < 1e6}
