"""Position, velocity and time as u-blox receivers send them in NAV-PVT, and Xsens sensors from the receiver inside.

Both have the same fields, u-blox in little-endian and Xsens in big-endian order (u-blox 9 interface description
UBX-18010854, 5.14.11; Xsens MT low-level documentation MT0101P, GnssPvtData).
"""

import math
import struct
from typing import NamedTuple

from drivers.utc import UTC_CHANNEL, find_utc_ns

_FIELDS = "IH6BIi4B4i2I5i2I"
UBLOX = struct.Struct(f"<{_FIELDS}")
XSENS = struct.Struct(f">{_FIELDS}")

NO_FIX, DEAD_RECKONING, FIX_2D, FIX_3D, COMBINED, TIME_ONLY = range(6)
UNKNOWN = 0xFFFF_FFFF
"""Value of an accuracy for a quantity that was not measured."""
_FIX_OK, _DIFFERENTIAL = 1, 2
_QUALITY_OF_CARRIER = {1: 5.0, 2: 4.0}  # float, fixed
_NO_COURSE = 18_000_000
"""Accuracy of the course in 1e-5 deg from which on the course is unknown."""
_DATE, _RESOLVED_TIME = 1, 2 | 4


class Pvt(NamedTuple):
    """The fields as they are sent."""

    itow: int
    """Time of week of GPS, ms."""
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    valid: int
    time_accuracy: int
    nano: int
    """Offset of UTC from the whole second, ns; may be negative."""
    fix: int
    flags: int
    flags2: int
    satellites: int
    longitude: int
    """Unit 1e-7 deg; the latitude likewise."""
    latitude: int
    height: int
    """Height above the ellipsoid, mm; all lengths are in mm."""
    height_msl: int
    h_acc: int
    """Horizontal accuracy, mm: root of the sum of the variances of both axes."""
    v_acc: int
    vn: int
    """Velocity north, mm/s; all speeds are in mm/s."""
    ve: int
    vd: int
    speed: int
    course: int
    """Unit 1e-5 deg; its accuracy likewise."""
    s_acc: int
    course_acc: int

    @property
    def is_second_known(self) -> bool:
        """Whether the time within the day is right, leap seconds included."""
        return self.valid & _RESOLVED_TIME == _RESOLVED_TIME

    def find_utc_ns(self) -> int | None:
        """ns since 1970 UTC; None while date or time are not known."""
        if not (self.is_second_known and self.valid & _DATE):
            return None
        return find_utc_ns(self.year, self.month, self.day, self.hour, self.minute, self.second, self.nano)


def find_quality(fix: int, flags: int, carrier: int) -> float:
    """The quality of a fix by NMEA's numbers (0 none, 1 single, 2 DGNSS, 4 RTK fixed, 5 RTK float, 6 estimated).

    flags: 1, the fix is within the receiver's limits; 2, with corrections. carrier: 1, RTK float; 2, RTK fixed.
    """
    if fix == DEAD_RECKONING:
        return 6.0
    if fix not in (FIX_2D, FIX_3D, COMBINED) or not flags & _FIX_OK:
        return 0.0
    return _QUALITY_OF_CARRIER.get(carrier, 2.0 if flags & _DIFFERENTIAL else 1.0)


def find_position(latitude: float, longitude: float, height: float) -> dict[str, float] | None:
    """Channels of a position (deg, deg, m); None if it is not on the Earth."""
    if not (abs(latitude) <= 90.0 and abs(longitude) <= 180.0 and -1000.0 <= height <= 20_000.0):
        return None
    return {"gnss.lat": latitude, "gnss.lon": longitude, "gnss.alt": height}


def find_accuracy(h_acc: int, v_acc: int, unit: float) -> dict[str, float]:
    """Channels of the accuracy of a position; `unit` in m. Receivers send 0 for one that is unknown."""
    values = {"gnss.h_acc": h_acc * unit / math.sqrt(2.0), "gnss.v_acc": v_acc * unit}  # of one axis
    return {c: v for c, v in values.items() if 0.0 < v < UNKNOWN * unit / 2.0}


def find_velocity(
    components: tuple[int, int, int], speed: int, course: int, s_acc: int, course_acc: int, unit: float
) -> dict[str, float] | None:
    """Channels of a velocity (north, east, down); `unit` in m/s, the course in 1e-5 deg. None if it is impossible."""
    if max(map(abs, components)) * unit > 1000.0 or not 0.0 <= speed * unit <= 1000.0:
        return None
    values = {"gnss.speed": speed * unit}
    if course_acc < _NO_COURSE:
        values["gnss.course"] = math.radians(course * 1e-5) % math.tau
    if s_acc != UNKNOWN:
        vn, ve, vd = components
        values |= {"gnss.vn": vn * unit, "gnss.ve": ve * unit, "gnss.vd": vd * unit}
        if s_acc:
            values["gnss.s_acc"] = s_acc * unit
    return values


def find_solution(pvt: Pvt) -> dict[str, float] | None:
    """All channels of a solution, with its quality; None if it is impossible."""
    quality = find_quality(pvt.fix, pvt.flags, pvt.flags >> 6)
    if not quality:
        return {"gnss.quality": quality}
    position = find_position(pvt.latitude * 1e-7, pvt.longitude * 1e-7, pvt.height * 1e-3)
    velocity = find_velocity((pvt.vn, pvt.ve, pvt.vd), pvt.speed, pvt.course, pvt.s_acc, pvt.course_acc, 1e-3)
    if position is None or velocity is None:
        return None
    values = {"gnss.quality": quality, **position, **find_accuracy(pvt.h_acc, pvt.v_acc, 1e-3), **velocity}
    if (utc := pvt.find_utc_ns()) is not None:
        values[UTC_CHANNEL] = utc * 1e-9
    return without_height(values) if pvt.fix == FIX_2D else values


def without_height(values: dict[str, float]) -> dict[str, float]:
    """The channels that a fix in two dimensions measures: its height is assumed."""
    return {c: v for c, v in values.items() if c not in ("gnss.alt", "gnss.v_acc", "gnss.vd")}
