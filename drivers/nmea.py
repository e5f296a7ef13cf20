"""GNSS receivers with NMEA 0183: GGA, GNS, RMC, VTG, GST, GSA, HDT, THS and ZDA of any talker.

A receiver sends one epoch in several sentences; they become one measurement. It is emitted with the
last sentence of the epoch, which is known from the epoch before, or else when the receiver pauses; never
only when the next epoch begins, which would make every fix one period late.

The UTC in the sentences is when the fix was valid; `drivers.clock` relates it to the host's clock.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pynmea2

from drivers.clock import DeviceClock
from drivers.receiver import NMEA, ReceiverDecoder, ReceiverDriver, ReceiverOptions
from drivers.serial_port import nanoseconds
from drivers.utc import UTC_CHANNEL, find_utc_ns
from vehicled.messages import Measurement

_MILE = 1852.0
"""m: a nautical mile, and a minute of latitude."""
KNOT = _MILE / 3600.0
"""m/s."""

_DAY_NS = 86_400_000_000_000
_UTC = re.compile(r"(\d\d)(\d\d)(\d\d)(?:\.(\d{1,9}))?")
_DATE = re.compile(r"(\d\d)(\d\d)(\d\d)")
_RMC_DATE = 8
"""Place of the date among the fields of RMC: pynmea2's own reading of it fails for damaged dates."""
_DEGREES_MINUTES = re.compile(r"(\d{1,3})(\d\d(?:\.\d+)?)")
_COARSE = 1.0
"""m, 1 σ: a rounding worse than the usual noise of fixes. It then counts also where a receiver does not say how
accurate it is."""
_FIXES = ("GGA", "GNS")
"""Sentences of a fix with its height: GNS is GGA with a mode for each satellite system."""
_DATA_SENTENCES = frozenset({*_FIXES, "RMC", "VTG", "GST", "HDT", "THS"})
_TIMED_SENTENCES = frozenset({*_FIXES, "RMC", "GST", "ZDA"})
_READ_SENTENCES = _DATA_SENTENCES | _TIMED_SENTENCES
_SENTENCE = re.compile(rb"\$([A-OQ-Z]\w)(\w{3}),([^*]*)\*[0-9A-Fa-f]{2}[\r\n]*")
"""Talker, type, and fields. A P begins a sentence of a manufacturer."""
_UNKNOWN_DILUTION = 99.0
"""Receivers send such a dilution of precision, or zero, if they do not know it."""
_QUALITY_OF_MODE = {"A": 1.0, "D": 2.0, "P": 3.0, "R": 4.0, "F": 5.0, "E": 6.0, "M": 7.0, "S": 8.0}
_BEST_FIRST = "RFPDAEMS"
"""Those modes; of several satellite systems, the first one counts."""


class THS(pynmea2.TalkerSentence):  # type: ignore[misc]  # no types
    """Sentence THS, heading and its mode, which pynmea2 lacks; pynmea2 finds it by the name of this class."""

    fields = (("Heading, true", "heading"), ("Mode", "mode"))


@dataclass(frozen=True, kw_only=True)
class NmeaOptions(ReceiverOptions):
    """Options of an NMEA receiver."""

    altitude: Literal["ellipsoid", "as sent"] = "ellipsoid"
    """`ellipsoid`: `gnss.alt` is the height above the WGS 84 ellipsoid, altitude plus geoid separation, and
    absent if the receiver leaves out the separation. `as sent`: the altitude field of GGA as it is."""


class _Epoch:
    """What the sentences of one epoch contained so far."""

    def __init__(self, stamp_ns: int) -> None:
        self.stamp_ns = stamp_ns
        self.utc_ns: int | None = None
        self.t: int | None = None
        self.seen: set[str] = set()
        self.values: dict[str, float] = {}
        self.rounding = 0.0
        """Error of its position by the last digit, m, 1 σ per axis."""
        self.emitted: set[str] = set()
        """Channels already emitted for this epoch, except the quality, which every measurement has."""


