"""Measurement logs and estimates as CSV: `t` in seconds, a column per channel, blank without a value."""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self, TextIO

import msgspec
import numpy as np

from replay.lines import LONGEST_LINE, bounded_lines
from replay.problems import Problems
from replay.rows import ARRIVAL, RowMerger, TableRow, source_of
from replay.steps import MAX_GAP_NS
from replay.times import ISO_8601, format_seconds, is_date, parse_seconds
from vehicled.errors import UsageError
from vehicled.messages import CHANNELS, ESTIMATE_COLUMNS, LOAD_COLUMNS, Estimate, Measurement
from vehicled.points import ORIGIN, POINT_COLUMNS
from vehicled.terminal.output_files import open_output, open_text_output
from vehicled.units import Vector

ABSURD = {
    "m/s²": 1e4,
    "rad/s": 1e4,
    "rad": 1e7,
    "deg": 360.0,
    "m": 1e5,
    "m/s": 1e3,
    "Pa": 1e9,
    "N·m": 1e6,
    "s": 1e10,
    "": 1e3,
}
"""Largest magnitude, per unit, that a road vehicle's sensor measures; a larger value is damage."""

_NO_VALUE = {"", "na", "n/a", "#n/a", "#nv", "null", "none", "-", "--"}
"""Texts that programs write into a cell without a value, in lower case; `nan` is parsed as a number by
Python."""


def is_blank(text: str) -> bool:
    """Whether the text of a cell that is no number stands for a missing value."""
    return text.strip().lower() in _NO_VALUE


def drop_end(fields: list[str], width: int) -> list[str]:
    """The fields of a row without an empty one at the end: loggers may end rows, but no header, with a comma."""
    return fields[:-1] if len(fields) == width + 1 and not fields[-1].strip() else fields


Latest = dict[str, tuple[int, float]]
"""By channel: time (ns) and value of its last sample."""


def is_new(
    source: str, values: Mapping[str, float], t: int, latest: Latest, where: str, problems: Problems
) -> bool:
    """Whether a sample at t (ns) is the first one of its channels at that time; updates `latest`.

    A sensor may be spread over several rows of one time, as where each message of a bus has a row.
    """
    before = max((latest[channel][0] for channel in values if channel in latest), default=None)
    if before is not None and t <= before:
        if t == before:
            # One channel cannot be measured twice at one time: using both would count the measurement twice.
            repeats = all((t, value) == latest.get(channel) for channel, value in values.items())
            other = " again with other values, left out; expected the time when each was measured"
            kind, more = ("duplicate", "") if repeats else ("same time", other)
            problems.add(kind, where, f"{source}, t = {format_seconds(t)} s{more}")
            return False
        times = f"t = {format_seconds(t)} s after {format_seconds(before)} s"
        problems.add("time goes back", where, f"{source}, {times}; expected samples in order of time")
    else:
        latest.update({channel: (t, value) for channel, value in values.items()})
    return True


class _Group(NamedTuple):
    """Columns of the channels that one sensor measures together."""

    source: str
    columns: list[tuple[int, str, float]]
    """Index, channel, magnitude that would be absurd."""


class _Header(NamedTuple):
    width: int
    time: int
    arrival: int | None
    groups: list[_Group]


