"""u-blox receivers with the UBX protocol (interface description UBX-18010854, protocol version 15 and later).

| message | gives |
| --- | --- |
| NAV-PVT | quality, position, velocity, their accuracies, time of day |
| NAV-HPPOSLLH | position to 0.1 mm |
| NAV-COV | accuracies of one axis, from the covariances |
| NAV-RELPOSNED | heading of the baseline between two antennas, of a moving base |
| NAV-VELNED, NAV-STATUS | velocity, quality, where NAV-PVT is not sent |
| NAV-TIMEUTC | the fraction of the millisecond, likewise |
| NAV-EOE | that an epoch is complete |
| ESF-MEAS | the receiver's own gyroscopes and accelerometers, with the option `imu` |

NAV-PVT alone is enough. The messages of one epoch have the same time of week and become one measurement: with
NAV-EOE; or else with the last message of the epoch, as known from the epochs before; or when the receiver pauses.

Where a receiver sends NMEA instead, or begins to, its sentences are read. With both, UBX has more decimals and the
velocity's components, and NMEA is left out.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from drivers.clock import DeviceClock
from drivers.nmea import NmeaDecoder
from drivers.pvt import (
    FIX_2D,
    UBLOX,
    Pvt,
    find_accuracy,
    find_position,
    find_quality,
    find_solution,
    find_velocity,
    without_height,
)
from drivers.receiver import NMEA, UBX, ReceiverDriver, ReceiverOptions
from drivers.serial_port import nanoseconds
from vehicled.messages import Measurement

NAV_STATUS, NAV_PVT, NAV_VELNED, NAV_HPPOSLLH = 0x0103, 0x0107, 0x0112, 0x0114
NAV_TIMEUTC, NAV_COV, NAV_RELPOSNED, NAV_EOE = 0x0121, 0x0136, 0x013C, 0x0161
ESF_MEAS = 0x1002

STATUS = struct.Struct("<I4B2I")
VELNED = struct.Struct("<I3i2IiII")
HPPOSLLH = struct.Struct("<B2xBI4i4b2I")
TIMEUTC = struct.Struct("<IIiH6B")
COV = struct.Struct("<I3B9x12f")
RELPOSNED = struct.Struct("<BxHI5i4x4b5I4xI")

WEEK_MS = 604_800_000
_NS_PER_MS = 1_000_000
_PRECEDENCE = (NAV_STATUS, NAV_VELNED, NAV_PVT, NAV_HPPOSLLH, NAV_COV, NAV_RELPOSNED)
"""If several messages contain a channel, the value of the one later in this order counts."""
_NMEA_AFTER_NS = 1_200_000_000
"""After this time without a fix by UBX, NMEA is read; it is longer than the period of any receiver in a
car."""

_TIME_TAG_NS = 1_000_000
_ESF_CHANNELS = {  # by type of data: channel, and unit of the value
    **{14: ("imu.wx", math.radians(2.0**-12)), 13: ("imu.wy", math.radians(2.0**-12))},
    **{5: ("imu.wz", math.radians(2.0**-12)), 16: ("imu.ax", 2.0**-10)},
    **{17: ("imu.ay", 2.0**-10), 18: ("imu.az", 2.0**-10)},
}


@dataclass(frozen=True, kw_only=True)
class UbxOptions(ReceiverOptions):
    """Options of a u-blox receiver."""

    imu: bool = False
    """Take gyroscopes and accelerometers of the receiver (ESF-MEAS) as `imu.…`, in the axes of the receiver."""


class _Part(NamedTuple):
    """The contribution of one message to an epoch."""

    itow: int
    """ms."""
    values: dict[str, float]
    fraction_ns: int | None = None
    """Time of the epoch after `itow`, ns."""
    is_flat: bool = False
    """Whether the fix is two-dimensional, its height only assumed."""


def _read_status(payload: bytes) -> _Part:
    itow, fix, flags, _, flags2, *_ = STATUS.unpack_from(payload)
    return _Part(itow, {"gnss.quality": find_quality(fix, flags, flags2 >> 6)}, is_flat=fix == FIX_2D)


def _read_pvt(payload: bytes) -> _Part | None:
    pvt = Pvt(*UBLOX.unpack_from(payload))
    values = find_solution(pvt)
    if values is None:
        return None
    if len(payload) > 78 and payload[78] & 1:  # longitude, latitude and heights are not valid
        values = {c: v for c, v in values.items() if c not in ("gnss.lat", "gnss.lon", "gnss.alt")}
    fraction = _fraction(pvt.nano) if pvt.is_second_known else None
    return _Part(pvt.itow, values, fraction, pvt.fix == FIX_2D)


def _read_velned(payload: bytes) -> _Part | None:
    itow, vn, ve, vd, _, speed, course, s_acc, course_acc = VELNED.unpack_from(payload)
    values = find_velocity((vn, ve, vd), speed, course, s_acc, course_acc, 1e-2)
    return None if values is None else _Part(itow, values)


def _read_hpposllh(payload: bytes) -> _Part | None:
    version, flags, itow, lon, lat, height, _, lon_hp, lat_hp, height_hp, _, h_acc, v_acc = (
        HPPOSLLH.unpack_from(payload)
    )
    if version:
        return None
    if flags & 1:
        return _Part(itow, {})
    position = find_position(
        lat * 1e-7 + lat_hp * 1e-9, lon * 1e-7 + lon_hp * 1e-9, height * 1e-3 + height_hp * 1e-4
    )
    return None if position is None else _Part(itow, position | find_accuracy(h_acc, v_acc, 1e-4))


def _read_timeutc(payload: bytes) -> _Part:
    itow, _, nano, *_, valid = TIMEUTC.unpack_from(payload)
    return _Part(itow, {}, _fraction(nano) if valid & 4 else None)


def _read_cov(payload: bytes) -> _Part | None:
    itow, version, position_valid, velocity_valid, *c = COV.unpack_from(payload)
    variances = c[0], c[3], c[5], c[6], c[9]
    if version or not all(0.0 <= v < 1e12 for v in variances):
        return None
    values = {}
    if position_valid:
        values["gnss.h_acc"] = math.sqrt((c[0] + c[3]) / 2.0)
        values["gnss.v_acc"] = math.sqrt(c[5])
    if velocity_valid:
        values["gnss.s_acc"] = math.sqrt((c[6] + c[9]) / 2.0)
    return _Part(itow, {channel: v for channel, v in values.items() if v})


def _read_relposned(payload: bytes) -> _Part | None:
    if len(payload) < RELPOSNED.size or payload[0] != 1:  # version 0 has no heading
        return None
    *_, flags = fields = RELPOSNED.unpack_from(payload)
    itow, heading, accuracy = fields[2], fields[7], fields[16]
    # The fix, the baseline and its heading are valid, and the base moves with the car: the direction to a base that
    # stands beside the road is no heading.
    if not all(flags & bit for bit in (1 << 0, 1 << 2, 1 << 5, 1 << 8)):
        return _Part(itow, {})
    values = {"gnss.heading": math.radians(heading * 1e-5) % math.tau}
    if 0 < accuracy < 18_000_000:
        values["gnss.heading_acc"] = math.radians(accuracy * 1e-5)
    return _Part(itow, values)


def _read_eoe(payload: bytes) -> _Part:
    return _Part(int.from_bytes(payload[:4], "little"), {})


def _fraction(nano: int) -> int:
    """Fraction of the millisecond, ns, within ±0.5 ms: iTOW is rounded, and UTC differs by whole seconds."""
    return (nano + _NS_PER_MS // 2) % _NS_PER_MS - _NS_PER_MS // 2


_READERS: dict[int, tuple[int, Callable[[bytes], _Part | None]]] = {  # with the least length of the payload
    NAV_STATUS: (STATUS.size, _read_status),
    NAV_PVT: (UBLOX.size, _read_pvt),
    NAV_VELNED: (VELNED.size, _read_velned),
    NAV_HPPOSLLH: (HPPOSLLH.size, _read_hpposllh),
    NAV_TIMEUTC: (TIMEUTC.size, _read_timeutc),
    NAV_COV: (COV.size, _read_cov),
    NAV_RELPOSNED: (40, _read_relposned),
    NAV_EOE: (4, _read_eoe),
}


class _Epoch:
    """What the messages with one time of week contained so far."""

    def __init__(self, itow: int, stamp_ns: int) -> None:
        self.itow = itow
        self.stamp_ns = stamp_ns
        self.parts: dict[int, _Part] = {}
        self.t: int | None = None
        """When it was measured, once it has become a measurement."""

    def solve(self) -> dict[str, float]:
        """The channels of the measurement that its messages make."""
        values: dict[str, float] = {}
        for kind in _PRECEDENCE:
            if kind in self.parts:
                values |= self.parts[kind].values
        if values.get("gnss.quality") == 0.0:
            return {"gnss.quality": 0.0}  # no fix: whatever else was sent is not a measurement
        if any(part.is_flat for part in self.parts.values()):
            values = without_height(values)
        if "gnss.lat" not in values:
            values.pop("gnss.h_acc", None)
            values.pop("gnss.v_acc", None)
        if "gnss.vn" not in values:
            values.pop("gnss.s_acc", None)
        return values


class UbxDecoder(NmeaDecoder):
    """Joins the messages of one epoch into one measurement; reads NMEA where there are no such messages."""

    READS = (UBX, NMEA)

    def __init__(self, name: str, options: UbxOptions) -> None:
        super().__init__(name, options)
        self.counters |= {"other_messages": 0, "late_messages": 0}
        self._imu = options.imu
        self._week_clock = DeviceClock(
            tick_ns=1, wrap=WEEK_MS * _NS_PER_MS, latency_ns=nanoseconds(options.latency)
        )
        self._imu_clock = DeviceClock(tick_ns=_TIME_TAG_NS, wrap=1 << 32)
        self._now: _Epoch | None = None
        self._before: _Epoch | None = None
        self._complete: frozenset[int] = frozenset()
        """The messages with which an epoch is complete; none while that is not known."""
        self._solved_ns: int | None = None

    def reset(self) -> None:
        """Discard an incomplete message and the epoch that was being gathered."""
        super().reset()
        self._now = None

    def _decode_nmea(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        if self._solved_ns is None or stamp_ns - self._solved_ns > _NMEA_AFTER_NS:
            super()._decode_nmea(message, stamp_ns, arrival_ns, out)

    def _decode_ubx(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        kind = message[2] << 8 | message[3]
        payload = message[6:-2]
        if kind == ESF_MEAS and self._imu:
            self._decode_imu(payload, stamp_ns, arrival_ns, out)
            return
        if kind not in _READERS:
            self.counters["other_messages"] += 1
            return
        least, read = _READERS[kind]
        part = read(payload) if len(payload) >= least else None
        if part is None or part.itow >= WEEK_MS:
            self.counters["out_of_range"] += 1
            return
        self._take(kind, part, stamp_ns, arrival_ns, out)

    def _silence(self, length_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        super()._silence(length_ns, arrival_ns, out)
        if self._now is not None and self._now.t is None and length_ns > self._pause_ns:
            self._finish(self._now, arrival_ns, out)

    # Epochs

    def _take(self, kind: int, part: _Part, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        epoch = self._now
        if epoch is None or part.itow != epoch.itow:
            if self._before is not None and part.itow == self._before.itow:
                self._take_late(self._before, part, arrival_ns, out)
                return
            if epoch is not None:
                self._end(epoch, arrival_ns, out)
            epoch = self._now = _Epoch(part.itow, stamp_ns)
        if kind in epoch.parts:
            self.counters["repeated"] += 1
            return
        epoch.parts[kind] = part
        if epoch.t is not None:
            self._take_late(epoch, part, arrival_ns, out)
        elif kind == NAV_EOE or (self._complete and self._complete <= epoch.parts.keys()):
            self._finish(epoch, arrival_ns, out)

    def _take_late(self, epoch: _Epoch, part: _Part, arrival_ns: int, out: list[Measurement]) -> None:
        """Handle a part that comes after its epoch was emitted: only a heading becomes a measurement of its own."""
        if epoch.t is not None and "gnss.heading" in part.values:
            out.append(self._measured(epoch.t, arrival_ns, part.values))
        elif part.values:
            self.counters["late_messages"] += 1

    def _end(self, epoch: _Epoch, arrival_ns: int, out: list[Measurement]) -> None:
        """Another epoch begins. The messages that both this epoch and the one before had make an epoch complete."""
        if epoch.t is None:
            self._finish(epoch, arrival_ns, out)
        seen = epoch.parts.keys()
        if NAV_EOE in seen:
            self._complete = frozenset((NAV_EOE,))
        else:
            self._complete = (
                frozenset(seen & self._before.parts.keys()) if self._before is not None else frozenset()
            )
        self._before = epoch

    def _finish(self, epoch: _Epoch, arrival_ns: int, out: list[Measurement]) -> None:
        fraction = next((p.fraction_ns for p in epoch.parts.values() if p.fraction_ns is not None), 0)
        epoch.t = self._week_clock.to_host(epoch.itow * _NS_PER_MS + fraction, epoch.stamp_ns)
        self.counters["clock_restarts"] = self._week_clock.restarts
        values = epoch.solve()
        if values:
            self.in_use = UBX
            out.append(self._measured(epoch.t, arrival_ns, values))
        if "gnss.quality" in values or "gnss.lat" in values:
            self._solved_ns = epoch.stamp_ns
            self._epoch = None  # discard the NMEA epoch: it is the same fix

    # Inertial sensors

    def _decode_imu(self, payload: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        if len(payload) < 8:
            self.counters["out_of_range"] += 1
            return
        tag, flags = struct.unpack_from("<IH", payload)
        words = struct.unpack_from(f"<{(len(payload) - 8) // 4}I", payload, 8)
        values = {}
        for word in words[: flags >> 11 or None]:
            if (found := _ESF_CHANNELS.get(word >> 24 & 0x3F)) is not None:
                channel, unit = found
                values[channel] = ((word & 0xFFFFFF ^ 0x800000) - 0x800000) * unit  # 24 bits with a sign
        if values:
            out.append(self._measured(self._imu_clock.to_host(tag, stamp_ns), arrival_ns, values))


class Ubx(ReceiverDriver):
    """A u-blox receiver."""

    Options = UbxOptions

    def __init__(self, name: str, options: UbxOptions, emit: Callable[[Measurement], None]) -> None:
        super().__init__(name, options, emit, UbxDecoder(name, options))