class NmeaDecoder(ReceiverDecoder):
    """Joins the sentences of one epoch into one measurement of position, speed, course, heading and accuracy."""

    READS: ClassVar[tuple[str, ...]] = (NMEA,)

    def __init__(self, name: str, options: ReceiverOptions) -> None:
        """`options`: of any receiver; if they are not NmeaOptions, the altitude is ellipsoidal."""
        super().__init__(name, options)
        self.counters |= {"other_sentences": 0}
        self._altitude_as_sent = isinstance(options, NmeaOptions) and options.altitude == "as sent"
        self._latency_ns = nanoseconds(options.latency)
        self._pause_ns = nanoseconds(options.pause)
        self._clock = DeviceClock(tick_ns=1, wrap=_DAY_NS, latency_ns=self._latency_ns)
        self._epoch: _Epoch | None = None
        self._previous: _Epoch | None = None
        self._paused = False
        self._expected: frozenset[str] = frozenset()  # data sentences of the last whole epoch

    def reset(self) -> None:
        """Discard an incomplete sentence and the epoch that was being gathered."""
        super().reset()
        self._epoch = None

    def _decode_nmea(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        found = _SENTENCE.fullmatch(message)
        kind = "" if found is None else found[2].decode("ascii").upper()
        if found is None or kind not in _READ_SENTENCES:
            self.counters["other_sentences"] += kind != "GSA"  # GSA has nothing that GGA and GST do not have
            return
        # pynmea2's own `parse` would compute the checksum again.
        talker, data = found[1].decode("ascii").upper(), found[3].decode("ascii").split(",")
        sentence: Any = pynmea2.TalkerSentence.sentence_types[kind](talker, kind, data)
        utc_ns = parse_time_of_day(sentence.data[0]) if kind in _TIMED_SENTENCES else None
        epoch = self._epoch_of(kind, utc_ns, stamp_ns, arrival_ns, out)
        if kind in epoch.seen:
            self.counters["repeated"] += 1  # another talker, or sent twice: the first one counts
            return
        epoch.seen.add(kind)
        values = self._read(kind, sentence, utc_ns)
        # RMC repeats the position of GGA, often with fewer decimals.
        if "gnss.lat" in values and (kind in _FIXES or "gnss.lat" not in epoch.values):
            epoch.rounding = _calc_rounding(sentence.lat)
        epoch.values = epoch.values | values if kind in _FIXES else values | epoch.values
        if self._expected and self._expected <= epoch.seen:
            self._emit(epoch, arrival_ns, out)

    def _silence(self, length_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        super()._silence(length_ns, arrival_ns, out)
        if self._epoch is not None and length_ns > self._pause_ns:
            self._emit(self._epoch, arrival_ns, out)
            self._paused = True

    # Epochs

    def _epoch_of(
        self, kind: str, utc_ns: int | None, stamp_ns: int, arrival_ns: int, out: list[Measurement]
    ) -> _Epoch:
        """The epoch that a sentence belongs to: the current one, or a new one that it begins."""
        epoch = self._epoch
        if epoch is not None:
            if utc_ns is not None and epoch.utc_ns is not None:
                over = utc_ns != epoch.utc_ns
            else:
                over = self._paused or (kind in epoch.seen and utc_ns is None)
            if over:
                self._emit(epoch, arrival_ns, out)
                self._expected = _DATA_SENTENCES & epoch.seen
                self._previous = epoch
                epoch = None
        if epoch is None:
            epoch = self._epoch = _Epoch(stamp_ns)
        self._paused = False
        if epoch.utc_ns is None and utc_ns is not None:
            epoch.utc_ns = utc_ns
            if self._previous is not None and self._previous.utc_ns == utc_ns:
                self._rejoin(epoch, self._previous)
            else:
                epoch.t = self._clock.to_host(utc_ns, epoch.stamp_ns)
                self.counters["clock_restarts"] = self._clock.restarts
        return epoch

    def _rejoin(self, epoch: _Epoch, previous: _Epoch) -> None:
        """Return a sentence without time, which seemed to begin a new epoch, to the previous epoch."""
        if epoch.seen & previous.seen:
            self.counters["repeated"] += 1
            epoch.values = {}
        epoch.seen |= previous.seen
        epoch.emitted |= previous.emitted
        epoch.t = previous.t
        self._expected = frozenset()  # the epoch from which it was learned was not whole

    def _emit(self, epoch: _Epoch, arrival_ns: int, out: list[Measurement]) -> None:
        values, epoch.values = epoch.values, {}
        if values.get("gnss.quality") == 0.0:
            values = {"gnss.quality": 0.0}  # no fix: whatever else was sent is not a measurement
        if "gnss.lat" in values and ("gnss.h_acc" in values or epoch.rounding > _COARSE):
            values["gnss.h_acc"] = math.hypot(values.get("gnss.h_acc", 0.0), epoch.rounding)
        # If an epoch is emitted in parts, RMC repeats the position of GGA, and VTG the velocity of RMC.
        values = {c: v for c, v in values.items() if c not in epoch.emitted}
        epoch.emitted |= values.keys() - {"gnss.quality"}
        if values:
            t = epoch.t if epoch.t is not None else epoch.stamp_ns - self._latency_ns
            self.in_use = NMEA
            out.append(self._measured(t, arrival_ns, values))

    # Fields

    def _read(self, kind: str, s: Any, of_day_ns: int | None) -> dict[str, float]:
        """Channels of one sentence; what is empty, out of range or marked invalid is absent."""
        values: dict[str, float | None] = {}
        match kind:
            case "GGA":
                quality = self._number(s.gps_qual, 0, 8)
                values["gnss.quality"] = quality
                if quality:
                    values |= self._position(s)
                    values["gnss.alt"] = self._altitude(s)
                    values["gnss.hdop"] = self._dilution(s.horizontal_dil)
            case "GNS":
                quality = next((_QUALITY_OF_MODE[m] for m in _BEST_FIRST if m in s.mode_indicator), 0.0)
                values["gnss.quality"] = quality
                if quality:
                    values |= self._position(s)
                    values["gnss.alt"] = self._altitude(s)
                    values["gnss.hdop"] = self._dilution(s.hdop)
            case "RMC":
                if s.status == "A" and s.mode_indicator != "N":
                    values = self._position(s)
                    values["gnss.quality"] = _QUALITY_OF_MODE.get(s.mode_indicator)
                    values["gnss.speed"] = self._number(s.spd_over_grnd, 0, 1000, KNOT)
                    values["gnss.course"] = self._number(s.true_course, 0, 360, math.pi / 180)
                    values[UTC_CHANNEL] = _find_utc(s.data[_RMC_DATE : _RMC_DATE + 1], of_day_ns)
            case "VTG":
                if s.faa_mode != "N":
                    values["gnss.speed"] = self._number(s.spd_over_grnd_kts, 0, 1000, KNOT)
                    if values["gnss.speed"] is None:
                        values["gnss.speed"] = self._number(s.spd_over_grnd_kmph, 0, 2000, 1 / 3.6)
                    values["gnss.course"] = self._number(s.true_track, 0, 360, math.pi / 180)
            case "HDT":
                values["gnss.heading"] = self._number(s.heading, 0, 360, math.pi / 180)
            case "THS":  # its other modes are dead reckoning, entered by hand, simulated or void
                if s.mode == "A":
                    values["gnss.heading"] = self._number(s.heading, 0, 360, math.pi / 180)
            case "GST":
                north = self._number(s.std_dev_latitude, 1e-6, 1e6)
                east = self._number(s.std_dev_longitude, 1e-6, 1e6)
                if north is not None and east is not None:
                    values["gnss.h_acc"] = math.sqrt((north**2 + east**2) / 2)
                values["gnss.v_acc"] = self._number(s.std_dev_altitude, 1e-6, 1e6)
        return {channel: value for channel, value in values.items() if value is not None}

    def _position(self, s: Any) -> dict[str, float | None]:
        latitude = self._angle(s.lat, s.lat_dir, "NS", 90.0)
        longitude = self._angle(s.lon, s.lon_dir, "EW", 180.0)
        if latitude is None or longitude is None:
            return {}
        return {"gnss.lat": latitude, "gnss.lon": longitude}

    def _angle(self, text: str, side: str, sides: str, limit: float) -> float | None:
        """Signed degrees of `dddmm.mmmm` and its hemisphere."""
        if not text or not side:
            return None
        parts = _DEGREES_MINUTES.fullmatch(text)
        if parts is None or side not in sides or float(parts[2]) >= 60.0:
            self.counters["out_of_range"] += 1
            return None
        degrees = float(parts[1]) + float(parts[2]) / 60.0
        if degrees > limit:
            self.counters["out_of_range"] += 1
            return None
        return degrees if side == sides[0] else -degrees

    def _altitude(self, s: Any) -> float | None:
        altitude = self._number(s.altitude, -1000, 20_000)
        if self._altitude_as_sent or altitude is None:
            return altitude
        separation = self._number(s.geo_sep, -200, 200)
        return None if separation is None else altitude + separation

    def _dilution(self, field: Any) -> float | None:
        hdop = self._number(field, 0, 1000)
        return hdop if hdop is not None and 0.0 < hdop < _UNKNOWN_DILUTION else None

    def _number(self, field: Any, low: float, high: float, unit: float = 1.0) -> float | None:
        """The number in a field in SI units; None if it is empty, or (counted) not within low…high."""
        if field is None or field == "":
            return None
        try:
            value = float(field)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            self.counters["out_of_range"] += 1
            return None
        return value * unit


def _calc_rounding(latitude: str) -> float:
    """Standard deviation of the error by the last digit of a latitude, m: uniform within half of it."""
    return _MILE * 10.0 ** -len(latitude.partition(".")[2]) / math.sqrt(12.0)


def _find_utc(date: list[str], of_day_ns: int | None) -> float | None:
    """s since 1970 UTC by a date `ddmmyy` and the time of that day; None without them."""
    parts = _DATE.fullmatch(date[0]) if date else None
    if parts is None or of_day_ns is None:
        return None
    day, month, year = map(int, parts.groups())
    # GPS time begins in 1980: receivers without a date begin there.
    utc = find_utc_ns(year + (1900 if year >= 80 else 2000), month, day, 0, 0, 0, of_day_ns)
    return None if utc is None else utc * 1e-9


def parse_time_of_day(text: str) -> int | None:
    """Time of day in `hhmmss.sss`, ns; None if empty or not a time."""
    parts = _UTC.fullmatch(text)
    if parts is None:
        return None
    hours, minutes, seconds = int(parts[1]), int(parts[2]), int(parts[3])
    if hours > 23 or minutes > 59 or seconds > 60:  # 60: a leap second
        return None
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + int((parts[4] or "").ljust(9, "0"))


class Nmea(ReceiverDriver):
    """An NMEA 0183 receiver."""

    Options = NmeaOptions

    def __init__(self, name: str, options: NmeaOptions, emit: Callable[[Measurement], None]) -> None:
        super().__init__(name, options, emit, NmeaDecoder(name, options))