class CsvLog:
    """A measurement log in CSV. Faults are counted in `problems`; reading goes on."""

    recorded = False

    def __init__(self, path: str | Path) -> None:
        """Reads the header only. UsageError if it is not one of a measurement log."""
        self.path = Path(path)
        self.problems = Problems(self.path.name)
        with self._open() as file:
            self._header = _parse_header(self.path, read_header(self.path, file))

    def _open(self) -> TextIO:
        return open(self.path, encoding="utf-8-sig", errors="replace", newline="\n")

    @property
    def channels(self) -> list[str]:
        """The channels that have a column."""
        return [channel for group in self._header.groups for _, channel, _ in group.columns]

    def measurements(self) -> Iterator[Measurement]:
        """Yield a measurement per row and sensor, in the order of rows."""
        self.problems.clear()
        samples: Latest = {}
        previous: tuple[int, int, list[str]] | None = None
        latest: int | None = None
        for row in self._rows():
            # Rows are handled one row late, so that a single wrong time stamp can be distinguished from a
            # pause of the log.
            if previous is not None:
                number, t, _ = previous
                if latest is not None and t - latest > MAX_GAP_NS and row[1] < t - MAX_GAP_NS:
                    self.problems.add(
                        "absurd time", f"line {number}", f"t = {format_seconds(t)} s; row skipped"
                    )
                else:
                    yield from self._parse_row(*previous, samples)
                    latest = t
            previous = row
        if previous is not None:
            yield from self._parse_row(*previous, samples)

    def _rows(self) -> Iterator[tuple[int, int, list[str]]]:
        """(line number, t in ns, fields) of every row that has a time and the right number of fields."""
        width, time_column = self._header.width, self._header.time
        with self._open() as file:
            read_header(self.path, file)
            for number, line in bounded_lines(file, self.problems, first=2):
                if not line.strip():
                    continue
                fields = drop_end(line.rstrip("\r\n").split(","), width)
                if len(fields) != width:
                    kind = "bad row" if line.endswith("\n") else "truncated"
                    self.problems.add(kind, f"line {number}", f"{len(fields)} fields, not {width}")
                    continue
                try:
                    t = parse_seconds(fields[time_column])
                except ValueError as error:
                    text = fields[time_column]
                    hint = (
                        f" but a date: set `time: {{signal: t, unit: {ISO_8601}}}` in a mapping (--mapping)"
                    )
                    shown = f"{text[:40]!r} is {error}{hint if is_date(text) else ''}"
                    self.problems.add("bad time", f"line {number}", shown)
                    continue
                yield number, t, fields

    def _parse_row(self, number: int, t: int, fields: list[str], samples: Latest) -> Iterator[Measurement]:
        for source, columns in self._header.groups:
            values = {}
            for index, channel, absurd in columns:
                text = fields[index]
                if not text:
                    continue
                try:
                    value = float(text)
                except ValueError:
                    if not is_blank(text):
                        self.problems.add("bad number", f"line {number}", f"{channel} = {text[:20]!r}")
                    continue
                if -absurd <= value <= absurd:
                    values[channel] = value
                elif not math.isnan(value):
                    self.problems.add_absurd(channel, value, f"line {number}")
            if not values:
                continue
            if not is_new(source, values, t, samples, f"line {number}", self.problems):
                continue
            arrival = self._arrival(number, t, fields) if source == "gnss" else t
            yield Measurement(source, t, arrival, values)

    def _arrival(self, number: int, t: int, fields: list[str]) -> int:
        column = self._header.arrival
        if column is None or not fields[column].strip():
            return t
        try:
            arrival = parse_seconds(fields[column])
        except ValueError as error:
            self.problems.add("bad arrival", f"line {number}", f"{ARRIVAL} is {error}")
            return t
        if not t <= arrival <= t + MAX_GAP_NS:
            self.problems.add("bad arrival", f"line {number}", f"{ARRIVAL} = {format_seconds(arrival)} s")
            return t
        return arrival


def read_header(path: Path, file: TextIO) -> str:
    """The first line of a table. Raises UsageError if it is no text, or has no end where any header has one."""
    line = file.readline(LONGEST_LINE)
    if "\0" in line:
        is_utf16 = line.startswith("\ufffd\ufffd")  # its byte order mark, which is not valid UTF-8
        raise UsageError(
            f"{path}: line 1: expected text in UTF-8, got {'UTF-16' if is_utf16 else 'bytes of 0'}"
        )
    if "\r" in line.rstrip("\r\n"):
        raise UsageError(f"{path}: line 1: expected lines that end in LF or CR LF, got CR alone")
    if len(line) == LONGEST_LINE:
        raise UsageError(f"{path}: line 1: longer than {LONGEST_LINE} characters; expected a header line")
    return line


