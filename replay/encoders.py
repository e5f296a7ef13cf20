"""Encodes measurements as the devices would send them: the inverse of the decoders in `drivers`."""

import math
import struct
from binascii import crc_hqx
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

import can

from drivers import vectornav, xsens, xsens_packets
from drivers.can import CanOptions, CanSignal, find_signal, load_dbc, unit_factor
from drivers.framing import xor_checksum
from drivers.nmea import KNOT
from drivers.utc import UTC_CHANNEL
from vehicled.messages import CHANNELS, Measurement

IMU_CHANNELS = vectornav.ACCELERATION_CHANNELS + vectornav.RATE_CHANNELS
GNSS_CHANNELS = (
    *("gnss.lat", "gnss.lon", "gnss.alt", "gnss.quality", "gnss.hdop"),
    *("gnss.h_acc", "gnss.v_acc", "gnss.speed", "gnss.course", "gnss.heading", UTC_CHANNEL),
)
_START_NS = 36_000_000_000_000
"""Ten o'clock: time of day at the first measurement if it is not known; no date is sent then."""


class DeviceEncoder(Protocol):
    """A device on a serial line: what it would send for a measurement."""

    channels: tuple[str, ...]
    """What it can measure."""

    def encode(self, m: Measurement) -> bytes:
        """The bytes of one measurement, empty if the device has no such channels."""


