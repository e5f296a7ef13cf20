"""The table of the campaign as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HEADING = (
    f"{'fault':<40}{'drive':<9}{'seed':>4}  {'named':<18}{'after':>7}{'error':>8}{'σ':>7}{'yaw':>7}{'normal':>8}"
    f"{'missed':>7}  refused though healthy, and more"
)
_WORTH_SAYING = 0.05
"""s: an unrecorded time up to this is not printed, unless it misses the limit."""
LEGEND = (
    "named after, and normal after the end: s; error: m; yaw: °; σ: largest error in estimated standard deviations,\n"
    "of position, heading, velocity and sideslip; missed: deadlines. ! beyond the row's limit."
)


def format_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Heading, rows, legend, and the number of rows that hold."""
    yield HEADING
    yield from map(format_row, rows)
    yield ""
    yield LEGEND
    yield f"{sum(row['ok'] for row in rows)} of {len(rows)} runs hold"


def format_row(row: Mapping[str, Any]) -> str:
    """Text of one row."""
    misses = row["misses"]

    def figure(key: str, width: int, scale: float = 1.0, digits: int = 2) -> str:
        value = row[key]
        text = "–" if value is None else "never" if math.isinf(value) else f"{scale * value:.{digits}f}"
        return f"{text + ('!' if key in misses else ' '):>{width}}"

    named = (row["named"] or "–") + ("!" if "named" in misses else "")
    return (
        f"{row['fault']:<40}{row['drive']:<9}{row['seed']:>4}  {named:<18}{figure('named_after', 7)}"
        f"{figure('error_m', 8)}{figure('error_sigma', 7, digits=1)}{figure('error_yaw', 7, 180 / math.pi)}"
        f"{figure('recovered_after', 8)}{row['missed']:>7}  {'; '.join(_notes(row))}"
    ).rstrip()


def _notes(row: Mapping[str, Any]) -> Iterator[str]:
    misses = row["misses"]

    def marked(text: str, key: str) -> str:
        return text + ("!" if key in misses else "")

    if row["wrongly_refused"]:
        refused = ", ".join(f"{source} {span:.1f} s" for source, span in row["wrongly_refused"].items())
        yield marked(refused, "wrongly_refused")
    if (row["unrecorded"] or 0.0) > _WORTH_SAYING or "unrecorded" in misses:
        yield marked(f"not recorded {row['unrecorded']:.2f} s", "unrecorded")
    if row["lost_samples"]:
        yield marked(f"lost samples {row['lost_samples']}", "lost_samples")
    if not row["lives"]:
        yield marked(row["died"] or "no estimates at the end", "lives")
