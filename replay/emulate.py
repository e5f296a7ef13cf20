"""Emulated devices: the other ends of the lines that drivers read, on pseudo-terminals and CAN interfaces.

For the drivers there is no difference to real devices, including unplugging and noise on the line.
"""

import contextlib
import os
import time
import tty
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import can

from replay.encoders import CanEncoder, DeviceEncoder, NmeaEncoder, VectorNavEncoder, XsensEncoder
from replay.slcan_adapter import SlcanAdapter
from replay.ubx_encoder import UbxEncoder
from vehicled.errors import UsageError
from vehicled.messages import Measurement

_CHUNK = 4096
_NS_PER_MS = 1_000_000

Damage = Callable[[bytes], bytes]
"""Damage that a line does to a message."""


class EmulatedDevice(Protocol):
    """The device's end of its line: sends what the driver reads."""

    channels: tuple[str, ...]
    """Channels that the device measures."""
    counters: dict[str, int]
    """`messages` put on the line, and what has become of their bytes."""

    def pack(self, m: Measurement) -> Sequence[Any]:
        """The messages or frames in which the device will send a measurement; none without such channels."""

    def send(self, packed: Sequence[Any], damage: Sequence[Damage] = ()) -> int:
        """Put them on the line; returns their number. None are put while unplugged."""

    def write(self, data: bytes) -> None:
        """Put raw bytes on the line."""

    def fileno(self) -> int | None:
        """File descriptor that is readable when the host has sent something; None if the device takes nothing."""

    def reply(self) -> None:
        """Take what the host has sent, and reply."""

    def unplug(self) -> None:
        """Take the device off the line; what is sent meanwhile is lost."""

    def replug(self) -> None:
        """Put it back where it was."""

    def close(self) -> None:
        """Take it off the line for good, and free its resources."""


class PseudoTerminal:
    """A serial line. The driver opens `link`, which stays the same when the device is replugged."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self.counters = {"messages": 0, "bytes": 0, "unread_bytes": 0}
        self._ends: tuple[int, int] | None = None
        self.replug()

    def write(self, data: bytes) -> None:
        """Put raw bytes on the line. Bytes not read in time are lost, as on a real line, but counted."""
        if self._ends is None:
            return
        try:
            written = os.write(self._ends[0], data)
        except BlockingIOError:
            written = 0
        self.counters["bytes"] += written
        self.counters["unread_bytes"] += len(data) - written

    def unplug(self) -> None:
        """Remove the device and its name; a program that has it open gets a hang-up."""
        if self._ends is not None:
            self.link.unlink(missing_ok=True)
            ends, self._ends = self._ends, None
            for end in ends:
                os.close(end)

    def replug(self) -> None:
        """Add the device again, under the same name but as another terminal."""
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

    def _put(self, messages: Sequence[bytes], damage: Sequence[Damage]) -> int:
        if self._ends is None:
            return 0
        if damage:
            messages = [_damaged(message, damage) for message in messages]
        if messages:
            self.counters["messages"] += len(messages)
            self.write(b"".join(messages))
        return len(messages)


def _damaged(message: bytes, damage: Sequence[Damage]) -> bytes:
    for change in damage:
        message = change(message)
    return message


class EmulatedSerial(PseudoTerminal):
    """A serial device that sends without requests, and receives nothing."""

    def __init__(self, link: Path, encoder: DeviceEncoder) -> None:
        self.channels = encoder.channels
        self._encoder = encoder
        super().__init__(link)

    def pack(self, m: Measurement) -> list[bytes]:
        """The bytes of the device's messages for a measurement."""
        data = self._encoder.encode(m)
        return [data] if data else []

    def send(self, packed: Sequence[bytes], damage: Sequence[Damage] = ()) -> int:
        """Write them at once."""
        return self._put(packed, damage)

    def fileno(self) -> None:
        """It takes nothing."""

    def reply(self) -> None:
        """It takes nothing."""


