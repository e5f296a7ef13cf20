"""Sensors and control units on a CAN bus, their signals named in a DBC file.

Signals depend on the car; `signals` maps them to channels. For the prototype's
`prototype.dbc`, the options are:

    interface: socketcan
    channel: can0
    dbc: prototype.dbc
    signals:
      wheel.fl.angle: {message: WheelHall, signal: HallFL, roll_over: 65536, pulses_per_revolution: 96}
      wheel.fr.angle: {message: WheelHall, signal: HallFR, roll_over: 65536, pulses_per_revolution: 96}
      wheel.rl.angle: {message: WheelHall, signal: HallRL, roll_over: 65536, pulses_per_revolution: 96}
      wheel.rr.angle: {message: WheelHall, signal: HallRR, roll_over: 65536, pulses_per_revolution: 96}
      wheel.fl.speed: {message: WheelSpeed, signal: SpeedFL}
      wheel.fr.speed: {message: WheelSpeed, signal: SpeedFR}
      wheel.rl.speed: {message: WheelSpeed, signal: SpeedRL}
      wheel.rr.speed: {message: WheelSpeed, signal: SpeedRR}
      steer.wheel: {message: Steering, signal: SteeringWheelAngle}
      steer.rack: {message: Steering, signal: RackPosition}
      steer.fl: {message: Steering, signal: RoadWheelAngleFL}
      steer.fr: {message: Steering, signal: RoadWheelAngleFR}
      brake.pressure: {message: Brake, signal: BrakePressure}
      torque.rl: {message: WheelTorque, signal: TorqueRL}
      torque.rr: {message: WheelTorque, signal: TorqueRR}   # so torque.fl, torque.fr, torque.front, torque.rear
      vehicle.speed: {message: Vehicle, signal: VehicleSpeed}

Values are converted from the unit that the DBC file names (deg, bar, km/h, …) to the channel's.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import can
import cantools
from cantools.database.can import Database, Message
from cantools.database.can import Signal as DbcSignal

from drivers.base import Driver, Latency
from drivers.serial_port import nanoseconds
from drivers.slcan import BITRATES, SlcanPort, check_channel
from vehicled.errors import OptionError, UsageError
from vehicled.messages import CHANNELS, WHEELS, Measurement
from vehicled.reading.expectations import suggest
from vehicled.trust.bounded_file import read_bounded
from vehicled.units import (
    Metres,
    Positive,
    Range,
    Unit,
    UnitBy,
    UnitError,
    calc_factor,
)

_log = logging.getLogger(__name__)

_WAIT_S = 0.1
_OLDEST_S = 0.1  # an older stamp is from before the time of day was set
_STAMPED_HERE = frozenset({"socketcan", "slcan", "virtual"})
"""Interfaces that stamp frames by this machine's time of day. Adapters have clocks of their own, and frames from a
network are stamped by another machine: such stamps drift, and stay behind when the time of day is set."""
_MOST_WAITING = 100_000  # frames: more than any receive queue holds
_LARGEST_DBC = 16 << 20  # bytes; those of whole cars have up to 5 MB
_DBC_ENCODING = "cp1252"
_BUS_OFF = 0x40  # in the identifier of an error frame of SocketCAN


OFFSET_UNITS = {
    channel: Unit(unit, plain=True) for channel, unit in CHANNELS.items() if unit not in ("", "deg")
}
"""Units of offsets, by SI unit of the channel. An offset in degrees of latitude is then a plain number."""

WHEEL_SPEEDS = frozenset(f"wheel.{wheel}.speed" for wheel in WHEELS)
"""Channels for which `radius` may be given."""
NO_SCALE = "expected a number other than 0, with which all values would be the same, got 0"

RollingRadius = Annotated[Metres, Range(0.1, 2.0)]
"""Rolling radius of a wheel, m, from karts to lorries: reveals a radius in mm given as m."""


@dataclass(frozen=True, kw_only=True)
class CanSignal:
    """The signal on the bus that gives a channel."""

    message: str
    """Name of the message in the DBC file."""
    signal: str
    """Name of the signal in that message."""
    unit: str | None = None
    """Unit of the signal, if the DBC file gives none, or one that is not known."""
    scale: float = 1.0
    """Factor on the value in the channel's unit: −1 reverses the sign, a ratio accounts for a gear."""
    offset: Annotated[float, UnitBy(OFFSET_UNITS)] = 0.0
    """Added after `scale`: a quantity of the channel's dimension; a plain number is in the channel's unit."""
    roll_over: Annotated[int, Range(low=2)] | None = None
    """For a counter of pulses: the number of values before it starts again at 0 (65536 with 16 bits)."""
    pulses_per_revolution: Annotated[float, Positive] | None = None
    """For a counter of pulses: how many make one revolution."""
    radius: RollingRadius | None = None
    """For a wheel's speed in m/s or km/h: the rolling radius that it was calculated with."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong): a scale of 0, or only one of roll_over and pulses_per_revolution."""
        if self.scale == 0.0:
            yield "scale", NO_SCALE
        if (self.roll_over is None) != (self.pulses_per_revolution is None):
            yield "", "expected roll_over and pulses_per_revolution together, or neither"


