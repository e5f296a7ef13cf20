"""Logs of a CAN bus (`candump -L`, Vector ASC and BLF) through the decoder that the live driver uses."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import can
from can.io.canutils import CanutilsLogReader

from drivers.can import CanDecoder, CanOptions
from replay.blf_check import check_blf
from replay.lines import bounded_lines
from replay.problems import Problems
from vehicled.errors import UsageError
from vehicled.messages import Measurement

SUFFIXES = (".asc", ".blf", ".log")

_CANDUMP = re.compile(
    r"\(\d{1,12}\.\d{1,9}\)\s+\S+\s+[0-9A-Fa-f]{3,8}#(R\d?|#[0-9A-Fa-f](?:[0-9A-Fa-f]{2}){0,64}|(?:[0-9A-Fa-f]{2}){0,8})"
    r"(\s+[RT])?\s*"
)

_HEAD_S, _HEAD_FRAMES = 10.0, 50_000
"""Length of the beginning of a log, s, and frames, by which the bus of each channel is chosen."""


class CanLog:
    """The measurements in a CAN log, stamped with the log's own times. Problems are counted; reading goes on."""

    recorded = False

    def __init__(self, path: str | Path, devices: Mapping[str, CanOptions]) -> None:
        """`devices`: the CAN devices of the configuration, by name, with the mapping of frames. UsageError."""
        self.path = Path(path)
        self.problems = Problems(self.path.name)
        if not devices:
            raise UsageError(
                f"{self.path}: expected a configuration with a CAN device: a CAN log has no names"
            )
        self._devices = dict(devices)
        self.path.stat()

    def measurements(self) -> Iterator[Measurement]:
        """One per frame that carries channels, in the order of the log."""
        self.problems.clear()
        decoders = {CanDecoder(name, options): options.channel for name, options in self._devices.items()}
        frames = self._frames()
        head = list(_take_head(frames))
        buses = _choose_buses(decoders, head)
        left_out: Counter[tuple[CanDecoder, str]] = Counter()
        for frame in chain(head, frames):
            # Times in frames are a double in seconds since 1970, good to a quarter of a microsecond.
            arrival = round(frame.timestamp * 1e9)
            bus = str(frame.channel)
            for decoder, channel in decoders.items():
                if not _may_be(bus, channel, decoders):
                    continue
                if channel not in buses and decoder.channel_of(frame):
                    buses[channel] = bus
                if buses.get(channel, bus) == bus:
                    yield from decoder.feed(frame, arrival)
                elif decoder.channel_of(frame):
                    left_out[decoder, bus] += 1
        for (decoder, bus), count in left_out.items():
            taken, channel = buses[decoders[decoder]], decoders[decoder]
            if taken != channel:
                detail = f"its messages on bus {bus} are left out; {channel} was taken for bus {taken}"
                self.problems.add("CAN other bus", decoder.name, detail, count)
        for decoder in decoders:
            for kind in ("truncated", "out_of_range", "error_frames", "bus_off"):
                if count := decoder.counters[kind]:
                    self.problems.add(f"CAN {kind.replace('_', ' ')}", decoder.name, "", count)

    def _frames(self) -> Iterator[can.Message]:
        reader: Iterable[can.Message] | None = None
        frames = 0
        try:
            if self.path.suffix.lower() == ".blf":
                if (cut := check_blf(self.path)) is not None:
                    self.problems.add("truncated", f"byte {cut}", "the file ends within a container")
                reader = can.BLFReader(self.path)
            else:
                file = open(self.path, encoding="utf-8", errors="replace")  # noqa: SIM115
                if self.path.suffix.lower() == ".log":
                    reader = CanutilsLogReader(_GoodLines(file, self.problems, _CANDUMP))  # type: ignore[arg-type]
                else:
                    reader = can.ASCReader(_GoodLines(file, self.problems))  # type: ignore[arg-type]
            for frame in reader:
                frames += 1
                yield frame
        except Exception as error:  # python-can raises all kinds of exceptions on damage
            detail = " ".join(f"{type(error).__name__}: {error}".split())
            self.problems.add("unreadable", f"after frame {frames}", f"{detail}; the rest is skipped")
        finally:
            if isinstance(reader, can.io.generic.MessageReader):
                reader.stop()


def _take_head(frames: Iterator[can.Message]) -> Iterator[can.Message]:
    """The first frames of a log."""
    begin: float | None = None
    for frame in islice(frames, _HEAD_FRAMES):
        yield frame
        begin = frame.timestamp if begin is None else begin
        if frame.timestamp > begin + _HEAD_S:
            return


def _may_be(bus: str, channel: str, decoders: Mapping[CanDecoder, str]) -> bool:
    """Whether a bus of the log may belong to a channel: not if it has the name of another channel."""
    return bus == channel or bus not in decoders.values()


def _choose_buses(decoders: Mapping[CanDecoder, str], head: Iterable[can.Message]) -> dict[str, str]:
    """Choose the log's bus of each channel, as logs name or number buses in any way, from 0 on.

    A bus of the same name is preferred. Next, among buses with messages of the channel's devices: one of the
    same number (0 for `can0`), one that no other channel has yet, the one with most of these messages, the
    first one. A channel without messages gets none.
    """
    messages: dict[str, dict[str, set[int]]] = {channel: {} for channel in decoders.values()}
    for frame in head:
        bus = str(frame.channel)
        for decoder, channel in decoders.items():
            if bus == channel or (_may_be(bus, channel, decoders) and decoder.channel_of(frame)):
                messages[channel].setdefault(bus, set()).add(frame.arbitration_id)
    buses: dict[str, str] = {}
    for channel, candidates in messages.items():
        if candidates:
            buses[channel] = max(
                candidates,
                key=lambda bus: (
                    bus == channel,
                    _number(bus) == _number(channel.partition("@")[0]),
                    bus not in buses.values(),
                    len(candidates[bus]),
                ),
            )
    return buses


def _number(bus: str) -> str:
    """The digits at the end of a name."""
    return bus[len(bus.rstrip("0123456789")) :]


class _GoodLines:
    """A text file without lines that its reader cannot parse: those too long, or not matching `pattern`."""

    def __init__(self, file: TextIO, problems: Problems, pattern: re.Pattern[str] | None = None) -> None:
        self._file = file
        self._problems = problems
        self._pattern = pattern

    def __iter__(self) -> Iterator[str]:
        for number, line in bounded_lines(self._file, self._problems):
            if self._pattern is None or self._pattern.fullmatch(line):
                yield line
            elif line.strip():
                self._problems.add("bad line", f"line {number}", repr(line[:40]))

    def read(self) -> str:
        """python-can requires this method of a file."""
        return self._file.read()

    def close(self) -> None:
        self._file.close()
