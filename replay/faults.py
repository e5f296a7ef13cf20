"""Faults of sensors and lines for emulated devices, each in a window of the log's time.

Faults of sensors change measurements before they are encoded; anything with the interface of `SensorFault` can be
one. Faults of lines damage bytes, or take devices off the line. Nothing here depends on the time of day: the same
messages and faults give the same bytes.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from vehicled.messages import Measurement


class SensorFault(Protocol):
    """Changes measurements. Several are applied one after the other; each is used for one play of a log."""

    def apply(self, m: Measurement, t: float) -> Iterable[Measurement]:
        """Measurements that replace `m`: none, one, or several. `t`: of its arrival, s from the start of the log.

        None of them arrives earlier than `m` did.
        """


@dataclass(kw_only=True)
class _ChannelFault:
    channels: Sequence[str]
    """Channels of `vehicled.messages.CHANNELS`; a name ending in a dot stands for all that begin with it, as
    `imu.`."""
    begin: float = 0.0
    """s from the start of the log."""
    end: float = math.inf

    def apply(self, m: Measurement, t: float) -> Iterable[Measurement]:
        chosen = {
            c for c in m.values if any(c == w or (w[-1] == "." and c.startswith(w)) for w in self.channels)
        }
        if not chosen:
            return (m,)
        if not self.begin <= t < self.end:
            self._before(m, chosen)
            return (m,)
        return self._change(m, chosen, t)

    def _before(self, m: Measurement, chosen: set[str]) -> None:
        """Take a measurement outside the window."""

    def _change(self, m: Measurement, chosen: set[str], t: float) -> Iterable[Measurement]:
        raise NotImplementedError


def _with(m: Measurement, values: dict[str, float]) -> Iterator[Measurement]:
    if values:
        yield msgspec.structs.replace(m, values=values)


@dataclass(kw_only=True)
class Silence(_ChannelFault):
    """The channels are not measured."""

    def _change(self, m: Measurement, chosen: set[str], t: float) -> Iterable[Measurement]:
        return _with(m, {c: v for c, v in m.values.items() if c not in chosen})


@dataclass(kw_only=True)
class Freeze(_ChannelFault):
    """The channels keep the value that they had last."""

    def __post_init__(self) -> None:
        self._last: dict[str, float] = {}

    def _before(self, m: Measurement, chosen: set[str]) -> None:
        self._last |= {c: m.values[c] for c in chosen}

    def _change(self, m: Measurement, chosen: set[str], t: float) -> Iterable[Measurement]:
        return _with(m, m.values | {c: self._last.setdefault(c, m.values[c]) for c in chosen})


@dataclass(kw_only=True)
class Offset(_ChannelFault):
    """The channels measure too much."""

    by: float
    """In the unit of the channel."""
    per_second: float = 0.0
    """Its increase since `begin`."""
    factor: float = 1.0
    """On the value, before the offset is added."""

    def _change(self, m: Measurement, chosen: set[str], t: float) -> Iterable[Measurement]:
        offset = self.by + self.per_second * (t - self.begin)
        return _with(m, m.values | {c: self.factor * m.values[c] + offset for c in chosen})


@dataclass(kw_only=True)
class Multiply(_ChannelFault):
    """Measurements with one of the channels arrive several times, as from a device at a higher rate."""

    times: int
    interval: float = 0.0
    """Between two of them, s."""

    def _change(self, m: Measurement, chosen: set[str], t: float) -> Iterable[Measurement]:
        for k in range(self.times):
            later = round(k * self.interval * 1e9)
            yield msgspec.structs.replace(m, t=m.t + later, arrival=m.arrival + later)


@dataclass(frozen=True, kw_only=True)
class Unplugged:
    """Devices are off the line, and come back under the same name."""

    devices: Sequence[str]
    """By name."""
    begin: float
    """s from the start of the log."""
    end: float = math.inf


@dataclass(frozen=True, kw_only=True)
class BadLine:
    """A bad line, with the probability per message of each kind of damage."""

    device: str
    begin: float = 0.0
    """s from the start of the log."""
    end: float = math.inf
    garbage: float = 0.0
    """1 to 40 random bytes before it."""
    dropped: float = 0.0
    """One of its bytes missing."""
    flipped: float = 0.0
    """One of its bits wrong."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class WrongBaud:
    """A device sends at another baud rate than its port has been opened with: one of them is misconfigured."""

    device: str
    ratio: float
    """The device's baud rate over that of its port."""
    begin: float = 0.0
    """s from the start of the log."""
    end: float = math.inf


class LineDamage(Protocol):
    """Damage of a line to a device's messages."""

    counters: dict[str, int]

    def apply(self, message: bytes, t: float) -> bytes:
        """The bytes as they arrive, t seconds after the start of the log."""


class LineNoise:
    """Applies `BadLine` to the messages of a device, reproducibly, and counts the damage."""

    def __init__(self, noise: BadLine) -> None:
        self.noise = noise
        self._random = random.Random(noise.seed)
        self.counters = {"garbage": 0, "dropped": 0, "flipped": 0}

    def apply(self, message: bytes, t: float) -> bytes:
        """As `LineDamage`."""
        if not self.noise.begin <= t < self.noise.end:
            return message
        damaged = bytearray(message)
        if self._hits("flipped"):
            damaged[self._random.randrange(len(damaged))] ^= 1 << self._random.randrange(8)
        if self._hits("dropped"):
            del damaged[self._random.randrange(len(damaged))]
        if self._hits("garbage"):
            damaged[:0] = self._random.randbytes(self._random.randint(1, 40))
        return bytes(damaged)

    def _hits(self, fault: str) -> bool:
        hit: bool = self._random.random() < getattr(self.noise, fault)
        self.counters[fault] += hit
        return hit


class Resampled:
    """Applies `WrongBaud` to the messages of a device."""

    def __init__(self, fault: WrongBaud) -> None:
        self.fault = fault
        self.counters = {"resampled": 0}

    def apply(self, message: bytes, t: float) -> bytes:
        """As `LineDamage`."""
        if not self.fault.begin <= t < self.fault.end:
            return message
        self.counters["resampled"] += 1
        return read_at(message, self.fault.ratio)


def read_at(message: bytes, ratio: float) -> bytes:
    """Bytes that a serial port reads from a message sent without pauses at `ratio` times its baud rate.

    The port takes a falling edge as the beginning of a start bit, and samples in the middle of its own bits.
    If it finds no stop bit, Linux returns a zero byte.
    """
    line = bytearray([1])  # idle, then start bit, data from the lowest bit on, stop bit
    for byte in message:
        line += bytes([0, *(byte >> k & 1 for k in range(8)), 1])

    def sample(edge: int, bit: int) -> int:
        place = int(edge + (bit + 0.5) * ratio)
        return line[place] if place < len(line) else 1

    read = bytearray()
    edge = line.find(b"\1\0") + 1
    while edge:
        last = 0
        if not sample(edge, 0):  # else the start bit was too short to be one
            last = 9
            data = sum(sample(edge, k + 1) << k for k in range(8))
            read.append(data if sample(edge, last) else 0)
        edge = line.find(b"\1\0", int(edge + (last + 0.5) * ratio)) + 1
    return bytes(read)


LineFault = BadLine | WrongBaud
Fault = SensorFault | Unplugged | LineFault


def make_damage(fault: LineFault) -> LineDamage:
    """For one play of a log."""
    return LineNoise(fault) if isinstance(fault, BadLine) else Resampled(fault)
