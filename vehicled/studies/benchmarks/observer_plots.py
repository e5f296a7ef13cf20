"""Plots of `vehicled bench observers`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, SymmetricalLogLocator

from vehicled.report.style import ALARM, BAND, COMPONENT_COLORS, ESTIMATE, STYLE, WIDTH, save, thin
from vehicled.studies.benchmarks.observer_cases import CASES, H, Setup
from vehicled.studies.benchmarks.observer_conclusions import FilterResult, gather
from vehicled.studies.benchmarks.observer_filters import NO_FILTER
from vehicled.studies.benchmarks.observers import Trace, get_run, run_filter

Results = dict[Setup, dict[str, FilterResult]]

_STYLES = {
    "errorEKF": ("#1f5fa8", "o"),
    "errorEKF_EJ": ("#6fa8dc", "s"),
    "errorEKF_FE": ("#c62f3d", "D"),
    "errorEKF_AFE": ("#e87aa4", "d"),
    "errorEKF_SFE": ("#7a1f2b", "p"),
    "DEKF": ("#e8963c", "v"),
    "CEKF": ("#3a8f5c", "^"),
    "DIEKFpm": ("#8e5ea2", "P"),
    "SCKF": ("#c79ad6", "X"),
    "UKF-TR": ("#222222", "o"),
    "UKF-FE": ("#8a8a8a", "s"),
}
"""Colour and mark of each filter, the same in every picture."""
_FURTHER = (("#17becf", "<"), ("#9a8b1f", ">"), ("#5b8c85", "h"))
"""Colours and marks of filters not listed above, in turn."""
_DRAWN = ("errorEKF", "errorEKF_FE", "UKF-TR")
"""Filters whose runs are drawn over time."""
_SPAN = 4.0
"""Errors with a smaller ratio are drawn over this range, so that small differences appear small."""
_SHOWN = {"position": "rad", "velocity": "rad/s", "acceleration": "rad/s²"}


def draw(rows: Sequence[dict[str, Any]], directory: Path) -> None:
    """Draw errors, costs and histories into a folder.

    `errors_….png` for every mechanism, sensors and level: errors and consistency over the rate of readings;
    `costs_….png` for every mechanism and level; `history_….png` for one run of some filters.
    """
    directory.mkdir(parents=True, exist_ok=True)
    results = gather(rows)
    styles = choose_styles(name for filters in results.values() for name in filters)
    with matplotlib.rc_context(STYLE):
        figures = {}
        for mechanism, sensors, level in dict.fromkeys((s.mechanism, s.sensors, s.level) for s in results):
            of = {
                s: f
                for s, f in results.items()
                if (s.mechanism, s.sensors, s.level) == (mechanism, sensors, level)
            }
            figures[f"errors_{mechanism}_{sensors}_{level}"] = _errors(of, styles)
        for mechanism, level in dict.fromkeys((s.mechanism, s.level) for s in results):
            of = {s: f for s, f in results.items() if (s.mechanism, s.level) == (mechanism, level)}
            figures[f"costs_{mechanism}_{level}"] = _costs(of, styles)
        setup = _choose_setup(results)
        if setup is not None:
            name = f"history_{setup.mechanism}_{setup.sensors}_{setup.rate_hz}Hz_{setup.level}"
            figures[name] = _history(setup, results[setup])
        for name, figure in figures.items():
            save(figure, directory / f"{name}.png")


def choose_styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and mark of each filter: listed filters in the order above, then others by name."""
    present = set(names) - {NO_FILTER}
    further = sorted(present - _STYLES.keys())
    styles = {name: style for name, style in _STYLES.items() if name in present}
    return styles | {name: _FURTHER[n % len(_FURTHER)] for n, name in enumerate(further)}


