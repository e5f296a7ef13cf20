"""Results of a published toolbox's observers on the linkages at level L2, compared with literal runs."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from vehicled.studies.benchmarks.observer_cases import PUBLISHED_SEED, H, ObserverRun

FIGURES = (
    "position_rmse",
    "velocity_rmse",
    "position_rmse_second_half",
    "velocity_rmse_second_half",
    "nis",
)
_LEVEL = "L2"


@cache
def read_published() -> dict[tuple[str, str, int, str], dict[str, Any]]:
    """Published results by linkage, sensors, readings per second and filter.

    `FIGURES` as text as published, None if there is none; `failed_step`, at which a filter broke down, from
    1; `indefinite_steps`, number of steps after which its covariance was not positive definite.
    """
    found: dict[tuple[str, str, int, str], dict[str, Any]] = {}
    with Path(__file__).with_name("linkage_figures.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["mechanism"], row["sensors"], int(row["rate_hz"]), row["filter"]
            found[key] = {f: row[f] or None for f in FIGURES} | {
                count: int(row[count]) if row[count] else None
                for count in ("failed_step", "indefinite_steps")
            }
    return found


def find_published(run: ObserverRun) -> dict[str, Any] | None:
    """Published result of a literal run with the toolbox's own noise: `FIGURES` as numbers, the rest as it is."""
    if not run.literal or run.level != _LEVEL or run.seed != PUBLISHED_SEED:
        return None
    row = read_published().get((run.mechanism, run.sensors, run.rate_hz, run.filter))
    if row is None:
        return None
    return row | {k: None if row[k] is None else float(row[k]) for k in FIGURES}


def format_published(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A line for each run with published figures: its figures over the published ones."""
    known = [row for row in rows if row.get("published")]
    if not known:
        return []
    titles = ("position", "velocity", "pos. >5 s", "vel. >5 s", "nis")
    lines = [
        "== literal runs over the published figures; P n: covariance not definite after n steps, published n ==",
        f"{'':<46}" + "".join(f"{t:>10}" for t in titles) + f"{'P':>12}",
    ]
    for row in known:
        name = f"{row['mechanism']}, {row['sensors']}, {row['rate_hz']} Hz"
        lines.append(f"{name:<33}{row['filter']:<13}{_compare(row, row['published'])}")
    return [*lines, ""]


def _compare(row: dict[str, Any], published: dict[str, Any]) -> str:
    step = None if row["failed_at"] is None else round(row["failed_at"] / H)
    if step is not None or published["failed_step"] is not None:
        ends = (step, published["failed_step"])
        return "  " + ", published: ".join(
            "to the end" if k is None else f"broke down at step {k}" for k in ends
        )
    ratios = (_ratio(row[f], published[f]) for f in FIGURES)
    counts = f"{row['repairs']}, {published['indefinite_steps']}"
    return "".join(f"{r:>10}" for r in ratios) + f"{counts:>12}"


def _ratio(value: float | None, published: float | None) -> str:
    return "–" if value is None or published is None else f"{value / published:.3f}"
