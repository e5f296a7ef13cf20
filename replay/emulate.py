"""Emulated devices: a log is sent as bytes to pseudo-terminals and to a CAN bus in real time.

For the drivers there is no difference to real devices, including unplugging and noise on the line.
"""

import os
import random
import threading
import time
import tty
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import can
import msgspec

from replay.encoders import CanEncoder, DeviceEncoder, NmeaEncoder, VectorNavEncoder, XsensEncoder
from vehicled.errors import UsageError
from vehicled.messages import Measurement


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Faults of a bad line, each with its probability per message."""

    garbage: float = 0.0
    """1 to 40 random bytes before it."""
    dropped: float = 0.0
    """One of its bytes missing."""
    flipped: float = 0.0
    """One of its bits wrong."""
    seed: int = 0


class LineNoise:
    """Applies `Faults` to a stream, reproducibly, and counts them."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._random = random.Random(faults.seed)
        self.counters = {"garbage": 0, "dropped": 0, "flipped": 0}

    def apply(self, data: bytes) -> bytes:
        """The bytes as they arrive: perhaps with a bit flipped, a byte lost, or up to 40 random bytes before them."""
        damaged = bytearray(data)
        if self._hits("flipped"):
            damaged[self._random.randrange(len(damaged))] ^= 1 << self._random.randrange(8)
        if self._hits("dropped"):
            del damaged[self._random.randrange(len(damaged))]
        if self._hits("garbage"):
            damaged[:0] = self._random.randbytes(self._random.randint(1, 40))
        return bytes(damaged)

    def _hits(self, fault: str) -> bool:
        hit: bool = self._random.random() < getattr(self._faults, fault)
        self.counters[fault] += hit
        return hit


class EmulatedDevice(Protocol):
    """The other end of a device's line: what the driver reads is sent here."""

    channels: tuple[str, ...]
    """What the device measures."""
    counters: dict[str, int]

    def pack(self, m: Measurement) -> Any:
        """What the device will send of a measurement."""

    def send(self, packed: Any, due_ns: int) -> None:
        """Put it on the line. due_ns: when a real device would have, host monotonic clock."""

    def unplug(self) -> None:
        """Take the device off the line; what is sent meanwhile is lost."""

    def replug(self) -> None:
        """Put it back where it was."""

    def close(self) -> None:
        """Take it off the line for good and free what it holds."""


