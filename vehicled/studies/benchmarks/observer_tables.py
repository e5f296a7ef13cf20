"""The tables of `vehicled bench observers`."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from typing import Any

from vehicled.studies.benchmarks import observer_conclusions as conclusions
from vehicled.studies.benchmarks.observer_cases import Setup
from vehicled.studies.benchmarks.observer_conclusions import (
    CheckedStatement,
    FilterResult,
    Recommendation,
    Standing,
)
from vehicled.studies.benchmarks.observer_published import format_published


def format_vehicle(rows: list[dict[str, Any]]) -> list[str]:
    """A table for each receiver: largest errors over seeds, medians of costs."""
    seeds = _listed(dict.fromkeys(row["seed"] for row in rows))
    titles = (
        "position m",
        "yaw °",
        "sideslip °",
        "suspens. mm",
        "nis",
        "of sensors",
        "µs/step",
        "99.9 %",
        "cost",
    )
    lines = []
    for receiver in dict.fromkeys(row["sensors"] for row in rows):
        its = [row for row in rows if row["sensors"] == receiver]
        lines.append(f"vehicle, {receiver}, plant with {its[0]['level']}; largest errors over seeds {seeds}")
        lines.append(f"{'':<13}" + "".join(f"{t:>12}" for t in (*titles, "restarts", "repairs")))
        for kind in dict.fromkeys(row["filter"] for row in its):
            lines += _vehicle_rows(kind, [row for row in its if row["filter"] == kind])
        lines.append("")
    return lines[:-1]


def _vehicle_rows(kind: str, rows: list[dict[str, Any]]) -> list[str]:
    """A line for one filter, and one for each seed with which it broke down."""
    lines = [
        f"{kind:<13} seed {row['seed']} broke down at {row['failed_at']:.3f} s: {row['reason']}"
        for row in rows
        if row["failed_at"] is not None
    ]
    sound = [row for row in rows if row["failed_at"] is None]
    if not sound:
        return lines
    largest = [
        max(row[e] for row in sound)
        for e in ("position_rmse", "yaw_rmse", "sideslip_rmse", "suspension_rmse")
    ]
    nis = [x for row in sound for x in row["sensors_nis"].values()]
    times = [sorted(row[c] for row in sound)[len(sound) // 2] for c in ("us_per_step", "us_p999", "cost")]
    cells = [
        f"{largest[0]:.4f}",
        *(f"{math.degrees(x):.3f}" for x in largest[1:3]),
        f"{1e3 * largest[3]:.2f}",
        f"{sum(nis) / len(nis):.2f}",
        f"{min(nis):.2f}–{max(nis):.2f}",
        *(f"{x:.0f}" for x in times[:2]),
        f"{times[2]:.2f}",
        *(str(sum(row[c] for row in sound)) for c in ("restarts", "repairs")),
    ]
    return [*lines, f"{kind:<13}" + "".join(f"{c:>12}" for c in cells)]


def format_linkages(rows: list[dict[str, Any]]) -> list[str]:
    """Tables by mechanism and sensors, the best filters, and the statements that hold."""
    results = conclusions.gather(rows)
    lines = _notices(rows)
    last = None
    for setup, filters in results.items():
        if (setup.mechanism, setup.sensors) != last:
            last = setup.mechanism, setup.sensors
            lines.append(f"== {setup.mechanism}, {setup.sensors} ==")
        lines += _table(setup, filters)
    lines += format_published(rows)
    lines += _recommendations(conclusions.find_recommendations(results))
    lines += _standings(conclusions.calc_standings(results))
    lines += _statements(conclusions.check_statements(results))
    return lines


def _notices(rows: list[dict[str, Any]]) -> list[str]:
    """For literal runs: filters that differ from the published ones of their names."""
    notices = {row["filter"]: row["notice"] for row in rows if row.get("notice")}
    if not notices:
        return []
    lines = ["== NOT AS PUBLISHED, in spite of --literal =="]
    for name, notice in notices.items():
        lines += textwrap.wrap(f"{name:<13}{notice}", 108, subsequent_indent=" " * 13)
    return [*lines, ""]


_COLUMNS = {
    "position_rmse": "position",
    "velocity_rmse": "velocity",
    "acceleration_rmse": "acceler.",
    "position_rmse_second_half": "pos. >5 s",
    "velocity_rmse_second_half": "vel. >5 s",
    "acceleration_rmse_second_half": "acc. >5 s",
    "position_relative": "of wrong",
    "us_per_step": "µs/step",
    "cost": "cost",
    "repairs": "repairs",
}


def _table(setup: Setup, filters: dict[str, FilterResult]) -> list[str]:
    """A line for each filter, medians over seeds; and one for each seed with which it broke down."""
    seeds = dict.fromkeys(row["seed"] for result in filters.values() for row in result.rows)
    title = f"{setup}, {'medians over seeds' if len(seeds) > 1 else 'seed'} {_listed(seeds)}"
    row = next(iter(filters.values())).rows[0]
    if not row["observable"]:
        title += f": NOT OBSERVABLE, rank {row['rank']} of {row['states']}"
    lines = [title, f"{'':<13}" + "".join(f"{c:>10}" for c in [*_COLUMNS.values(), "nis"])]
    for name, result in filters.items():
        cells = [*(result.median(c) for c in _COLUMNS), result.consistency]
        if len(result.failed) < len(result.rows):
            lines.append(f"{name:<13}" + "".join(f"{_number(c):>10}" for c in cells))
        for row in result.failed:
            lines.append(
                f"{name:<13} seed {row['seed']} broke down at {row['failed_at']:.3f} s, "
                f"last reading {row['last_readings']}: {row['reason']}"
            )
    return [*lines, ""]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _recommendations(found: list[Recommendation]) -> list[str]:
    if not found:
        return []
    columns = ("position", "velocity", "cheapest of the best", "nis nearest to 1")
    lines = [
        "== which filter in which set-up: most accurate; cheapest of those level with it ==",
        f"{'':<37}" + "".join(f"{c:<23}" for c in columns).rstrip(),
    ]
    for best in found:
        cheapest = (
            f"{best.cheapest.filter} {best.cheapest.known('cost'):.2g}"
            if best.cheapest
            else "none is level in both"
        )
        consistent = (
            f"{best.consistent.filter} {_number(best.consistent.consistency)}" if best.consistent else "–"
        )
        cells = (
            f"{best.position.filter} {best.position.known('position_rmse'):.3g}",
            f"{best.velocity.filter} {best.velocity.known('velocity_rmse'):.3g}",
            cheapest,
            consistent,
        )
        lines.append((f"{best.setup!s:<37}" + "".join(f"{c:<23}" for c in cells)).rstrip())
    return [*lines, ""]


def _standings(standings: list[Standing]) -> list[str]:
    columns = ("position", "velocity", "nis ½ to 2", "broke down", "cost")
    lines = [
        "== in how many set-ups level with the best (within 10 %), consistent, broken down; cost in the median ==",
        f"{'':<13}" + "".join(f"{c:>12}" for c in columns),
    ]
    for s in standings:
        counts = (s.level_position, s.level_velocity, s.consistent, s.failed)
        cells = [*(f"{n} of {s.setups}" for n in counts), _number(s.cost)]
        lines.append(f"{s.filter:<13}" + "".join(f"{c:>12}" for c in cells))
    return [*lines, ""]


def _statements(found: list[CheckedStatement]) -> list[str]:
    lines = ["== statements about the filters =="]
    for checked in found:
        word = {True: "held", False: "NOT HELD", None: "unknown"}[checked.held]
        lines.append(f"{word:<9} {checked.statement}")
        lines += textwrap.wrap(checked.numbers, 108, initial_indent=" " * 10, subsequent_indent=" " * 10)
    return lines


def _listed(choice: Iterable[Any]) -> str:
    return " ".join(map(str, choice))