@dataclass(frozen=True, kw_only=True)
class CanOptions:
    """Options of the CAN driver: where the bus is, and which of its signals are channels."""

    dbc: Path
    """DBC file with the messages."""
    signals: dict[str, CanSignal]
    """Channel to signal."""
    interface: str = "socketcan"
    """`socketcan`; `slcan` for an adapter on a serial port; or another interface of python-can."""
    channel: str = "can0"
    """Name of the network interface; with `slcan` the port: a path such as `/dev/ttyACM0`, or `socket://HOST:PORT`."""
    bitrate: Annotated[int, Positive] | None = None
    """Bits per second, where the interface is not configured by the system as SocketCAN is."""
    latency: Latency = 0.0
    """Least time from measurement to the arrival of the frame, s."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong): unknown interfaces and channels, options that slcan does not have."""
        if self.interface not in can.VALID_INTERFACES:
            hint = suggest(self.interface, sorted(can.VALID_INTERFACES))
            yield "interface", f"no interface {self.interface!r}; {hint}"
        if self.interface == "slcan" and self.bitrate not in (None, *BITRATES):
            yield "bitrate", f"expected one of {', '.join(map(str, BITRATES))} with slcan, got {self.bitrate}"
        if self.interface == "slcan" and (wrong := check_channel(self.channel)):
            yield "channel", wrong
        for channel, signal in self.signals.items():
            if channel not in CHANNELS:
                yield f"signals.{channel}", f"unknown channel; expected one of {', '.join(CHANNELS)}"
            elif signal.radius is not None and channel not in WHEEL_SPEEDS:
                yield f"signals.{channel}.radius", f"expected only for {', '.join(sorted(WHEEL_SPEEDS))}"


class _Counter:
    """Angle from a pulse counter that rolls over; between two values the shorter way round is assumed.

    So between two frames the count must change by less than half of the counter's range.
    """

    def __init__(self, roll_over: int, pulses_per_revolution: float) -> None:
        self.roll_over = roll_over
        self._radians = 2 * math.pi / pulses_per_revolution
        self._last: int | None = None
        self._total = 0

    def angle(self, count: int) -> float:
        if self._last is None:
            self._total = count
        else:
            half = self.roll_over // 2
            self._total += (count - self._last + half) % self.roll_over - half
        self._last = count
        return self._total * self._radians


@dataclass
class _Source:
    """One mapped signal, ready to be read."""

    channel: str
    signal: str
    low: float
    high: float
    scale: float
    offset: float
    counter: _Counter | None