def _parse_header(path: Path, line: str) -> _Header:
    names = [name.strip().strip('"') for name in line.rstrip("\r\n").split(",")]
    if not line.strip():
        raise UsageError(f"{path}: empty; expected a header line such as t,imu.ax,imu.ay")
    other = max(";\t", key=line.count)
    if "t" in line.replace('"', "").split(other):
        raise UsageError(
            f"{path}: line 1: expected commas between columns and decimal points; of a table with {other!r}, give "
            "--mapping FILE with the line `channels: {}`"
        )
    if "t" not in names:
        raise UsageError(
            f"{path}: line 1: no column 't'; expected a header line such as t,imu.ax,imu.ay, or --mapping FILE "
            "that names the columns of another program"
        )
    groups: dict[str, _Group] = {}
    for index, name in enumerate(names):
        if names.index(name) != index:
            raise UsageError(f"{path}: line 1: column {name!r} is there twice")
        if name in ("t", ARRIVAL):
            continue
        if not name:
            raise UsageError(
                f"{path}: line 1: column {index + 1} has no name, as of a pandas index: write with `index=False`, or "
                "give --mapping FILE with the line `channels: {}`"
            )
        if name not in CHANNELS:
            raise UsageError(f"{path}: line 1: unknown column {name!r}; {_expected(name, names)}")
        source = source_of(name)
        group = groups.setdefault(source, _Group(source, []))
        group.columns.append((index, name, ABSURD[CHANNELS[name]]))
    if not groups:
        raise UsageError(f"{path}: line 1: no measurements; expected a header line such as t,imu.ax,imu.ay")
    return _Header(
        len(names),
        names.index("t"),
        names.index(ARRIVAL) if ARRIVAL in names else None,
        list(groups.values()),
    )


def _expected(name: str, names: Sequence[str]) -> str:
    if sum(n in ESTIMATE_COLUMNS for n in names) > len(names) // 2:
        return "expected a log of measurements, got a table of estimates or truth"
    near = difflib.get_close_matches(name, [*CHANNELS, ARRIVAL], n=1)
    return f"did you mean {near[0]!r}?" if near else "expected channels such as imu.ax, gnss.lat"


class CsvLogWriter:
    """Writes measurements as CSV, merging the sensors of one instant into one row. A context manager."""

    def __init__(self, path: str | Path, channels: Iterable[str]) -> None:
        """`channels` that the log will have; others must not be written."""
        self.merger = RowMerger(channels)
        self.rows = 0
        self._columns = [*self.merger.channels, *([ARRIVAL] if self.merger.has_arrival else [])]
        self._file = open_text_output(path)
        self._file.write(",".join(["t", *self._columns]) + "\n")

    def write(self, m: Measurement) -> None:
        """Take a measurement; writes those that are older than the newest by the window. Raises OSError."""
        self._write(self.merger.take(m))

    def _write(self, rows: Iterable[TableRow]) -> None:
        for row in rows:
            cells = {channel: repr(value) for channel, value in row.values.items()}
            if row.arrival is not None:
                cells[ARRIVAL] = format_seconds(row.arrival)
            line = [format_seconds(row.t), *(cells.get(c, "") for c in self._columns)]
            self._file.write(",".join(line) + "\n")
            self.rows += 1

    def close(self) -> None:
        """Write what is still held, and close the file."""
        self._write(self.merger.finish())
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EstimatesWriter:
    """Writes estimates as CSV, one row per step. A context manager.

    Numbers in the shortest form that reads back to the same double, so equal estimates give equal bytes.
    """

    def __init__(self, path: str | Path, point: Vector = ORIGIN, *, loads: bool = False) -> None:
        """`point`: point of the estimates; if it is not the vehicle origin, it is written in its own columns.

        `loads`: whether estimates have the forces in the joints, in columns before those.
        """
        self.rows = 0
        self._encode = msgspec.json.Encoder().encode
        named = point != ORIGIN
        self._point = b"".join(b",%b" % self._encode(p) for p in point) if named else b""
        self._file = open_output(path)
        self._has_loads = loads
        columns = [
            "t",
            *ESTIMATE_COLUMNS,
            *(LOAD_COLUMNS if loads else ()),
            *(POINT_COLUMNS if named else ()),
        ]
        self._file.write(",".join(columns).encode() + b"\n")

    def write(self, estimate: Estimate) -> None:
        """Append one row: time in s, then the values, blank for NaN. Raises OSError."""
        values = estimate.values.tolist()
        if self._has_loads and estimate.loads is not None:
            values += estimate.loads.tolist()
        # JSON also has the shortest numbers that read back unchanged, and its encoder is compiled.
        numbers = self._encode(values)[1:-1].replace(b"null", b"")
        self._file.write(b"%b,%b%b\n" % (format_seconds(estimate.t).encode(), numbers, self._point))
        self.rows += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Table(NamedTuple):
    """Estimates or truth over time."""

    t: np.ndarray
    """(n,) int64 ns, in the order of the file."""
    columns: dict[str, np.ndarray]
    """Per column of the file (n,) float64, NaN where blank."""
    problems: Problems