class XsensEncoder:
    """MTData2 with packet counter, sample time, acceleration, rate of turn and status word."""

    channels: tuple[str, ...] = IMU_CHANNELS

    def __init__(self, number_format: int = xsens_packets.FLOAT32, counter: int = 0) -> None:
        """`counter`: of the first packet."""
        self._format = number_format
        self._counter = counter

    def encode(self, m: Measurement) -> bytes:
        """One MTData2 message, with acceleration and rate of turn where all three axes are known."""
        data = _packet(xsens_packets.PACKET_COUNTER, self._counter.to_bytes(2))
        self._counter = self._counter + 1 & 0xFFFF
        data += _packet(xsens_packets.SAMPLE_TIME_FINE, (m.t // xsens.TICK_NS % xsens.TICKS).to_bytes(4))
        for identifier, channels in (
            (xsens_packets.ACCELERATION, vectornav.ACCELERATION_CHANNELS),
            (xsens_packets.RATE_OF_TURN, vectornav.RATE_CHANNELS),
        ):
            if all(c in m.values for c in channels):
                numbers = [m.values[c] for c in channels]
                data += _packet(identifier | self._format, _xsens_numbers(self._format, numbers))
        data += _packet(xsens_packets.STATUS_WORD, bytes(4))
        return xbus_message(xsens.MTDATA2, data)


def xbus_message(identifier: int, data: bytes) -> bytes:
    """A message of the Xbus protocol: preamble, bus and message identifiers, length, data, checksum."""
    length = bytes((len(data),)) if len(data) < 0xFF else b"\xff" + len(data).to_bytes(2)
    body = bytes((0xFF, identifier)) + length + data
    return b"\xfa" + body + bytes((-sum(body) & 0xFF,))


def _packet(identifier: int, value: bytes) -> bytes:
    return identifier.to_bytes(2) + bytes((len(value),)) + value


def _xsens_numbers(number_format: int, numbers: list[float]) -> bytes:
    match number_format:
        case xsens_packets.FP1220:
            return struct.pack(">3i", *(round(v * 2**20) for v in numbers))
        case xsens_packets.FP1632:
            scaled = (round(v * 2**32) for v in numbers)
            return b"".join(struct.pack(">Ih", v & 0xFFFFFFFF, v >> 32) for v in scaled)
        case xsens_packets.FLOAT64:
            return struct.pack(">3d", *numbers)
    return struct.pack(">3f", *numbers)


class VectorNavEncoder:
    """VectorNav's output: `binary` group 1 with TimeStartup, AngularRate and Accel, or `ascii` VNIMU."""

    channels: tuple[str, ...] = IMU_CHANNELS

    def __init__(self, form: Literal["binary", "ascii"] = "binary") -> None:
        self._form = form

    def encode(self, m: Measurement) -> bytes:
        """One message; empty unless the measurement has all six channels of an IMU."""
        if not all(c in m.values for c in IMU_CHANNELS):
            return b""
        numbers = [m.values[c] for c in IMU_CHANNELS]
        if self._form == "ascii":
            fields = ["+00.0000,+00.0000,+00.0000"]  # magnetometer, then acceleration and rate
            fields += [f"{v:+08.4f}" for v in numbers[:3]] + [f"{v:+011.7f}" for v in numbers[3:]]
            return vectornav_line("VNIMU," + ",".join([*fields, "+20.0", "+101.325"]))
        fields_present = 1 << 0 | 1 << 5 | 1 << 8
        payload = struct.pack("<Q6f", m.t % 2**64, *numbers[3:], *numbers[:3])
        return vectornav_binary({0: fields_present}, payload)


def vectornav_line(body: str, crc: bool = False) -> bytes:
    """An ASCII line between `$` and checksum, which is XOR in two hex digits or, with `crc`, CRC-16 in four."""
    text = body.encode("ascii")
    check = b"%04X" % crc_hqx(text, 0) if crc else b"%02X" % xor_checksum(text)
    return b"$" + text + b"*" + check + b"\r\n"


def vectornav_binary(fields: dict[int, int], payload: bytes) -> bytes:
    """A binary message; fields: group, counted from 0, to its field word."""
    groups = sum(1 << g for g in fields)
    words = b"".join(fields[g].to_bytes(2, "little") for g in sorted(fields))
    body = bytes((groups,)) + words + payload
    return b"\xfa" + body + crc_hqx(body, 0).to_bytes(2)


def round_utc(seconds: float) -> int:
    """Seconds since 1970 as ns, to the microsecond, as a double has no more digits."""
    return round(seconds * 1e6) * 1000


class NmeaEncoder:
    """RMC, VTG, GGA and, where they are known, GST and HDT, with the decimals of an RTK receiver.

    separation: of the geoid from the ellipsoid, m; any value will do for a driver that adds it to the altitude.
    receiver: the first part of the channels that it measures.
    """

    def __init__(self, separation: float = 45.0, receiver: str = "gnss") -> None:
        named = (c.replace("gnss", receiver) for c in GNSS_CHANNELS)
        self.channels: tuple[str, ...] = tuple(c for c in named if c in CHANNELS)
        self._receiver = receiver
        self._separation = separation
        self._start_ns: int | None = None

    def encode(self, m: Measurement) -> bytes:
        """RMC, VTG, GGA and, with accuracies, GST, with a heading HDT; fields without a value stay empty."""
        values = {c.replace(self._receiver, "gnss"): v for c, v in m.values.items() if c in self.channels}
        return b"".join(nmea_sentence("GN" + body) for body in self._bodies(m.t, values))

    def _bodies(self, t: int, v: dict[str, float]) -> Iterator[str]:
        if self._start_ns is None:
            self._start_ns = t
        is_known = UTC_CHANNEL in v
        utc_ns = round_utc(v[UTC_CHANNEL]) if is_known else _START_NS + t - self._start_ns
        whole, rest = divmod(utc_ns, 1_000_000_000)
        utc = datetime.fromtimestamp(whole, UTC)
        date = f"{utc:%d%m%y}" if is_known else ""
        decimals = f"{rest:09d}"
        time = f"{utc:%H%M%S}." + (decimals[:3] if decimals[3:] == "000000" else decimals)
        quality = int(v.get("gnss.quality", 1 if "gnss.lat" in v else 0))
        position = f"{_minutes(v.get('gnss.lat'), 2, 'NS')},{_minutes(v.get('gnss.lon'), 3, 'EW')}"
        speed = v.get("gnss.speed")
        knots = _decimal(None if speed is None else speed / KNOT)
        kmph = _decimal(None if speed is None else speed * 3.6)
        course = _decimal(None if "gnss.course" not in v else math.degrees(v["gnss.course"]) % 360.0)
        status = "A" if quality else "V"
        mode = "NADPRFEMS"[quality]
        yield f"RMC,{time},{status},{position},{knots},{course},{date},,,{mode}"
        yield f"VTG,{course},T,,M,{knots},N,{kmph},K,{mode}"
        altitude, dilution = "gnss.alt" in v, _decimal(v.get("gnss.hdop"))
        height = _decimal(v["gnss.alt"] - self._separation) if altitude else ""
        separation = _decimal(self._separation) if altitude else ""
        yield f"GGA,{time},{position},{quality},12,{dilution},{height},M,{separation},M,,"
        if "gnss.h_acc" in v or "gnss.v_acc" in v:
            h, vertical = _decimal(v.get("gnss.h_acc")), _decimal(v.get("gnss.v_acc"))
            yield f"GST,{time},,{h},{h},,{h},{h},{vertical}"
        if "gnss.heading" in v:
            yield f"HDT,{math.degrees(v['gnss.heading']) % 360.0:.5f},T"


def nmea_sentence(body: str) -> bytes:
    """A sentence from its text between `$` and `*`, with its checksum."""
    text = body.encode("ascii")
    return b"$" + text + b"*%02X\r\n" % xor_checksum(text)


def _decimal(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _minutes(degrees: float | None, digits: int, sides: str) -> str:
    """`dddmm.mmmmmmmm,N`; counted in 1e-8 minutes (0.02 mm), so that rounding never makes 60 of them."""
    if degrees is None:
        return ","
    whole, minutes = divmod(round(abs(degrees) * 60e8), 60 * 10**8)
    minutes, decimals = divmod(minutes, 10**8)
    return f"{whole:0{digits}d}{minutes:02d}.{decimals:08d},{sides[degrees < 0]}"


class CanEncoder:
    """Encodes frames of a bus by its DBC file and the signal map of the driver.

    A message is sent with every measurement that has one of its channels, as soon as all its mapped signals
    have had a value; signals without a channel are 0.
    """

    def __init__(self, options: CanOptions) -> None:
        self.channels = tuple(options.signals)
        self._last: dict[str, float] = {}
        self._messages: dict[Any, dict[str, tuple[CanSignal, float]]] = {}
        database = load_dbc(options.dbc)
        for channel, signal in options.signals.items():
            message, dbc_signal = find_signal(database, options.dbc, channel, signal)
            factor = signal.scale * unit_factor(channel, signal, dbc_signal.unit)
            self._messages.setdefault(message, {})[channel] = signal, factor

    def encode(self, m: Measurement) -> list[can.Message]:
        """Frames of the messages that have one of its channels, once all their signals have had a value."""
        self._last |= {c: v for c, v in m.values.items() if c in self.channels}
        return [
            self._frame(message, mapped)
            for message, mapped in self._messages.items()
            if not mapped.keys().isdisjoint(m.values) and mapped.keys() <= self._last.keys()
        ]

    def _frame(self, message: Any, mapped: dict[str, tuple[CanSignal, float]]) -> can.Message:
        physical = {s.name: 0.0 for s in message.signals}
        for channel, (signal, factor) in mapped.items():
            value = (self._last[channel] - signal.offset) / factor
            if signal.roll_over is not None and signal.pulses_per_revolution is not None:
                pulses = value * signal.pulses_per_revolution / (2 * math.pi)
                value = math.floor(pulses + 1e-6) % signal.roll_over  # count a pulse that is just due
            s = message.get_signal_by_name(signal.signal)
            low = -math.inf if s.minimum is None else s.minimum
            high = math.inf if s.maximum is None else s.maximum
            physical[signal.signal] = min(max(value, low), high)
        return can.Message(
            arbitration_id=message.frame_id,
            is_extended_id=message.is_extended_frame,
            data=message.encode(physical),
        )