class CanDecoder:
    """Frames in, measurements out: one per frame, with all channels that it carries. Never raises."""

    def __init__(self, name: str, options: CanOptions) -> None:
        self.name = name
        self.counters = {
            "bytes": 0,
            "messages": 0,
            "measurements": 0,
            "truncated": 0,
            "out_of_range": 0,
            "other_frames": 0,
            "error_frames": 0,
            "bus_off": 0,
        }
        self._named: set[str] = set()
        """Channels that have once been out of range."""
        self._latency_ns = nanoseconds(options.latency)
        self._sources: dict[tuple[int, bool], tuple[Message, list[_Source]]] = {}
        try:
            database = load_dbc(options.dbc)
        except UsageError as error:
            raise OptionError("dbc", str(error)) from None
        for channel, signal in options.signals.items():
            message, dbc_signal = find_signal(database, options.dbc, channel, signal)
            key = message.frame_id, message.is_extended_frame
            present, sources = self._sources.setdefault(key, (message, []))
            if present is not message:
                raise OptionError(
                    f"signals.{channel}",
                    f"{message.name} has the same identifier, 0x{message.frame_id:X}, as {present.name} of "
                    f"{sources[0].channel}: expected signals of one of them, as a frame can only be read as one",
                )
            sources.append(_source(channel, signal, dbc_signal))

    @property
    def filters(self) -> list[dict[str, Any]]:
        """The frames wanted, as python-can takes it: the kernel then filters out all others."""
        return [
            {"can_id": number, "can_mask": 0x1FFFFFFF if extended else 0x7FF, "extended": extended}
            for number, extended in self._sources
        ]

    def channel_of(self, frame: can.Message) -> str | None:
        """The first channel that a frame carries; None if it carries none."""
        _, sources = self._sources.get((frame.arbitration_id, frame.is_extended_id), (None, []))
        return sources[0].channel if sources and not frame.is_error_frame else None

    def feed(self, frame: can.Message, arrival_ns: int, age_ns: int = 0) -> list[Measurement]:
        """The measurement in a frame, if there is one.

        arrival_ns: ns, host monotonic clock. age_ns: how long it had then been here already.
        """
        if frame.is_error_frame:
            self.counters["error_frames"] += 1
            self.counters["bus_off"] += bool(frame.arbitration_id & _BUS_OFF)
            return []
        self.counters["bytes"] += len(frame.data)
        message, sources = self._sources.get((frame.arbitration_id, frame.is_extended_id), (None, []))
        if message is None or frame.is_remote_frame:
            self.counters["other_frames"] += 1
            return []
        try:
            decoded: Any = message.decode(bytes(frame.data), decode_choices=False)
        except (cantools.database.DecodeError, ValueError):  # too short, or a multiplexer value unknown
            self.counters["truncated"] += 1
            return []
        self.counters["messages"] += 1
        values = {}
        for source in sources:
            if source.signal in decoded:  # a multiplexed signal is not in every frame
                value = float(decoded[source.signal])
                if not source.low <= value <= source.high:
                    self.counters["out_of_range"] += 1
                    self._name_once(source, value)
                    continue
                if source.counter is not None:
                    value = source.counter.angle(int(value))
                values[source.channel] = value * source.scale + source.offset
        if not values:
            return []
        self.counters["measurements"] += 1
        return [Measurement(self.name, arrival_ns - age_ns - self._latency_ns, arrival_ns, values)]

    def _name_once(self, source: _Source, value: float) -> None:
        """Say which signal has left its range, the first time."""
        if source.channel not in self._named:
            self._named.add(source.channel)
            _log.warning(
                f"{self.name}: {source.channel} (signal {source.signal}) is {value:g}: expected {source.low:g} to "
                f"{source.high:g} by the DBC file; such values are ignored"
            )

    def reset(self) -> None:
        """Nothing to do: a frame is a complete message."""


def load_dbc(path: Path) -> Database:
    """The database of a DBC file. Raises UsageError where it cannot be read."""
    try:
        text = read_bounded(path, _LARGEST_DBC).decode(_DBC_ENCODING, errors="replace")
        database = cantools.database.load_string(text, database_format="dbc")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except (cantools.database.errors.Error, ValueError) as error:
        raise UsageError(f"{path}: expected a DBC file, got: {' '.join(str(error).split())}") from None
    assert isinstance(database, Database)  # what load_string gives for a DBC file
    return database


def find_signal(database: Database, path: Path, channel: str, signal: CanSignal) -> tuple[Message, DbcSignal]:
    """The message and signal of a channel. Raises UsageError naming those that there are."""
    try:
        message = database.get_message_by_name(signal.message)
    except KeyError:
        there = ", ".join(m.name for m in database.messages)
        text = f"no message {signal.message!r} in {path}: expected one of {there}"
        raise OptionError(f"signals.{channel}", text) from None
    try:
        return message, message.get_signal_by_name(signal.signal)
    except KeyError:
        there = ", ".join(s.name for s in message.signals)
        text = f"no signal {signal.signal!r} in {message.name}: expected one of {there}"
        raise OptionError(f"signals.{channel}", text) from None


