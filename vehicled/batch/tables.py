"""The table of a batch as text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

SHOWN = {
    "horizontal": ("m", 1.0),
    "yaw": ("°", math.degrees(1)),
    "sideslip": ("°", math.degrees(1)),
    "vx": ("m/s", 1.0),
}
"""Quantities of the table, their unit, and the factor from the SI unit; `--json` and Parquet have all quantities."""


def get_error(row: Row, quantity: str) -> float:
    """RMSE in the unit of the table; NaN if unknown."""
    found = row["errors"].get(quantity)
    return math.nan if found is None else found["rmse"] * SHOWN[quantity][1]


def get_nis(row: Row) -> list[float]:
    """NIS of all sensors with accepted observations."""
    return [nis for nis in row["nis"].values() if nis is not None]


def format_rows(rows: Sequence[Row]) -> Iterator[str]:
    """A row for each log and configuration; medians by configuration; NIS and rejected shares by sensor; errors."""
    width = max(len(name) for name in (f"median of {len(rows)} logs", *(row["log"] for row in rows)))
    width_config = max(len(row["config"]) for row in rows)
    quantities = [q for q in SHOWN if any(q in row["errors"] for row in rows)]
    yield (
        f"{'log':<{width}}  {'config':<{width_config}}  {'s':>8}"
        + "".join(f"{f'{q}, {SHOWN[q][0]}':>15}" for q in quantities)
        + f"{'NIS':>12}{'rejected':>10}{'restarts':>10}{'step, µs':>10}{'99 %':>8}"
    )
    for row in rows:
        line = f"{row['log']:<{width}}  {row['config']:<{width_config}}"
        if row["steps"]:
            yield f"{line}  {_format_figures(row, quantities)}"
        if row["error"] is not None:
            yield f"{line}  {row['error']}"
    done = [row for row in rows if row["error"] is None]
    for config in dict.fromkeys(row["config"] for row in done):
        of = [row for row in done if row["config"] == config]
        if len(of) > 1:
            line = f"{f'median of {len(of)} logs':<{width}}  {config:<{width_config}}  {'':>8}"
            yield line + "".join(f"{_format(_median(get_error(r, q) for r in of)):>15}" for q in quantities)
    yield from _format_sensors(rows, width, width_config)


def _format_figures(row: Row, quantities: Sequence[str]) -> str:
    nis, share = get_nis(row), row["rejected_share"]
    return (
        f"{row['seconds']:>8.1f}"
        + "".join(f"{_format(get_error(row, q)):>15}" for q in quantities)
        + f"{f'{min(nis):.2g}–{max(nis):.2g}' if nis else '–':>12}"
        + f"{'–' if share is None else f'{100 * share:.2g} %':>10}{row['restarts']:>10}"
        + f"{row['step_us']['median']:>10.0f}{row['step_us']['p99']:>8.0f}"
    )


def _format_sensors(rows: Sequence[Row], width: int, width_config: int) -> Iterator[str]:
    """A line for each row and sensor, as columns for all sensors would be too wide."""
    sensors = sorted({name for row in rows for name in row["nis"]})
    if not sensors:
        return
    yield ""
    yield f"{'log':<{width}}  {'config':<{width_config}}  {'sensor':<24}{'NIS':>8}{'rejected':>10}"
    for row in rows:
        for sensor in (s for s in sensors if s in row["nis"]):
            nis = row["nis"][sensor]
            yield (
                f"{row['log']:<{width}}  {row['config']:<{width_config}}  {sensor:<24}"
                f"{'–' if nis is None else f'{nis:.3f}':>8}{100 * row['rejected'][sensor]:>8.2g} %"
            )


def _median(values: Iterator[float]) -> float:
    known = [v for v in values if math.isfinite(v)]
    return statistics.median(known) if known else math.nan


def _format(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "–"
