"""Plot of a batch: a line for each log, a colour for each configuration, a panel for each quantity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vehicled.batch.tables import SHOWN, get_error, get_nis
from vehicled.report.style import RUN_COLORS, STYLE, save

Row = Mapping[str, Any]


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write the plot, in the format of the path's suffix. Raises OSError."""
    with matplotlib.rc_context(STYLE):
        figure = _draw(rows)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        save(figure, path, metadata=metadata)


def _draw(rows: Sequence[Row]) -> Figure:
    logs = list(dict.fromkeys(row["log"] for row in rows))
    configs = list(dict.fromkeys(row["config"] for row in rows))
    panels: list[tuple[str, bool, Callable[[Row], Sequence[float]]]] = [
        (f"{q}, {unit}", True, partial(_get_error, q))
        for q, (unit, _) in SHOWN.items()
        if any(q in row["errors"] for row in rows)
    ]
    panels.append(("NIS, least and greatest", True, _get_nis_range))
    panels.append(("rejected, %", False, _get_rejected))
    panels.append(("step, µs", False, _get_step))
    figure = Figure(figsize=(2.2 * len(panels) + 2.5, 1.4 + 0.3 * len(logs)), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (title, logarithmic, get) in zip(axes, panels, strict=True):
        _draw_panel(ax, rows, logs, configs, get)
        ax.set_title(title, loc="left", fontsize="small")
        if logarithmic:
            ax.set_xscale("log")
        else:
            ax.set_xlim(left=0.0)
    axes[0].set_yticks(range(len(logs)), logs, fontsize="small")
    axes[0].set_ylim(len(logs) - 0.5, -0.5)
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_panel(
    ax: Axes,
    rows: Sequence[Row],
    logs: Sequence[str],
    configs: Sequence[str],
    get: Callable[[Row], Sequence[float]],
) -> None:
    for k, config in enumerate(configs):
        shift = 0.5 * ((k + 0.5) / len(configs) - 0.5)
        color = RUN_COLORS[k % len(RUN_COLORS)]
        x, y = [], []
        for row in rows:
            if row["config"] == config:
                values = [v for v in get(row) if math.isfinite(v)]
                place = logs.index(row["log"]) + shift
                ax.plot(values, [place] * len(values), color=color, linewidth=0.8)
                x += values
                y += [place] * len(values)
        ax.plot(x, y, "o", markersize=4, color=color, label=config)
    ax.grid(True, axis="x", linewidth=0.4)


def _get_error(quantity: str, row: Row) -> Sequence[float]:
    return (get_error(row, quantity),)


def _get_nis_range(row: Row) -> Sequence[float]:
    nis = [v for v in get_nis(row) if v > 0.0]
    return (min(nis), max(nis)) if nis else ()


def _get_rejected(row: Row) -> Sequence[float]:
    return () if row["rejected_share"] is None else (100 * row["rejected_share"],)


def _get_step(row: Row) -> Sequence[float]:
    return () if row["step_us"] is None else (row["step_us"]["median"],)