def unit_factor(channel: str, signal: CanSignal, dbc_unit: str | None) -> float:
    """Factor from the signal's unit to the channel's. Raises UsageError."""
    if signal.roll_over is not None:
        return 1.0
    text = dbc_unit if signal.unit is None else signal.unit
    try:
        return calc_factor(text or "", CHANNELS[channel], signal.radius, channel in WHEEL_SPEEDS)
    except UnitError as error:
        raise OptionError(f"signals.{channel}", f"{error} (`unit` of the signal)") from None


def _source(channel: str, signal: CanSignal, dbc_signal: DbcSignal) -> _Source:
    # The limit is a multiple of the signal's step. Rounded in binary, it may be less than the decoded value.
    rounding = 0.0 if dbc_signal.is_float else 0.5 * abs(float(dbc_signal.scale))
    low = -math.inf if dbc_signal.minimum is None else float(dbc_signal.minimum) - rounding
    high = math.inf if dbc_signal.maximum is None else float(dbc_signal.maximum) + rounding
    counter = None
    if signal.roll_over is not None and signal.pulses_per_revolution is not None:
        counter = _Counter(signal.roll_over, signal.pulses_per_revolution)
        low, high = max(low, 0.0), min(high, signal.roll_over - 1.0)
    scale = signal.scale * unit_factor(channel, signal, dbc_signal.unit)
    # An IEEE 754 signal may be NaN or infinite: neither is within finite limits.
    limit = 1e300
    return _Source(channel, signal.signal, max(low, -limit), min(high, limit), scale, signal.offset, counter)


class Can(Driver):
    """Reads the mapped frames of a CAN bus: through python-can, or from an slcan adapter."""

    Options = CanOptions
    FAULTS = (OSError, can.CanError)

    def __init__(self, name: str, options: CanOptions, emit: Callable[[Measurement], None]) -> None:
        super().__init__(name, options, emit)
        self.decoder: CanDecoder = CanDecoder(name, options)
        self._bus: can.BusABC | SlcanPort | None = None

    @property
    def port(self) -> str | None:
        """Port of an slcan adapter, without baud rate; None for other buses, which may have several readers."""
        o: CanOptions = self.options
        return o.channel.partition("@")[0] if o.interface == "slcan" else None

    def _open(self) -> None:
        o: CanOptions = self.options
        if o.interface == "slcan":
            self._bus = SlcanPort(o.channel, o.bitrate, self.decoder.counters, self._discarded)
            return
        extra: dict[str, Any] = {} if o.bitrate is None else {"bitrate": o.bitrate}
        if o.interface == "socketcan":  # elsewhere python-can filters itself, and error frames with the rest
            extra["can_filters"] = self.decoder.filters
        self._bus = can.Bus(interface=o.interface, channel=o.channel, **extra)

    def _receive(self) -> tuple[bool, list[Measurement]]:
        assert self._bus is not None
        frame = self._bus.recv(_WAIT_S)
        if frame is None:
            return False, []
        now = time.monotonic_ns()
        channel = self.decoder.channel_of(frame)
        # Decoding a frame takes longer than all steps before it.
        key = frame.arbitration_id, frame.is_extended_id
        if channel is not None and not self.guard.admits(key, channel, now, frame.data):
            self._counters["decimated"] += 1
            return True, []
        offs = self.decoder.counters["bus_off"]
        # The kernel stamps a frame when it comes in; this thread may be woken milliseconds later.
        o: CanOptions = self.options
        age = time.time() - frame.timestamp if o.interface in _STAMPED_HERE else 0.0
        age_ns = round(age * 1e9) if 0.0 < age < _OLDEST_S else 0
        measurements = self.decoder.feed(frame, now, age_ns)
        if self.decoder.counters["bus_off"] > offs:
            raise can.CanOperationError("bus off")
        return True, measurements

    def _discard_waiting(self) -> int:
        assert self._bus is not None
        count = 0
        while count < _MOST_WAITING and self._bus.recv(0.0) is not None:
            count += 1
        return count

    def _close(self) -> None:
        if self._bus is not None:
            bus, self._bus = self._bus, None
            bus.shutdown()
