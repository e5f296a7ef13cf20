"""Encodes measurements as a u-blox receiver would send them: the inverse of `drivers.ubx`."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime

from drivers import ubx
from drivers.pvt import DEAD_RECKONING, FIX_2D, FIX_3D, NO_FIX, UBLOX, UNKNOWN, Pvt
from drivers.receiver import ubx_checksum
from replay.encoders import round_utc
from vehicled.messages import CHANNELS, Measurement

_WEEK_BEGIN_NS = 1_717_286_382_000_000_000
"""2024-06-01T23:59:42Z: the begin of a week of GPS, which is ahead of UTC by 18 s."""
_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_FIX_OK, _DIFFERENTIAL = 1, 2
_CARRIER = {5: 1, 4: 2}  # by quality: RTK float, fixed
_TIME_VALID, _DATE_VALID = 0b110, 0b001
_NO_DATE = (0, 0, 0, 0, 0, 0)
_BASELINE_CM = 100
_HALF_TURN = 18_000_000  # 1e-5 deg
_MOVING_BASE = 1 << 0 | 1 << 2 | 2 << 3 | 1 << 5 | 1 << 8
"""Fix, baseline and heading valid, ambiguities fixed, the base moves."""


class UbxEncoder:
    """NAV-PVT, NAV-HPPOSLLH and, with a heading, NAV-RELPOSNED; at the end of an epoch NAV-EOE.

    Without a velocity, which NAV-PVT cannot mark as missing, NAV-STATUS and NAV-TIMEUTC replace it.
    """

    def __init__(self, receiver: str = "gnss") -> None:
        """`receiver`: the first part of the channels that it measures."""
        self._receiver = receiver
        self.channels: tuple[str, ...] = tuple(c for c in CHANNELS if c.startswith(f"{receiver}."))
        """Channels that it can measure."""

    def encode(self, m: Measurement) -> bytes:
        """The messages of one epoch; empty if the measurement has no channel of the receiver."""
        values = {c.removeprefix(f"{self._receiver}."): v for c, v in m.values.items() if c in self.channels}
        return b"".join(_messages(m.t, values)) if values else b""


def ubx_message(kind: int, payload: bytes) -> bytes:
    """A message from its class and identifier (high and low byte) and its payload."""
    body = kind.to_bytes(2) + len(payload).to_bytes(2, "little") + payload
    return b"\xb5\x62" + body + ubx_checksum(body)


def _messages(t: int, v: dict[str, float]) -> Iterator[bytes]:
    valid, date = _TIME_VALID, _NO_DATE
    if "utc" in v:
        utc_ns = round_utc(v["utc"])
        utc = datetime.fromtimestamp(utc_ns // _NS_PER_S, UTC)
        valid, date = valid | _DATE_VALID, utc.timetuple()[:6]
        t = utc_ns - _WEEK_BEGIN_NS
    itow = (t + _NS_PER_MS // 2) // _NS_PER_MS % ubx.WEEK_MS
    nano = t % _NS_PER_S
    quality = int(v.get("quality", 1 if "lat" in v else 0))
    fix = _find_fix(quality, "alt" in v)
    carrier = _CARRIER.get(quality, 0)
    flags = (_FIX_OK if quality else 0) | (_DIFFERENTIAL if quality in (2, 4, 5) else 0)
    longitude, latitude = round(v.get("lon", 0.0) * 1e9), round(v.get("lat", 0.0) * 1e9)
    height = round(v.get("alt", 0.0) * 1e4)
    h_acc, v_acc = v.get("h_acc", 0.0) * math.sqrt(2.0), v.get("v_acc", 0.0)
    if velocity := _find_velocity(v):
        pvt = Pvt(
            *(itow, *date, valid, 20, nano, fix, flags | carrier << 6, 0, 12),
            *(round(longitude / 100), round(latitude / 100), round(height / 10), round(height / 10)),
            *(round(h_acc * 1e3), round(v_acc * 1e3), *velocity),
        )
        yield ubx_message(ubx.NAV_PVT, UBLOX.pack(*pvt) + bytes(92 - UBLOX.size))
    else:
        yield ubx_message(ubx.NAV_STATUS, ubx.STATUS.pack(itow, fix, flags, 0, carrier << 6, 0, 0))
        yield ubx_message(ubx.NAV_TIMEUTC, ubx.TIMEUTC.pack(itow, 20, nano, *date, valid))
    if "lat" in v and "lon" in v:
        whole, parts = zip(
            *(_split(n, d) for n, d in ((longitude, 100), (latitude, 100), (height, 10))), strict=True
        )
        precise = (0, 0, itow, *whole, whole[2], *parts, parts[2], round(h_acc * 1e4), round(v_acc * 1e4))
        yield ubx_message(ubx.NAV_HPPOSLLH, ubx.HPPOSLLH.pack(*precise))
    if "heading" in v:
        north, east = (_BASELINE_CM * f(v["heading"]) for f in (math.cos, math.sin))
        angle = round(math.degrees(v["heading"]) * 1e5)
        baseline = (round(north), round(east), 0, _BASELINE_CM, angle, 0, 0, 0, 0)
        accuracies = (0, 0, 0, 0, round(math.degrees(v.get("heading_acc", 0.0)) * 1e5))
        fields = (1, 0, itow, *baseline, *accuracies, _MOVING_BASE)
        yield ubx_message(ubx.NAV_RELPOSNED, ubx.RELPOSNED.pack(*fields))
    yield ubx_message(ubx.NAV_EOE, itow.to_bytes(4, "little"))


def _find_fix(quality: int, has_height: bool) -> int:
    if not quality:
        return NO_FIX
    if quality == 6:
        return DEAD_RECKONING
    return FIX_3D if has_height else FIX_2D


def _find_velocity(v: dict[str, float]) -> tuple[int, ...] | None:
    """The fields of NAV-PVT from the velocity to the accuracy of the course; None without a velocity."""
    vector = all(c in v for c in ("vn", "ve", "vd"))
    if not vector and "speed" not in v:
        return None
    vn, ve, vd = (v[c] if vector else 0.0 for c in ("vn", "ve", "vd"))
    speed = v.get("speed", math.hypot(vn, ve))
    course = v.get("course", math.atan2(ve, vn) if vector else None)
    s_acc = round(v.get("s_acc", 0.0) * 1e3) if vector else UNKNOWN
    angle, accuracy = (
        (0, _HALF_TURN) if course is None else (round(math.degrees(course) * 1e5), _HALF_TURN // 180)
    )
    return (*(round(c * 1e3) for c in (vn, ve, vd, speed)), angle, s_acc, accuracy)


def _split(number: int, parts: int) -> tuple[int, int]:
    """Split a number of small units into whole units of `parts` each, and the rest, with the sign of the number."""
    whole = int(number / parts)
    return whole, number - whole * parts