class EmulatedSlcan(PseudoTerminal):
    """All control units of a bus behind an slcan adapter; it sends while the host has its channel open."""

    def __init__(self, link: Path, encoder: CanEncoder) -> None:
        self.channels = encoder.channels
        self._encoder = encoder
        self.adapter = SlcanAdapter()
        super().__init__(link)

    def pack(self, m: Measurement) -> list[can.Message]:
        """The frames that the measurement makes due."""
        return self._encoder.encode(m)

    def send(self, packed: Sequence[can.Message], damage: Sequence[Damage] = ()) -> int:
        """Write the frames as lines, if the channel is open."""
        return self._put(self.adapter.lines(list(packed), time.monotonic_ns() // _NS_PER_MS), damage)

    def fileno(self) -> int | None:
        """The line, where it is plugged in."""
        return None if self._ends is None else self._ends[0]

    def reply(self) -> None:
        """Execute the host's commands."""
        if self._ends is not None:
            with contextlib.suppress(BlockingIOError):
                self.write(self.adapter.feed(os.read(self._ends[0], _CHUNK)))

    def replug(self) -> None:
        """The adapter starts anew, its channel closed."""
        self.adapter = SlcanAdapter()
        super().replug()


class EmulatedCan:
    """All control units of a bus, on one of python-can's interfaces, such as a virtual one of SocketCAN."""

    def __init__(self, interface: str, channel: str, encoder: CanEncoder) -> None:
        self.channels = encoder.channels
        self.counters = {"messages": 0, "send_errors": 0}
        self._encoder = encoder
        self._bus = can.Bus(interface=interface, channel=channel)
        self._plugged = True

    def pack(self, m: Measurement) -> list[can.Message]:
        """The frames that the measurement makes due."""
        return self._encoder.encode(m)

    def send(self, packed: Sequence[can.Message], damage: Sequence[Damage] = ()) -> int:
        """Send the frames. As a bus has checksums, a damaged frame is lost."""
        sent = 0
        for frame in packed if self._plugged else ():
            data = bytes(frame.data)
            if _damaged(data, damage) != data:
                continue
            try:
                self._bus.send(frame)
                sent += 1
            except (can.CanError, OSError):
                self.counters["send_errors"] += 1
        self.counters["messages"] += sent
        return sent

    def write(self, data: bytes) -> None:
        """Bytes that are no frame get lost."""

    def fileno(self) -> None:
        """It takes nothing."""

    def reply(self) -> None:
        """It takes nothing."""

    def unplug(self) -> None:
        """Send nothing from now on; the bus stays open."""
        self._plugged = False

    def replug(self) -> None:
        """Send again."""
        self._plugged = True

    def close(self) -> None:
        """Close the bus."""
        self._bus.shutdown()


def _emulate_can(options: Any) -> EmulatedDevice:
    encoder = CanEncoder(options)
    if options.interface == "slcan":
        return EmulatedSlcan(Path(options.channel.partition("@")[0]), encoder)
    return EmulatedCan(options.interface, options.channel, encoder)


def _on_serial(make_encoder: Callable[[Any], DeviceEncoder]) -> Callable[[Any], EmulatedDevice]:
    return lambda options: EmulatedSerial(Path(options.port), make_encoder(options))


_EMULATED: dict[str, Callable[[Any], EmulatedDevice]] = {
    "can": _emulate_can,
    "nmea": _on_serial(
        lambda o: NmeaEncoder(separation=0.0 if o.altitude == "as sent" else 45.0, receiver=o.channels)
    ),
    "ubx": _on_serial(lambda options: UbxEncoder(options.channels)),
    "vectornav": _on_serial(lambda _: VectorNavEncoder()),
    "xsens": _on_serial(lambda _: XsensEncoder()),
}
"""By kind of driver: function from its options to the emulated device."""


def emulate(kind: str, options: Any) -> EmulatedDevice:
    """The counterpart of a driver with these options: `options.port` or bus is what the driver will open.

    kind, options: as for `drivers.registry.load_driver` and its `Options`. Raises UsageError for a kind that
    cannot be emulated.
    """
    return _EMULATED[_check_kind(kind)](options)


def connect_options(kind: str, name: str, folder: Path) -> dict[str, str]:
    """The options with which a driver opens the emulated device `name`, its port in `folder`. Raises UsageError."""
    if _check_kind(kind) == "can":
        return {"interface": "slcan", "channel": str(folder / name)}
    return {"port": str(folder / name)}


def _check_kind(kind: str) -> str:
    if kind not in _EMULATED:
        raise UsageError(f"no emulation of {kind!r}: expected one of {', '.join(_EMULATED)}")
    return kind