def _errors(of: Results, styles: dict[str, tuple[str, str]]) -> Figure:
    """Medians over seeds with their range, over the rate."""
    figure = Figure((WIDTH, 6.4))
    axes = figure.subplots(2, 2).ravel()
    setups = sorted(of, key=lambda s: s.rate_hz)
    rates = [s.rate_hz for s in setups]
    # Marks of filters with equal errors would cover each other: each has an offset from its rate.
    offsets = dict(zip(styles, np.geomspace(0.93, 1.075, max(len(styles), 2)), strict=False))
    for axis, (what, unit) in zip(axes, [*_SHOWN.items(), ("nis", "over its expectation")], strict=True):
        for name, (color, mark) in styles.items():
            key = "nis" if what == "nis" else f"{what}_rmse"
            points = [_range(of[s].get(name), key) for s in setups]
            x = [rate * offsets[name] for rate, p in zip(rates, points, strict=True) if p]
            known = np.array([p for p in points if p]).reshape(-1, 3)
            axis.plot(x, known[:, 1], color=color, lw=0.8, alpha=0.6)
            away = np.abs(known[:, [0, 2]] - known[:, [1]]).T
            axis.errorbar(x, known[:, 1], away, fmt=mark, ms=4.5, mew=0, elinewidth=0.9, color=color)
        title = "NIS" if what == "nis" else f"{what} error"
        axis.set_title(f"{title}, {unit}")
        if what == "nis":
            axis.axhspan(0.5, 2.0, color="#eef3ee", lw=0)
            axis.axhline(1.0, color="#999", lw=0.8)
        elif (alone := _of_wrong(of, what)) is not None:
            axis.axhline(alone, color="#999", lw=1.2, ls="--")
        _log(axis, rates)
    for axis in axes[2:]:
        axis.set_xlabel("readings per second")
    _legend(figure, styles, [Line2D([], [], color="#999", lw=1.2, ls="--", label="wrong model alone")])
    setup = setups[0]
    figure.suptitle(
        f"{setup.mechanism}, {setup.sensors}, {setup.level}", x=0.01, ha="left", fontweight="bold"
    )
    return figure


def _range(result: FilterResult | None, key: str) -> tuple[float, float, float] | None:
    """Least, median and largest value over the seeds with which a filter reached the end."""
    rows = [] if result is None else [row for row in result.rows if row[key] is not None]
    if not rows:
        return None
    values = [row[key] / (row["readings"] if key == "nis" else 1.0) for row in rows]
    return min(values), float(np.median(values)), max(values)


def _of_wrong(of: Results, what: str) -> float | None:
    """Error of the wrong model without a filter, from any row: it depends on no sensors and no seed."""
    for filters in of.values():
        for result in filters.values():
            for row in result.rows:
                if row[f"{what}_relative"]:
                    return float(row[f"{what}_rmse"] / row[f"{what}_relative"])
    return None


def _log(axis: Axes, rates: Sequence[int]) -> None:
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(rates, [str(r) for r in rates])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(min(rates) * 0.8, max(rates) * 1.25)
    low, high = axis.get_ylim()
    subs = (1.0,) if high > 100 * low else (1.0, 2.0, 5.0)
    axis.yaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())


def _legend(
    figure: Figure, styles: dict[str, tuple[str, str]], more: Sequence[Line2D] = (), line: float = 0.8
) -> None:
    marks = [
        Line2D([], [], color=color, marker=mark, mew=0, ms=5, lw=line, label=name)
        for name, (color, mark) in styles.items()
    ]
    figure.legend(handles=[*marks, *more], loc="outside right center", labelspacing=0.9)


def _costs(of: Results, styles: dict[str, tuple[str, str]]) -> Figure:
    """Cost over error of position; the best filters are at the lower left."""
    kinds = list(dict.fromkeys(s.sensors for s in of))
    rates = sorted({s.rate_hz for s in of}, reverse=True)
    chosen = rates if len(rates) < 3 else [rates[0], rates[-1]]
    figure = Figure((WIDTH, 2.9 * len(chosen) + 0.3))
    grid = figure.subplots(len(chosen), len(kinds), squeeze=False, sharex=True)
    for row, rate in zip(grid, chosen, strict=True):
        for axis, sensors in zip(row, kinds, strict=True):
            for setup, filters in of.items():
                if (setup.sensors, setup.rate_hz) != (sensors, rate):
                    continue
                for name, (color, mark) in styles.items():
                    result = filters.get(name)
                    if result is not None and (off := result.median("position_rmse")) is not None:
                        axis.plot(result.known("cost"), off, mark, ms=7, mew=0, color=color, alpha=0.9)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(f"{sensors}, {rate} Hz")
            for side, subs in ((axis.xaxis, (1.0, 2.0, 5.0)), (axis.yaxis, (1.0, 2.0, 5.0))):
                side.set_major_locator(LogLocator(subs=subs, numticks=12))
                side.set_major_formatter("{x:g}")
                side.set_minor_formatter(NullFormatter())
            axis.margins(0.12)
            low, high = axis.get_ylim()
            if high < _SPAN * low:
                middle = np.sqrt(low * high)
                axis.set_ylim(middle / np.sqrt(_SPAN), middle * np.sqrt(_SPAN))
    for axis in grid[-1]:
        axis.set_xlabel("cost, × errorEKF")
    for row in grid:
        row[0].set_ylabel("position error, rad")
    _legend(figure, styles, line=0.0)
    setup = next(iter(of))
    figure.suptitle(f"{setup.mechanism}, {setup.level}", x=0.01, ha="left", fontweight="bold")
    return figure


