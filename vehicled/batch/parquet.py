"""The table of a batch as a Parquet file (extra `parquet`): a column for each figure, units in the metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vehicled.jobs.installation import hash_code
from vehicled.terminal.output_files import open_output, writing
from vehicled.version import __version__

_UNITS = {"seconds": "s", "step_us": "µs", "nis": "1", "rejected": "1", "rejected_share": "1"}
_TEXTS = ("log", "config", "truth", "error")
_COUNTS = ("steps", "estimates", "restarts", "failed_steps")


def write_parquet(rows: Sequence[Mapping[str, Any]], configurations: Mapping[str, str], path: Path) -> None:
    """A row for each log and configuration, with nested keys of `--json` joined by dots: `errors.yaw.rmse`.

    `configurations`: text by name, for the file's metadata. Raises OSError.
    """
    import pyarrow as pa
    import pyarrow.parquet

    flat = [{name: (value, unit) for name, value, unit in _flatten(row)} for row in rows]
    units = {name: unit for row in flat for name, (_, unit) in row.items()}
    fields, columns = [], []
    for name, unit in units.items():
        kind = pa.string() if name in _TEXTS else pa.int64() if name in _COUNTS else pa.float64()
        fields.append(pa.field(name, kind, metadata={"unit": unit} if unit else None))
        columns.append(pa.array([row[name][0] if name in row else None for row in flat], kind))
    metadata = {
        "vehicled.version": __version__,
        "vehicled.code": hash_code(),
        "vehicled.configurations": json.dumps(configurations, ensure_ascii=False),
    }
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata))
    with writing(path), open_output(path) as file:
        pyarrow.parquet.write_table(table, file)


def _flatten(row: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Column, value, unit."""
    for name in (*_TEXTS, "seconds", *_COUNTS, "rejected_share"):
        yield name, row[name], _UNITS.get(name, "")
    for quantity, error in row["errors"].items():
        for name in ("rmse", "max", "nees"):
            yield f"errors.{quantity}.{name}", error[name], "1" if name == "nees" else error["unit"]
    for group in ("nis", "rejected", "step_us"):
        for name, value in (row[group] or {}).items():
            yield f"{group}.{name}", value, _UNITS[group]
