"""Parquet: tables for pandas, polars, DuckDB and spreadsheets, with units and the configuration in their metadata."""

import contextlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from replay.csv_log import Table
from replay.foreign.extras import one_line, require
from replay.foreign.mapped_log import SignalRecord
from replay.foreign.mapping import LogMapping, map_own_names
from replay.log_about import LogAbout
from replay.problems import Problems
from replay.rows import ARRIVAL, RowMerger, TableRow
from replay.times import ISO_8601, round_seconds
from vehicled.errors import UsageError
from vehicled.messages import CHANNELS, Measurement
from vehicled.schemas import unit_of
from vehicled.terminal.output_files import open_output
from vehicled.version import __version__

SUFFIX = ".parquet"
MARK = b"PAR1"

_ROWS = 8192
"""Number of rows written or read at once."""
_TIMES = ("t", ARRIVAL)
"""Columns with integer nanoseconds."""


class ParquetLogWriter:
    """Writes measurements, merging the sensors of one instant into one row. A context manager.

    `t` and `gnss.arrival` are int64 nanoseconds, channels float64; null is no sample. Each column's metadata has its
    `unit`, the file's `vehicled` (JSON) has version, configuration and `utc_offset_ns`.
    """

    def __init__(self, path: str | Path, channels: Iterable[str], about: LogAbout) -> None:
        """`channels` that the log will have; others must not be written."""
        self.merger = RowMerger(channels)
        units = {c: CHANNELS[c] for c in self.merger.channels}
        arrival = {ARRIVAL: "ns"} if self.merger.has_arrival else {}
        self._table = _TableWriter(path, {**units, **arrival}, about)
        self._rows: list[TableRow] = []

    def write(self, m: Measurement) -> None:
        """Take a measurement; what is older than the newest by the window is written. Raises OSError."""
        self._rows.extend(self.merger.take(m))
        if len(self._rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        columns: dict[str, Any] = {c: [r.values.get(c) for r in self._rows] for c in self.merger.channels}
        if self.merger.has_arrival:
            columns[ARRIVAL] = [r.arrival for r in self._rows]
        self._table.write([r.t for r in self._rows], columns)
        self._rows.clear()

    def close(self) -> None:
        """Write what is still held, and close the file."""
        self._rows.extend(self.merger.finish())
        self._flush()
        self._table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if any(isinstance(part, OSError) for part in raised):
            self._table.abandon()
        else:
            self.close()


def write_estimates(path: str | Path, table: Table, about: LogAbout) -> None:
    """Estimates as Parquet, with the columns of the CSV table; `t` in ns, null where unknown."""
    writer = _TableWriter(path, {c: unit_of(c) for c in table.columns}, about)
    for begin in range(0, len(table.t), _ROWS):
        part = slice(begin, begin + _ROWS)
        columns = {
            c: [None if math.isnan(v) else v for v in values[part].tolist()]
            for c, values in table.columns.items()
        }
        writer.write(table.t[part].tolist(), columns)
    writer.close()


class _TableWriter:
    def __init__(self, path: str | Path, units: Mapping[str, str], about: LogAbout) -> None:
        """`units` by column beside `t`."""
        self._arrow = require("pyarrow", "parquet", Path(path))
        parquet = require("pyarrow.parquet", "parquet", Path(path))
        fields = [
            self._arrow.field(
                name,
                self._arrow.int64() if name in _TIMES else self._arrow.float64(),
                nullable=name != "t",
                metadata={"unit": unit},
            )
            for name, unit in {"t": "ns", **units}.items()
        ]
        described = {"vehicled": json.dumps({"version": __version__, **about._asdict()})}
        self._schema = self._arrow.schema(fields, metadata=described)
        self._file = open_output(path)
        self._writer = parquet.ParquetWriter(self._file, self._schema, compression="zstd")

    def write(self, t: list[int], columns: Mapping[str, list[Any]]) -> None:
        if t:
            self._writer.write_table(self._arrow.table({"t": t, **columns}, schema=self._schema))

    def close(self) -> None:
        with self._file:
            self._writer.close()

    def abandon(self) -> None:
        """Close the file as it is, after a disk error: its library refuses to write more."""
        with contextlib.suppress(OSError):
            self._file.close()


class ParquetSignals:
    """The columns of a table with a column `t`: timestamps, integers in ns, or other numbers in s.

    Timestamps are s since 1970 UTC; those without a zone are UTC.
    """

    def __init__(self, path: Path) -> None:
        """Reads the schema. UsageError if the file is no such table."""
        self.path = path
        self.problems = Problems(path.name)
        self._parquet = require("pyarrow.parquet", "parquet", path)
        with self._open() as file:
            schema = file.schema_arrow
        kinds = {field.name: str(field.type) for field in schema}
        self._stamps = {name for name, kind in kinds.items() if kind.startswith("timestamp[")}
        self._units = {
            field.name: (field.metadata or {}).get(b"unit", b"").decode("utf-8", "replace")
            for field in schema
            if kinds[field.name] in _NUMBERS or field.name in self._stamps
        }
        self._clock = "t" if "t" in self._units else None
        self._is_ns = self._clock is not None and "int" in kinds["t"]

    @property
    def has_clock(self) -> bool:
        """Whether there is a column `t`, or one of timestamps was taken in its place."""
        return self._clock is not None

    def take_dates(self, column: str) -> None:
        """The times of the rows are to be those of a column of timestamps. UsageError if it is of another type."""
        if column not in self._stamps:
            raise UsageError(
                f"{self.path}: column {column!r}: expected timestamps, as `time` has {ISO_8601!r}"
            )
        self._clock = column

    def ignore_clock(self) -> None:
        """Do not take `t` as the time of a row: it is that of a mapped column."""
        self._clock = None

    def _open(self) -> Any:
        try:
            return self._parquet.ParquetFile(self.path)
        except OSError:
            if not self.path.is_file():
                raise
            raise UsageError(f"{self.path}: expected a Parquet file") from None
        except Exception as error:  # pyarrow raises all kinds of exceptions on damage
            raise UsageError(f"{self.path}: expected a Parquet file: {one_line(error)}") from None

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of every numerical column, from its metadata."""
        return self._units

    def find_mapping(self) -> LogMapping:
        """The channels of this program that it has under their own names."""
        return map_own_names(self._units)

    def records(self, wanted: Collection[str]) -> Iterator[SignalRecord]:
        """One per row."""
        names = [name for name in self._units if name in wanted and name != self._clock]
        columns = [*([] if self._clock is None else [self._clock]), *names]
        done = 0
        with self._open() as file:
            try:
                for batch in file.iter_batches(_ROWS, columns=columns):
                    lists = [self._numbers(batch.column(name), name) for name in names]
                    times = self._times(batch)
                    for t, *values in zip(times, *lists, strict=True):
                        if t is None:
                            self.problems.add("no time", f"row {done}", "row skipped")
                        else:
                            yield SignalRecord(t, t, dict(zip(names, values, strict=True)))
                        done += 1
            except GeneratorExit:
                raise
            except Exception as error:  # pyarrow raises all kinds of exceptions on damage
                self.problems.add("unreadable", f"after row {done}", one_line(error))

    def _times(self, batch: Any) -> list[int | None]:
        if self._clock is None:
            return [0] * batch.num_rows
        column = batch.column(self._clock)
        if self._clock in self._stamps:
            return _nanoseconds(column)
        times = column.to_pylist()
        if self._is_ns:
            return list(times)
        return [None if t is None else round_seconds(t) for t in times]

    def _numbers(self, column: Any, name: str) -> list[float]:
        if name in self._stamps:
            return [math.nan if t is None else t / 1e9 for t in _nanoseconds(column)]
        values: list[float] = np.asarray(column.to_numpy(zero_copy_only=False), dtype=float).tolist()
        return values


_RESOLUTION = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Resolutions of timestamps, ns."""
_NUMBERS = {"double", "float", "halffloat", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))}


def _nanoseconds(column: Any) -> list[int | None]:
    """Timestamps of any resolution as integers since 1970 UTC."""
    factor = _RESOLUTION[column.type.unit]
    return [None if t is None else t * factor for t in column.cast("int64").to_pylist()]