def _choose_setup(results: Results) -> Setup | None:
    """The set-up in which most of `_DRAWN` were run, preferring gyroscopes on couplers, and frequent readings."""
    order = ("coupler_gyros", "crank_gyros", "encoders")

    def rank(setup: Setup) -> tuple[int, int, int]:
        drawn = sum(name in results[setup] for name in _DRAWN)
        return drawn, -order.index(setup.sensors), setup.rate_hz

    with_filters = [s for s, filters in results.items() if filters.keys() - {NO_FILTER}]
    return max(with_filters, key=rank, default=None)


def _history(setup: Setup, filters: dict[str, FilterResult]) -> Figure:
    """Errors with 3 σ bands of the filter's covariance, and innovations with theirs: one run of each filter."""
    names = [name for name in _DRAWN if name in filters] or [n for n in filters if n != NO_FILTER][:3]
    traces = {name: run_filter(get_run(filters[name].rows[0])) for name in names}
    freedom = next(iter(traces.values())).position.shape[1]
    readings = filters[names[0]].rows[0]["readings"]
    height = freedom + readings
    figure = Figure((WIDTH, 1.5 * height + 0.7))
    grid = figure.subplots(height, len(names), squeeze=False, sharex=True, sharey="row")
    tops = []
    for column, (name, trace) in zip(grid.T, traces.items(), strict=True):
        column[0].set_title(name)
        _draw_errors(column[:freedom], trace)
        tops.append(_draw_innovations(column[freedom:], trace))
        if trace.failed_at is not None:
            for axis in column:
                axis.axvline(trace.failed_at, color=ALARM, lw=1)
        column[-1].set_xlabel("time, s")
    angles = CASES[setup.mechanism].angles
    for k, row in enumerate(grid[:freedom]):
        row[0].set_ylabel(f"error of {angles[k]}, rad")
        _magnify(row[0], [3 * trace.deviation[:, k] for trace in traces.values()])
    for k, row in enumerate(grid[freedom:]):
        reading = f" {k + 1}" if readings > 1 else ""
        row[0].set_ylabel(f"innovation{reading}, {'rad' if setup.sensors == 'encoders' else 'rad/s'}")
        top = max((of[k] for of in tops if of), default=1.0)
        row[0].set_ylim(-top, top)
    seed = filters[names[0]].rows[0]["seed"]
    figure.suptitle(
        f"{setup}, seed {seed}: errors and innovations in 3 σ by the filter's covariance",
        x=0.01,
        ha="left",
        fontweight="bold",
    )
    return figure


def _draw_errors(axes: Sequence[Axes], trace: Trace) -> None:
    """One panel for each coordinate."""
    t = H * np.arange(1, len(trace.position) + 1)
    for k, axis in enumerate(axes):
        bound = 3 * trace.deviation[:, k]
        axis.fill_between(t, -bound, bound, color=BAND, alpha=0.55, lw=0)
        axis.plot(*thin(t, trace.position[:, k]), color=ESTIMATE, lw=0.9)


def _draw_innovations(axes: Sequence[Axes], trace: Trace) -> list[float]:
    """One panel for each reading; returns the largest value to be shown in each, none without readings."""
    if not trace.updates:
        return []
    t = H * (np.array(list(trace.updates), dtype=int) + 1)
    values = np.array([u.innovation for u in trace.updates.values()])
    bounds = np.array([3 * np.sqrt(np.diag(u.covariance)) for u in trace.updates.values()])
    size = 2.0 if len(t) > 500 else 4.0
    tops = []
    for axis, value, bound in zip(axes, values.T, bounds.T, strict=True):
        axis.fill_between(t, -bound, bound, color="#e3e3e3", lw=0)
        axis.plot(t, value, ".", ms=size, mew=0, color=COMPONENT_COLORS[1], rasterized=True)
        # The first innovations may be expected to be large.
        tops.append(1.2 * float(np.percentile(np.concatenate([bound, np.abs(value)]), 99)))
    return tops


def _magnify(axis: Axes, bounds: Sequence[np.ndarray]) -> None:
    """Linear scale within the filters' settled 3 σ, logarithmic beyond, as errors at the start are large."""
    settled = [float(np.median(b[len(b) // 2 :])) for b in bounds if len(b)]
    linear = 10.0 ** np.ceil(np.log10(max(min(settled, default=1.0), 1e-9)))
    axis.set_yscale("symlog", linthresh=linear, linscale=1.5)
    axis.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=linear))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_locator(NullLocator())
