"""Plots of `vehicled bench observers --mechanism vehicle`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vehicled.report.style import ESTIMATE, STYLE, TRUTH, WIDTH, save

_PANELS: tuple[tuple[str, Callable[[dict[str, Any]], list[float]]], ...] = (
    ("position, m", lambda row: [row["position_rmse"]]),
    ("yaw, deg", lambda row: [math.degrees(row["yaw_rmse"])]),
    ("sideslip, deg", lambda row: [math.degrees(row["sideslip_rmse"])]),
    ("suspension, mm", lambda row: [1e3 * row["suspension_rmse"]]),
    ("NIS of each sensor", lambda row: list(row["sensors_nis"].values())),
    ("cost, errorEKF = 1", lambda row: [row["cost"]]),
)
"""Quantities of a row that are drawn."""


def draw(rows: Sequence[dict[str, Any]], directory: Path) -> None:
    """`vehicle_RECEIVER.png`: errors, consistency and cost by filter, a point for each seed."""
    directory.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        for receiver in dict.fromkeys(row["sensors"] for row in rows):
            figure = _draw([row for row in rows if row["sensors"] == receiver], receiver)
            save(figure, directory / f"vehicle_{receiver}.png")


def _draw(rows: Sequence[dict[str, Any]], receiver: str) -> Figure:
    kinds = list(dict.fromkeys(row["filter"] for row in rows))
    figure = Figure(figsize=(WIDTH, 5.6))
    axes: list[Axes] = list(figure.subplots(2, 3).flat)
    sound = [row for row in rows if row["failed_at"] is None]
    for axis, (title, get) in zip(axes, _PANELS, strict=True):
        points = [(kinds.index(row["filter"]), value) for row in sound for value in get(row)]
        axis.plot([x for x, _ in points], [y for _, y in points], "o", color=ESTIMATE, ms=4, alpha=0.7)
        axis.set_title(title)
        axis.set_xticks(range(len(kinds)), kinds, rotation=20)
        axis.set_xlim(-0.5, len(kinds) - 0.5)
        if title.startswith("NIS"):
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:g}")
            axis.axhline(1.0, color=TRUTH, lw=0.8)
        elif points:
            axis.set_ylim(0.0, 1.1 * max(value for _, value in points))
    failed = len(rows) - len(sound)
    figure.suptitle(
        f"vehicle, {receiver}, plant with {rows[0]['level']}" + (f"; {failed} broke down" if failed else ""),
        x=0.01,
        ha="left",
        fontweight="bold",
    )
    return figure
