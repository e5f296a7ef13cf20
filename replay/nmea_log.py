"""NMEA 0183 text, as receivers write it and people save it, through the decoder that the live driver uses."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from drivers.framing import xor_checksum
from drivers.nmea import NmeaDecoder, NmeaOptions, parse_time_of_day
from replay.lines import bounded_lines
from replay.problems import Problems
from replay.receiver_time import ReceiverTime
from vehicled.errors import UsageError
from vehicled.messages import Measurement

SUFFIXES = (".nmea", ".txt")

_DAY_NS = 86_400_000_000_000
_TIMED = re.compile(rb"\$(..(?:GGA|GNS|RMC|GST|ZDA),([\d.]{6,16})(?:,[^$*]*)?)\*([0-9A-Fa-f]{2})")
_KIND = re.compile(rb"\$..([A-Z]{3}),")
_PROBE = 100
"""Lines in which a file must show its first sentence."""


class NmeaLog:
    """The fixes in NMEA text. Problems are counted; reading goes on.

    Such a file has no times of arrival. Lines are assumed to arrive the configured latency after their UTC,
    in nanoseconds since the midnight before the first line.
    """

    recorded = False

    def __init__(self, path: str | Path, name: str, options: NmeaOptions) -> None:
        """`name` and `options` of the receiver. UsageError if the file has no NMEA sentences."""
        self.path = Path(path)
        self.problems = Problems(self.path.name)
        self._name, self._options = name, options
        with open(self.path, "rb") as file:
            lines = [line for _, line in islice(bounded_lines(file, self.problems), _PROBE)]
        first = next((of_day for line in lines if (of_day := _find_time(line)) is not None), None)
        if first is None:
            kinds = {found[1].decode("ascii"): None for line in lines if (found := _KIND.search(line))}
            others = f", only {', '.join(kinds)}: set the receiver to send GGA or RMC" if kinds else ""
            raise UsageError(
                f"{self.path}: no GGA, GNS or RMC with time and checksum in the first {_PROBE} lines{others}"
            )
        self._first = first

    def measurements(self) -> Iterator[Measurement]:
        """One per epoch, in the order of the log."""
        self.problems.clear()
        decoder = NmeaDecoder(self._name, self._options)
        latency = round(self._options.latency * 1e9)
        clock = ReceiverTime(_DAY_NS, self.problems)
        arrival = clock.advance(self._first) + latency
        with open(self.path, "rb") as file:
            for _, line in bounded_lines(file, self.problems):
                of_day = _find_time(line)
                if of_day is not None:
                    arrival = clock.advance(of_day) + latency
                yield from decoder.feed(line.rstrip(b"\r\n") + b"\r\n", arrival)
        yield from decoder.feed(b"", arrival + 1_000_000_000)  # the last epoch ends with the file
        for kind in ("checksum_errors", "truncated", "out_of_range", "repeated"):
            if count := decoder.counters[kind]:
                self.problems.add(f"NMEA {kind.replace('_', ' ')}", self._name, "", count)


def _find_time(line: bytes) -> int | None:
    """The time of day in a sentence, ns; None if it has none, or is damaged."""
    found = _TIMED.search(line)
    if found is None or int(found[3], 16) != xor_checksum(found[1]):
        return None
    return parse_time_of_day(found[2].decode("ascii"))