class EmulatedSerial:
    """A serial device on a pseudo-terminal. The driver opens `link`, which stays the same when replugged."""

    def __init__(self, link: Path, encoder: DeviceEncoder, faults: Faults | None = None) -> None:
        self.link = link
        self.channels = encoder.channels
        self.noise = LineNoise(faults or Faults())
        self.counters = {"messages": 0, "bytes": 0, "unread_bytes": 0}
        self._encoder = encoder
        self._ends: tuple[int, int] | None = None
        self.replug()

    def pack(self, m: Measurement) -> bytes:
        """The bytes of the device's messages for a measurement; none if it has no such channels."""
        return self._encoder.encode(m)

    def send(self, packed: bytes, due_ns: int) -> None:
        """Write the bytes, with the faults, at once; a serial line carries no time, so `due_ns` is not used."""
        if packed:
            self.counters["messages"] += 1
            self.write(self.noise.apply(packed))

    def write(self, data: bytes) -> None:
        """Raw bytes onto the line. Bytes that are not read in time are lost, as on a real line, but counted."""
        if self._ends is None:
            return
        try:
            written = os.write(self._ends[0], data)
        except BlockingIOError:
            written = 0
        self.counters["bytes"] += written
        self.counters["unread_bytes"] += len(data) - written

    def unplug(self) -> None:
        """The device and its name are removed; a program that has it open gets a hang-up."""
        if self._ends is not None:
            self.link.unlink(missing_ok=True)
            ends, self._ends = self._ends, None
            for end in ends:
                os.close(end)

    def replug(self) -> None:
        """The device is there again, under the same name but as another terminal."""
        if self._ends is not None:
            return
        ours, theirs = os.openpty()
        tty.setraw(theirs)  # kept open: the line discipline stays raw while no driver has it open
        os.set_blocking(ours, False)
        self._ends = ours, theirs
        fresh = self.link.with_name(self.link.name + ".new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(os.ttyname(theirs))
        fresh.replace(self.link)

    def close(self) -> None:
        """Unplug it; the link is removed."""
        self.unplug()


class EmulatedCan:
    """All control units of a bus, on one of python-can's interfaces.

    On the virtual one, frames bear the time at which they were due: as on a real bus, whose controller stamps what
    comes in, they do not age while this process waits for its turn.
    """

    def __init__(self, interface: str, channel: str, encoder: CanEncoder) -> None:
        self.channels = encoder.channels
        self.counters = {"messages": 0, "send_errors": 0}
        self._encoder = encoder
        stamped: dict[str, Any] = {"preserve_timestamps": True} if interface == "virtual" else {}
        self._bus = can.Bus(interface=interface, channel=channel, **stamped)
        self._plugged = True

    def pack(self, m: Measurement) -> list[can.Message]:
        """The frames that the measurement makes due."""
        return self._encoder.encode(m)

    def send(self, packed: list[can.Message], due_ns: int) -> None:
        """Send the frames, stamped with the wall-clock time at which they were due (monotonic ns)."""
        for frame in packed:
            frame.timestamp = time.time() - (time.monotonic_ns() - due_ns) * 1e-9
            if self._plugged:
                try:
                    self._bus.send(frame)
                    self.counters["messages"] += 1
                except (can.CanError, OSError):
                    self.counters["send_errors"] += 1

    def unplug(self) -> None:
        """Send nothing from now on; the bus stays open."""
        self._plugged = False

    def replug(self) -> None:
        """Send again."""
        self._plugged = True

    def close(self) -> None:
        """Close the bus."""
        self._bus.shutdown()


def _emulate_can(options: Any, _: Faults | None) -> EmulatedDevice:
    return EmulatedCan(options.interface, options.channel, CanEncoder(options))


def _on_serial(
    make_encoder: Callable[[Any], DeviceEncoder],
) -> Callable[[Any, Faults | None], EmulatedDevice]:
    return lambda options, faults: EmulatedSerial(Path(options.port), make_encoder(options), faults)


_EMULATED: dict[str, Callable[[Any, Faults | None], EmulatedDevice]] = {
    "can": _emulate_can,
    "nmea": _on_serial(
        lambda options: NmeaEncoder(separation=0.0 if options.altitude == "as sent" else 45.0)
    ),
    "vectornav": _on_serial(lambda _: VectorNavEncoder()),
    "xsens": _on_serial(lambda _: XsensEncoder()),
}
"""By kind of driver: from its options to the emulated device."""


def emulate(kind: str, options: Any, faults: Faults | None = None) -> EmulatedDevice:
    """The counterpart of a driver with these options: `options.port` or bus is what the driver will open.

    kind, options: as for `drivers.registry.load_driver` and its `Options`. Raises UsageError for a kind that
    cannot be emulated.
    """
    return _EMULATED[_check_kind(kind)](options, faults)


def connect_options(kind: str, name: str, folder: Path) -> dict[str, str]:
    """The options with which a driver opens the emulated device `name`, its port in `folder`. Raises UsageError."""
    if _check_kind(kind) == "can":
        return {"interface": "virtual", "channel": str(folder)}
    return {"port": str(folder / name)}


def _check_kind(kind: str) -> str:
    if kind not in _EMULATED:
        raise UsageError(f"no emulation of {kind!r}: expected one of {', '.join(_EMULATED)}")
    return kind


class Emulation:
    """Plays a log on emulated devices: every sample is sent when it arrived, relative to the start.

    measurements: in any order. devices: name to device; a measurement whose source is one of the names goes
    to that device, any other to every device that has a channel for it.
    outages: device to spans, seconds from the start, during which it is unplugged.
    One thread sends everything, at absolute deadlines; what is late is sent at once, nothing is left out.
    """

    def __init__(
        self,
        measurements: Iterable[Measurement],
        devices: Mapping[str, EmulatedDevice],
        outages: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    ) -> None:
        self._devices = dict(devices)
        self._schedule = sorted(measurements, key=lambda m: m.arrival)
        self._begin_ns = self._schedule[0].arrival if self._schedule else 0
        self._plugs = sorted(
            ((round(at * 1e9), plug) for plug, at in _plugs(self._devices, outages or {})), key=lambda p: p[0]
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="emulation", daemon=True)
        self.offset_ns = 0
        """Host time less the log's time, ns; set by `start`."""
        self.sent = 0
        """Measurements sent so far."""
        self.latest_ns = 0
        """How late the latest of them was, ns."""

    def start(self, start_ns: int | None = None) -> None:
        """Begins at `start_ns`, host monotonic clock, or now."""
        self.offset_ns = (time.monotonic_ns() if start_ns is None else start_ns) - self._begin_ns
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of the log: whether it was reached."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Ends the play and closes all devices; harmless if called again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        while self._devices:
            self._devices.popitem()[1].close()

    def _run(self) -> None:
        plugs = iter(self._plugs)
        plug = next(plugs, None)
        for m in self._schedule:
            while plug is not None and plug[0] <= m.arrival - self._begin_ns:
                if not self._wait(self._begin_ns + plug[0]):
                    return
                plug[1]()
                plug = next(plugs, None)
            packed = self._pack(m)
            if not self._wait(m.arrival):
                return
            for device, message in packed:
                device.send(message, m.arrival + self.offset_ns)
            self.sent += 1

    def _wait(self, log_ns: int) -> bool:
        """Waits for a time of the log; whether to go on."""
        due = log_ns + self.offset_ns
        while (left := due - time.monotonic_ns()) > 0:
            if self._stopping.wait(left * 1e-9):
                return False
        self.latest_ns = max(self.latest_ns, -left)
        return not self._stopping.is_set()

    def _pack(self, m: Measurement) -> list[tuple[EmulatedDevice, Any]]:
        """Before it is due, which takes longer than sending."""
        named = self._devices.get(m.source)
        packed = []
        for device in [named] if named is not None else self._devices.values():
            values = {c: v for c, v in m.values.items() if c in device.channels}
            if values:
                packed.append((device, device.pack(msgspec.structs.replace(m, values=values))))
        return packed


def _plugs(
    devices: Mapping[str, EmulatedDevice], outages: Mapping[str, Sequence[tuple[float, float]]]
) -> Iterable[tuple[Callable[[], None], float]]:
    for name, spans in outages.items():
        for begin, end in spans:
            yield devices[name].unplug, begin
            yield devices[name].replug, end
