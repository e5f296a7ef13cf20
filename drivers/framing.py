"""Finds the messages in a stream of bytes: common part of the decoders of all serial devices.

A decoder is a pure incremental parser. It has no port, no thread and reads no clock, so that live driver,
replay of a raw log and tests run the same code.
"""

import enum
import re
from collections import deque

from vehicled.messages import Measurement


class FoundFrame(enum.Enum):
    """What a decoder finds at one place of its buffer."""

    MESSAGE = enum.auto()
    """A message whose checksum holds."""
    MORE = enum.auto()
    """Perhaps the beginning of a message: too early to decide."""
    DAMAGED = enum.auto()
    """Shaped like a message, but its checksum fails."""
    TRUNCATED = enum.auto()
    """The beginning of a message whose end is missing."""
    GARBAGE = enum.auto()
    """No beginning of a message."""


class FrameDecoder:
    """Cuts messages out of a stream; what is between them is counted and skipped.

    A family of devices overrides `_parse` and `_decode`. Every byte fed is either part of a good message, or
    counted in `garbage_bytes`, or still in the buffer, which holds less than `LONGEST` bytes after each call.
    After damage the search goes on one byte behind the false start, so good messages inside are found.
    """

    LONGEST = 4096
    """Bytes of the longest message; `_parse` never needs more."""
    PATIENCE_NS = 250_000_000
    """Silence after which the rest of an incomplete message is not expected any more, ns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counters = {
            "bytes": 0,
            "messages": 0,
            "measurements": 0,
            "checksum_errors": 0,
            "truncated": 0,
            "garbage_bytes": 0,
            "out_of_range": 0,
            "clock_restarts": 0,
        }
        self._buffer = bytearray()
        self._chunks: deque[tuple[int, int]] = (
            deque()
        )  # (end in the stream, arrival) of what is in the buffer
        self._last_ns: int | None = None  # arrival of the newest byte

    def feed(self, data: bytes, arrival_ns: int) -> list[Measurement]:
        """Measurements that `data` completes. Empty `data` means that time has passed without any.

        arrival_ns: when `data` arrived, ns, host monotonic clock. Never raises, whatever the bytes.
        """
        out: list[Measurement] = []
        if self._last_ns is not None:
            self._silence(arrival_ns - self._last_ns, arrival_ns, out)
        if data:
            self._buffer += data
            self._last_ns = arrival_ns
            self.counters["bytes"] += len(data)
            self._chunks.append((self.counters["bytes"], arrival_ns))
            self._scan(arrival_ns, out)
        self.counters["measurements"] += len(out)
        return out

    @property
    def waiting(self) -> int:
        """Number of bytes of an incomplete message."""
        return len(self._buffer)

    def reset(self) -> None:
        """Discards an incomplete message: the connection was lost, so the rest will not come."""
        if self._buffer:
            self.counters["truncated"] += 1
            self.counters["garbage_bytes"] += len(self._buffer)
            self._drop(len(self._buffer))

    def _parse(self, buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
        """The frame at `start`, and its number of bytes (0 for MORE; the bytes to skip if not good)."""
        raise NotImplementedError

    def _decode(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        """Appends the measurements in one good message.

        stamp_ns: when its last byte arrived. arrival_ns: when it became available, which is later only if
        the decoder had to wait to distinguish it from damage before it.
        """
        raise NotImplementedError

    def _silence(self, length_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        if self._buffer and length_ns > self.PATIENCE_NS:
            self.counters["truncated"] += 1
            while self._buffer:
                self.counters["garbage_bytes"] += 1
                self._drop(1)
                self._scan(arrival_ns, out)

    def _scan(self, arrival_ns: int, out: list[Measurement]) -> None:
        counters = self.counters
        buffer = self._buffer
        at = 0
        while at < len(buffer):
            kind, length = self._parse(buffer, at)
            if kind is FoundFrame.MORE:
                break
            if kind is FoundFrame.MESSAGE:
                counters["messages"] += 1
                self._decode(bytes(buffer[at : at + length]), self._stamp(at + length), arrival_ns, out)
            else:
                counters["garbage_bytes"] += length
                if kind is FoundFrame.DAMAGED:
                    counters["checksum_errors"] += 1
                elif kind is FoundFrame.TRUNCATED:
                    counters["truncated"] += 1
            at += length
        self._drop(at)

    def _stamp(self, end: int) -> int:
        """Arrival of the byte before this place in the buffer, ns; calls must be in ascending order of places."""
        chunks = self._chunks
        end += self.counters["bytes"] - len(self._buffer)
        while chunks[0][0] < end:
            chunks.popleft()
        return chunks[0][1]

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        chunks = self._chunks
        begin = self.counters["bytes"] - len(self._buffer)
        while chunks and chunks[0][0] <= begin:
            chunks.popleft()


_LINE_BREAKERS = re.compile(rb"[^ -#%-~]")  # whatever is not printable, and the dollar sign


def parse_line(buffer: bytearray, start: int, longest: int) -> tuple[FoundFrame, int]:
    """Parse a text line that begins with the `$` at `start`, as `_parse` does; MESSAGE with its line end.

    Checks only the shape; the checksum is left to the caller.
    """
    found = _LINE_BREAKERS.search(buffer, start + 1, start + longest)
    if found is None:
        too_long = len(buffer) - start >= longest
        return (FoundFrame.GARBAGE, longest) if too_long else (FoundFrame.MORE, 0)
    end = found.start()
    match buffer[end]:
        case 0x0D:
            if end + 1 == len(buffer):
                return FoundFrame.MORE, 0
            return FoundFrame.MESSAGE, end - start + (2 if buffer[end + 1] == 0x0A else 1)
        case 0x0A:
            return FoundFrame.MESSAGE, end - start + 1
        case 0x24:
            return FoundFrame.TRUNCATED, end - start
    return FoundFrame.DAMAGED, end - start


def xor_checksum(text: bytes) -> int:
    """The exclusive or of all bytes, as NMEA 0183 has it between `$` and `*`."""
    result = 0
    for byte in text:
        result ^= byte
    return result