_LARGEST = 1e12
"""Largest value in any unit of these columns: far more than a wheel's angle in a year."""


def read_estimates(path: str | Path) -> Table:
    """Estimates or truth from CSV: `t` and any of `ESTIMATE_COLUMNS`, `LOAD_COLUMNS` and `POINT_COLUMNS`.

    UsageError on another column, and if it cannot be opened. Impossible values are left out.
    """
    path = Path(path)
    problems = Problems(path.name)
    times: list[int] = []
    rows: list[list[float]] = []
    try:
        table = open(path, encoding="utf-8-sig", errors="replace", newline="\n")  # noqa: SIM115
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}; expected a table of estimates or truth (.csv)"
        ) from None
    with table as file:
        names = [name.strip().strip('"') for name in read_header(path, file).rstrip("\r\n").split(",")]
        _check_estimate_columns(path, names)
        time_column = names.index("t")
        for number, line in bounded_lines(file, problems, first=2):
            fields = line.rstrip("\r\n").split(",")
            if len(fields) != len(names):
                if line.strip():
                    kind = "bad row" if line.endswith("\n") else "truncated"
                    problems.add(kind, f"line {number}", f"{len(fields)} fields, not {len(names)}")
                continue
            try:
                t = parse_seconds(fields[time_column])
                row = [float(text) if text else math.nan for text in fields]
            except ValueError as error:
                problems.add("bad number", f"line {number}", f"{error}; row skipped")
                continue
            times.append(t)
            rows.append(row)
    values = np.array(rows, dtype=float).reshape(len(rows), len(names))
    columns = {name: np.ascontiguousarray(values[:, i]) for i, name in enumerate(names) if name != "t"}
    for name, column in columns.items():
        absurd = np.flatnonzero(np.abs(column) > _LARGEST)
        for k in absurd:
            problems.add("absurd value", f"t = {format_seconds(times[k])} s", f"{name} = {column[k]:.6g}")
        column[absurd] = math.nan
    return Table(np.array(times, dtype=np.int64), columns, problems)


def _check_estimate_columns(path: Path, names: list[str]) -> None:
    if "t" not in names:
        raise UsageError(
            f"{path}: line 1: no column 't'; expected a header line such as t,x,y,yaw, as estimates have and "
            "`vehicled convert --truth` makes"
        )
    for name in names:
        if name not in ("t", *ESTIMATE_COLUMNS, *LOAD_COLUMNS, *POINT_COLUMNS):
            raise UsageError(f"{path}: line 1: unknown column {name!r}; {_expected_estimate(name, names)}")


def _expected_estimate(name: str, names: Sequence[str]) -> str:
    # Wheels have columns in both kinds of tables.
    if name in CHANNELS and 2 * sum(n in CHANNELS for n in names) >= len(names):
        return "expected a table of estimates or truth, got a log of measurements"
    near = difflib.get_close_matches(name, ESTIMATE_COLUMNS, n=1)
    return f"did you mean {near[0]!r}?" if near else "expected columns such as x, yaw, sideslip"
