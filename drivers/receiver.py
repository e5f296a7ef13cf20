"""What the drivers of GNSS receivers have in common: options, and a line that carries several protocols.

Receivers send NMEA 0183 (text), UBX (u-blox binary) and RTCM 3 (corrections), often all on one port, and another one
after a reset or a change of their configuration. Each is cut out of the stream as whole messages, so that none is
garbage between those of another; a driver reads those that it has a decoder for.

- UBX: `B5 62`, class, identifier, length (16 bits, little-endian), payload, two bytes of Fletcher's checksum over all
  from the class on.
- RTCM 3: see `drivers.rtcm`.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal

from drivers.base import Latency
from drivers.framing import FoundFrame, FrameDecoder, parse_line, xor_checksum
from drivers.rtcm import parse_at_rtcm
from drivers.serial_port import SerialDriver, SerialOptions
from drivers.utc import UTC_CHANNEL
from vehicled.messages import Measurement
from vehicled.units import NonNegative, Seconds

NMEA, UBX, RTCM3 = "NMEA", "UBX", "RTCM3"
UBX_OVERHEAD = 8
LONGEST_UBX = 4096
"""Bytes of payload: raw measurements of all satellites have 3 kB."""

_LONGEST_LINE = 256  # the standard's 82 bytes are too few for coordinates to the centimetre
_CHECKSUM = re.compile(rb"\*([0-9A-Fa-f]{2})[\r\n]*$")
_SYNC = re.compile(rb"[$\xb5\xd3]")
_PROTOCOL_OF_SYNC = {0x24: NMEA, 0xB5: UBX, 0xD3: RTCM3}
_MOST_IN_VAIN, _VAIN_PER_BYTE = 16_384, 2
"""Budget of bytes in messages whose checksum fails: at once, and for each byte received. This is ten times
what damage on a line leads to."""
_SPOKEN_NS = 5_000_000_000
"""A protocol without messages for this time counts as no longer sent."""
_SETTLED_NS = 1_000_000_000
"""Time after a connection, and between lines of the log, in which a receiver shows all that it sends."""


def ubx_checksum(body: bytes | bytearray) -> bytes:
    """Fletcher's checksum of a UBX message from its class to the end of its payload: two bytes."""
    return bytes((sum(body) & 0xFF, sum(accumulate(body)) & 0xFF))


@dataclass(frozen=True, kw_only=True)
class ReceiverOptions(SerialOptions):
    """Options of all GNSS receivers."""

    latency: Latency = 0.03
    """Least time from the instant of the fix to the arrival of its first message, s.

    The receiver computes for so long; 30 ms is typical of an RTK receiver at 10 Hz or more, 50 to 100 ms of
    others. At 20 m/s each 10 ms of error here are 0.2 m along the track.
    """
    pause: Annotated[Seconds, NonNegative] = 0.03
    """Silence after which an epoch is taken to be complete, s."""
    channels: Literal["gnss", "gnss2"] = "gnss"
    """Which receiver of the car this is: its measurements are `gnss.…`, those of a second one `gnss2.…`."""


