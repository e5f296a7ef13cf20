"""CSV of any other program: a header line with names, then rows of numbers."""

import codecs
import csv
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TextIO

from replay.csv_log import drop_end, is_blank, read_header
from replay.foreign.mapped_log import SignalRecord
from replay.foreign.mapping import LogMapping, map_own_names
from replay.lines import LONGEST_LINE, bounded_lines
from replay.problems import Problems
from replay.times import ISO_8601, is_date, parse_date, round_seconds
from vehicled.errors import UsageError

_DELIMITERS = "\t;,"
"""In the order in which they are tried: a comma may also be in numbers, or in names such as `v, km/h`."""


class CsvSignals:
    """Columns of a table. A blank cell is no sample; decimal commas are read, in quotes if commas separate."""

    def __init__(self, path: Path, largest: float = math.inf) -> None:
        """Reads the header only; UsageError if it has not several columns.

        Values beyond `largest`, in any unit, count as missing; times may be as large as they are in ns.
        """
        self.path = path
        self._largest = largest
        self.problems = Problems(path.name)
        self._encoding = _find_encoding(path)
        self._dates: str | None = None
        """Column of dates that gives the times of the rows."""
        self._reads_clock = True
        with self._open() as file:
            header = read_header(path, file)
            row = file.readline(LONGEST_LINE)
        self._delimiter = _find_delimiter(header, row)
        self._names = [name.strip() for name in self._split(header)]
        if len(self._names) < 2:
            got = f", got {header.strip()[:40]!r}" if header.strip() else ""
            raise UsageError(f"{path}: line 1: expected a header line with names of columns{got}")
        for i, name in enumerate(self._names):
            if name and self._names.index(name) != i:
                raise UsageError(f"{path}: line 1: column {name!r} is there twice")

    def _open(self) -> TextIO:
        return open(self.path, encoding=self._encoding, errors="replace", newline="\n")

    def _split(self, line: str) -> list[str]:
        return _split(line, self._delimiter)

    @property
    def has_clock(self) -> bool:
        """Whether there is a column `t`."""
        return "t" in self._names

    @property
    def units(self) -> Mapping[str, str]:
        """Units of the columns: empty, as a CSV file has none."""
        return {name: "" for name in self._names if name}

    def find_mapping(self) -> LogMapping:
        """The channels of this program that it has under their own names."""
        return map_own_names(self._names)

    def take_dates(self, column: str) -> None:
        """Use a column of ISO 8601 dates as the times of the rows."""
        self._dates = column

    def ignore_clock(self) -> None:
        """Do not read `t` as the time of a row, s: it is that of a mapped column."""
        self._reads_clock = False

    def records(self, wanted: Collection[str]) -> Iterator[SignalRecord]:
        """One per row; its time is that of the column of dates, of `t` in s if there is one, else 0."""
        columns = [(i, name) for i, name in enumerate(self._names) if name in wanted]
        name = self._dates or ("t" if self.has_clock and self._reads_clock else None)
        clock = None if name is None else self._names.index(name)
        with self._open() as file:
            read_header(self.path, file)
            for number, line in bounded_lines(file, self.problems, first=2):
                if not line.strip():
                    continue
                fields = drop_end(self._split(line), len(self._names))
                if len(fields) != len(self._names):
                    kind = "bad row" if line.endswith("\n") else "truncated"
                    self.problems.add(kind, f"line {number}", f"{len(fields)} fields, not {len(self._names)}")
                    continue
                t = 0 if clock is None else self._find_time(fields[clock], number)
                if t is None:
                    continue
                values = {name: self._number(fields[i], name, number) for i, name in columns}
                yield SignalRecord(t, t, values)

    def _find_time(self, text: str, number: int) -> int | None:
        """Time, ns; None if there is none, which is counted as a problem."""
        if self._dates is None:
            t = round_seconds(self._number(text, "t", number))
            if t is None:
                self.problems.add("no time", f"line {number}", "row skipped")
            return t
        try:
            return parse_date(text)
        except ValueError as error:
            shown = f"{self._dates} = {text.strip()[:40]!r}: {error}"
            self.problems.add("bad time", f"line {number}", f"{shown}; row skipped")
            return None

    def _number(self, text: str, name: str, number: int) -> float:
        text = text.strip().replace(",", ".")
        try:
            value = float(text) if text else math.nan
        except ValueError:
            if is_blank(text):
                return math.nan
            date = f", a date: set `time: {{signal: {name}, unit: {ISO_8601}}}`" if is_date(text) else ""
            self.problems.add("bad number", f"line {number}", f"{name} = {text[:40]!r}{date}")
            return math.nan
        if name != "t" and self._largest < abs(value) < math.inf:
            shown = f"{name} = {text[:40]}, expected {self._largest:g} at most"
            self.problems.add("absurd value", f"line {number}", shown)
            return math.nan
        return value


def _split(line: str, delimiter: str) -> list[str]:
    """The fields of a line; those in quotes may have delimiters, such as a decimal comma."""
    line = line.rstrip("\r\n")
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:  # a carriage return within a line
        return line.split(delimiter)


def _find_delimiter(header: str, row: str) -> str:
    """First delimiter with equal numbers of fields in header and next row, or the most frequent in the header."""
    for delimiter in _DELIMITERS:
        width = len(_split(header, delimiter))
        if 1 < width == len(drop_end(_split(row, delimiter), width)):
            return delimiter
    return max(_DELIMITERS, key=header.count)


def _find_encoding(path: Path) -> str:
    """UTF-8; UTF-16 by its byte order mark; or the encoding of Western Windows programs."""
    with open(path, "rb") as file:
        header = file.readline(LONGEST_LINE)
    if header.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        header.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"
