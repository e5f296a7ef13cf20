"""Logs of a CAN bus (`candump -L`, Vector ASC and BLF) through the decoder that the live driver uses."""

import re
from collections.abc import Iterable, Iterator, Mapping
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
        known = set(decoders.values())
        for frame in self._frames():
            # Times in frames are a double in seconds since 1970, good to a quarter of a microsecond.
            arrival = round(frame.timestamp * 1e9)
            for decoder, channel in decoders.items():
                # A bus of another name than any device's may be each of them: logs name buses as they like.
                if frame.channel == channel or frame.channel not in known:
                    yield from decoder.feed(frame, arrival)
        for decoder in decoders:
            for kind in ("truncated", "out_of_range", "error_frames", "bus_off"):
                if count := decoder.counters[kind]:
                    self.problems.add(f"CAN {kind.replace('_', ' ')}", decoder.name, "", count)

    def _frames(self) -> Iterator[can.Message]:
        reader: Iterable[can.Message] | None = None
        frames = 0
        try:
            if self.path.suffix.lower() == ".blf":
                check_blf(self.path)
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


class _GoodLines:
    """A text file without the lines that its reader cannot parse: too long, or other than `pattern`."""

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
