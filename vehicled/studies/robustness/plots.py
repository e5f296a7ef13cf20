"""Plot of a run: a line for each case, a panel for each quantity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vehicled.errors import UsageError
from vehicled.report.style import ALARM, RUN_COLORS, STYLE, save
from vehicled.studies.robustness.cases import RobustnessCase
from vehicled.studies.robustness.limits import find_limits
from vehicled.studies.robustness.runs import KINEMATIC
from vehicled.studies.robustness.scores import QUANTITIES
from vehicled.studies.robustness.tables import get_unit

_MARKERS = {"rtk": "o", "conventional": "s", "none": "D"}
_SHIFTS = {"rtk": -0.18, "conventional": 0.18, "none": 0.0}
"""Vertical offsets of the receivers within the line of a case."""


def draw(rows: Sequence[Mapping[str, Any]], cases: Mapping[str, RobustnessCase], path: Path) -> None:
    """RMSE of each estimator on logarithmic scales, limits as bars. UsageError for a file that cannot be written."""
    with matplotlib.rc_context(STYLE):
        figure = _draw(rows, cases)
        try:
            save(figure, path)
        except (OSError, ValueError) as error:
            raise UsageError(f"--plot: {error}") from None


def _draw(rows: Sequence[Mapping[str, Any]], cases: Mapping[str, RobustnessCase]) -> Figure:
    names = list(dict.fromkeys(row["case"] for row in rows))
    figure = Figure(figsize=(3.0 * len(QUANTITIES) + 3.0, 1.6 + 0.24 * len(names)), layout="constrained")
    axes = figure.subplots(1, len(QUANTITIES), sharey=True, squeeze=False)[0]
    for ax, quantity in zip(axes, QUANTITIES, strict=True):
        _draw_panel(ax, quantity, rows, names, cases)
    axes[0].set_yticks(range(len(names)), names, fontsize="small")
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    handles, labels = axes[-1].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=6, frameon=False)
    return figure


def _draw_panel(
    ax: Axes,
    quantity: str,
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    cases: Mapping[str, RobustnessCase],
) -> None:
    unit = get_unit(quantity)
    scale = math.degrees(1) if "°" in unit else 1.0
    kinds = [k for k in dict.fromkeys(row["estimator"] for row in rows) if k != KINEMATIC]
    colors = dict(zip(kinds, RUN_COLORS * len(kinds), strict=False)) | {KINEMATIC: "0.6"}
    for row in rows:
        place = names.index(row["case"]) + _SHIFTS[row["receiver"]]
        limit = find_limits(cases[row["case"]], row["receiver"]).get(quantity)
        if limit is not None:
            ax.plot([limit * scale] * 2, [place - 0.17, place + 0.17], color=ALARM, lw=1.5, label="limit")
        if row[quantity] is not None and row[quantity] > 0:
            label = f"{row['estimator']}, {row['receiver']}"
            marker, color = _MARKERS[row["receiver"]], colors[row["estimator"]]
            hollow = "none" if row["estimator"] == KINEMATIC else color
            ax.plot(row[quantity] * scale, place, marker, ms=4, color=color, mfc=hollow, label=label)
    ax.set_xscale("log")
    ax.set_xlabel(f"{quantity}, {unit}")
    ax.grid(axis="x", which="both", color="0.92")
    for y in range(1, len(names), 2):
        ax.axhspan(y - 0.5, y + 0.5, color="0.97", zorder=0)