class ReceiverDecoder(FrameDecoder):
    """Cuts NMEA sentences, UBX and RTCM 3 messages out of a stream, and counts each protocol."""

    LONGEST = LONGEST_UBX + UBX_OVERHEAD
    READS: ClassVar[tuple[str, ...]] = ()
    """Protocols that the subclass turns into measurements."""

    def __init__(self, name: str, options: ReceiverOptions) -> None:
        super().__init__(name)
        self.counters |= {"nmea_messages": 0, "ubx_messages": 0, "rtcm3_messages": 0, "repeated": 0}
        self._prefix = options.channels
        self._received: dict[str, int] = {}
        self._in_vain = self._place = 0
        self.in_use: str | None = None
        """The protocol of the last measurement."""

    @property
    def protocols(self) -> tuple[str, ...]:
        """What the receiver has sent within the last 5 s."""
        now = self._last_ns or 0
        return tuple(p for p in (UBX, NMEA, RTCM3) if now - self._received.get(p, -_SPOKEN_NS) < _SPOKEN_NS)

    def _parse(self, buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
        match buffer[start]:
            case 0x24:
                return _parse_at_nmea(buffer, start)
            case 0xB5:
                return self._checked(_parse_at_ubx, buffer, start)
            case 0xD3:
                return self._checked(parse_at_rtcm, buffer, start)
        sync = _SYNC.search(buffer, start)
        return FoundFrame.GARBAGE, (len(buffer) if sync is None else sync.start()) - start

    def _checked(
        self, parse: Callable[[bytearray, int], tuple[FoundFrame, int]], buffer: bytearray, start: int
    ) -> tuple[FoundFrame, int]:
        """As `parse`, but limits the number of checksums computed in a stream full of false starts."""
        place = self.counters["bytes"] - len(buffer) + start
        self._in_vain = max(0, self._in_vain - _VAIN_PER_BYTE * (place - self._place))
        self._place = place
        if self._in_vain > _MOST_IN_VAIN:
            return FoundFrame.GARBAGE, 1
        kind, length = parse(buffer, start)
        if kind is FoundFrame.DAMAGED:
            self._in_vain += length
            length = 1
        return kind, length

    def _decode(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        protocol = _PROTOCOL_OF_SYNC[message[0]]
        self.counters[f"{protocol.lower()}_messages"] += 1
        self._received[protocol] = stamp_ns
        if protocol == NMEA:
            self._decode_nmea(message, stamp_ns, arrival_ns, out)
        elif protocol == UBX:
            self._decode_ubx(message, stamp_ns, arrival_ns, out)

    def _decode_nmea(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        """Appends the measurements that a sentence completes."""

    def _decode_ubx(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        """Appends the measurements that a message completes."""

    def _measured(self, t: int, arrival_ns: int, values: dict[str, float]) -> Measurement:
        """A measurement of the channels `gnss.…`, renamed to `gnss2.…` for a second receiver.

        Only the first receiver gives the time of day.
        """
        if self._prefix != "gnss":
            values = {re.sub(r"^gnss\b", self._prefix, c): v for c, v in values.items() if c != UTC_CHANNEL}
        return Measurement(self.name, t, arrival_ns, values)


def _parse_at_nmea(buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
    if start + 1 < len(buffer) and not 0x41 <= buffer[start + 1] <= 0x5A:
        return FoundFrame.GARBAGE, 1  # a byte of a damaged binary message: sentences begin with a letter
    kind, length = parse_line(buffer, start, _LONGEST_LINE)
    if kind is FoundFrame.MESSAGE:
        line = bytes(buffer[start : start + length])
        check = _CHECKSUM.search(line)
        if check is None:
            return FoundFrame.TRUNCATED, length
        if int(check[1], 16) != xor_checksum(line[1 : check.start()]):
            return FoundFrame.DAMAGED, length
    return kind, length


def _parse_at_ubx(buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
    """As `_parse`, but of a damaged message the length that was checked."""
    have = len(buffer) - start
    if have > 1 and buffer[start + 1] != 0x62:
        return FoundFrame.GARBAGE, 1
    if have < 6:
        return FoundFrame.MORE, 0
    payload = buffer[start + 4] | buffer[start + 5] << 8
    if payload > LONGEST_UBX:
        return FoundFrame.GARBAGE, 1
    total = payload + UBX_OVERHEAD
    if have < total:
        return FoundFrame.MORE, 0
    if ubx_checksum(buffer[start + 2 : start + total - 2]) != buffer[start + total - 2 : start + total]:
        return FoundFrame.DAMAGED, total
    return FoundFrame.MESSAGE, total


class ReceiverDriver(SerialDriver):
    """A GNSS receiver; the protocols that it sends are in its log and in its status."""

    decoder: ReceiverDecoder

    def __init__(
        self,
        name: str,
        options: ReceiverOptions,
        emit: Callable[[Measurement], None],
        decoder: ReceiverDecoder,
    ) -> None:
        super().__init__(name, options, emit, decoder)
        self._logged: tuple[tuple[str, ...], str | None] = (), None
        self._next_check_ns = 0

    def describe(self) -> dict[str, Any]:
        """With `protocol`, the one that is read, or null, and `protocols`, all that the receiver sends."""
        spoken = {"protocol": self.decoder.in_use, "protocols": list(self.decoder.protocols)}
        return {**super().describe(), **spoken}

    def _connected(self) -> None:
        super()._connected()
        self._next_check_ns = self._received_ns + _SETTLED_NS

    def _receive(self) -> tuple[bool, list[Measurement]]:
        received = super()._receive()
        now = time.monotonic_ns()
        if now >= self._next_check_ns:
            self._next_check_ns = now + _SETTLED_NS
            self._log_protocols()
        return received

    def _log_protocols(self) -> None:
        """A line in the log when what the receiver sends, or what is read of it, has changed."""
        protocols, in_use = self.decoder.protocols, self.decoder.in_use
        before, self._logged = self._logged, (protocols, in_use)
        if not protocols or self._logged == before:
            return
        sent, known = ", ".join(protocols), self.decoder.READS
        if not set(known) & set(protocols):
            self._log.warning("%s: the receiver sends %s, expected %s", self.name, sent, " or ".join(known))
        elif before[1] is not None and in_use != before[1]:
            self._log.warning(
                "%s: the receiver sends %s; %s is read, before %s", self.name, sent, in_use, before[1]
            )
        else:
            self._log.info("%s: the receiver sends %s; %s is read", self.name, sent, in_use or "nothing")
