"""Logs of a u-blox receiver's bytes, as u-center and others save them, through the live driver's decoder."""

from collections.abc import Iterator
from pathlib import Path

from drivers.receiver import ubx_checksum
from drivers.ubx import (
    NAV_COV,
    NAV_EOE,
    NAV_PVT,
    NAV_STATUS,
    NAV_TIMEUTC,
    NAV_VELNED,
    WEEK_MS,
    UbxDecoder,
    UbxOptions,
)
from replay.problems import Problems
from replay.receiver_time import ReceiverTime
from vehicled.errors import UsageError
from vehicled.messages import Measurement

SUFFIXES = (".ubx",)

_TIMED = {NAV_COV, NAV_EOE, NAV_PVT, NAV_STATUS, NAV_TIMEUTC, NAV_VELNED}
"""Messages that begin with the time of week."""
_NS_PER_MS = 1_000_000
_SYNC = b"\xb5\x62"
_HEADER = 6
_LONGEST = 128
"""Largest size of such a message, bytes: NAV-PVT has 100."""
_CHUNK = 1 << 16
_PROBE = 1 << 20
"""Bytes in which a file must show its first epoch."""


class UbxLog:
    """Fixes in a receiver's bytes, UBX and NMEA. Problems are counted; reading goes on.

    Such a file has no times of arrival. Bytes are assumed to arrive the configured latency after the time of
    week of their epoch, in nanoseconds since the beginning of the first week.
    """

    recorded = False

    def __init__(self, path: str | Path, name: str, options: UbxOptions) -> None:
        """`name` and `options` of the receiver. UsageError if the file has no messages with a time."""
        self.path = Path(path)
        self.problems = Problems(self.path.name)
        self._name, self._options = name, options
        read = 0
        for data, itow in self._epochs():
            read += len(data)
            if itow is not None:
                return
            if read > _PROBE:
                break
        raise UsageError(
            f"{self.path}: no UBX message with a time of week in its first {min(read, _PROBE)} bytes"
        )

    def measurements(self) -> Iterator[Measurement]:
        """One per epoch, in the order of the log."""
        self.problems.clear()
        decoder = UbxDecoder(self._name, self._options)
        latency = round(self._options.latency * 1e9)
        clock = ReceiverTime(WEEK_MS * _NS_PER_MS, self.problems)
        arrival: int | None = None
        for data, itow in self._epochs():
            if itow is not None:
                arrival = clock.advance(itow * _NS_PER_MS) + latency
            if arrival is not None:
                yield from decoder.feed(data, arrival)
        if arrival is not None:
            yield from decoder.feed(b"", arrival + 1_000_000_000)  # the last epoch ends with the file
        for kind in ("checksum_errors", "truncated", "out_of_range", "repeated", "late_messages"):
            if count := decoder.counters[kind]:
                self.problems.add(f"UBX {kind.replace('_', ' ')}", self._name, "", count)

    def _epochs(self) -> Iterator[tuple[bytes, int | None]]:
        """Yield all bytes of the file in order: pieces, each with its time of week, ms, if it begins with one."""
        data, itow = b"", None
        with open(self.path, "rb") as file:
            while True:
                chunk = file.read(_CHUNK)
                data += chunk
                # Messages that begin beyond this may be incomplete.
                limit = max(0, len(data) - _LONGEST) if chunk else len(data)
                begin = at = 0
                while 0 <= (at := data.find(_SYNC, at)) < limit:
                    found = _find_itow(data, at)
                    if found is not None:
                        if at > begin:
                            yield data[begin:at], itow
                        begin, itow = at, found
                    at += 1
                if limit > begin:
                    yield data[begin:limit], itow
                    itow = None
                data = data[limit:]
                if not chunk:
                    return


def _find_itow(data: bytes, at: int) -> int | None:
    """The time of week in a message, ms; None if it has none, or is damaged."""
    if int.from_bytes(data[at + 2 : at + 4]) not in _TIMED:
        return None
    end = at + _HEADER + int.from_bytes(data[at + 4 : at + 6], "little")
    if not at + _HEADER + 4 <= end <= at + _LONGEST or data[end : end + 2] != ubx_checksum(
        data[at + 2 : end]
    ):
        return None
    itow = int.from_bytes(data[at + _HEADER : at + _HEADER + 4], "little")
    return itow if itow < WEEK_MS else None
