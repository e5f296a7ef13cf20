"""The figures of a report. Each function draws one, or returns None where the run has nothing to draw."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vehicled.messages import WHEELS
from vehicled.report.data import RunData, SensorHistory

STYLE: Any = {
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.labelcolor": "#444",
    "axes.edgecolor": "#bbb",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.1,
    "lines.solid_joinstyle": "round",
    "xtick.color": "#666",
    "ytick.color": "#666",
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.4,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 160,
    "svg.hashsalt": "vehicled",
}

ESTIMATE, TRUTH, GNSS, BAND, ALARM = "#1f5fa8", "#222222", "#e8963c", "#9fc1e6", "#c62f3d"
WHEEL_COLORS = {"fl": "#1f5fa8", "fr": "#7fb2e5", "rl": "#c2561a", "rr": "#f2ae72"}
COMPONENT_COLORS = ("#1f5fa8", "#c2561a", "#3a8f5c")

WIDTH = 10.4
"""in."""
DEG = 180 / np.pi

_POINTS = 1500
"""Of a line in a figure of this width more are not seen; the file would only grow."""


def thin(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same line (t, y), both (n,), with fewer points.

    The smallest and the largest value of each stretch stay: no peak is lost.
    """
    n = len(t)
    if n <= 2 * _POINTS:
        return t, y
    stretch = -(-n // (_POINTS // 2))
    padded = np.concatenate([y, np.full(-n % stretch, np.nan)]).reshape(-1, stretch)
    empty = ~np.isfinite(padded).any(axis=1)
    low = np.argmin(np.where(np.isfinite(padded), padded, np.inf), axis=1)
    high = np.argmax(np.where(np.isfinite(padded), padded, -np.inf), axis=1)
    begin = np.arange(len(padded)) * stretch
    index = np.sort(np.column_stack([begin + low, begin + high]), axis=1)
    index[empty] = begin[empty, None]
    flat = np.minimum(index.ravel(), n - 1)
    return t[flat], y[flat]


def _panels(rows: int, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH, height * rows + 0.35))
    return figure, list(figure.subplots(rows, columns, sharex=True, squeeze=False).ravel())


def _end_columns(axes: list[Axes], used: int) -> None:
    """Two columns of panels of which `used` are: drop the others, time axis under the last of each column."""
    for axis in axes[used:]:
        axis.remove()
    for axis in axes[max(used - 2, 0) : used]:
        axis.tick_params(labelbottom=True)
    axes[used - 1].set_xlabel("time, s")
    if used > 1 and used % 2 == 0:
        axes[used - 2].set_xlabel("time, s")


def _line(axis: Axes, t: np.ndarray, y: np.ndarray, **style: Any) -> None:
    axis.plot(*thin(t, y), **style)


def _label(axis: Axes, title: str, unit: str) -> None:
    axis.set_title(f"{title}, {unit}" if unit else title)
    axis.margins(x=0.01)


def _legend(axis: Axes, columns: int = 4) -> None:
    axis.legend(
        loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=columns, borderaxespad=0.1, handlelength=1.4
    )


@matplotlib.rc_context(STYLE)
def track(run: RunData) -> Figure | None:
    """The track seen from above."""
    if not (run.known("x") and run.known("y")):
        return None
    columns = run.estimates.columns
    x, y = columns["x"], columns["y"]
    spans = [max(float(np.nanmax(v) - np.nanmin(v)), 1.0) for v in (x, y)]
    figure = Figure(figsize=(WIDTH, min(max(WIDTH * spans[1] / spans[0], 3.2), 7.0)))
    axis = figure.subplots()
    if len(run.fixes):
        axis.plot(*run.fixes.T, ".", color=GNSS, ms=5.5, mew=0, label="GNSS fixes", rasterized=True)
    step = -(-len(x) // (4 * _POINTS))
    axis.plot(x[::step], y[::step], color=ESTIMATE, lw=1.4, label="estimate")
    if run.comparison is not None and {"x", "y"} <= run.comparison.truth.keys():
        truth = run.comparison.truth
        axis.plot(truth["x"][::step], truth["y"][::step], "--", color=TRUTH, lw=0.9, label="truth")
    begin = int(np.flatnonzero(np.isfinite(x))[0])
    axis.plot(x[begin], y[begin], "o", color="white", mec=ESTIMATE, mew=1.6, ms=7, label="start")
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xlabel("east, m")
    axis.set_ylabel("north, m")
    axis.legend(loc="best")
    return figure


_ERRORS = (
    ("x", "east", "m", 1.0),
    ("y", "north", "m", 1.0),
    ("z", "up", "m", 1.0),
    ("yaw", "yaw", "deg", DEG),
    ("vx", "longitudinal velocity", "m/s", 1.0),
    ("vy", "lateral velocity", "m/s", 1.0),
    ("sideslip", "sideslip", "deg", DEG),
    ("roll", "roll", "deg", DEG),
    ("pitch", "pitch", "deg", DEG),
    *((f"suspension.{w}.deflection", f"suspension deflection {w}", "mm", 1e3) for w in WHEELS),
)


@matplotlib.rc_context(STYLE)
def errors(run: RunData) -> Figure | None:
    """Estimate minus truth, in the band of three standard deviations by the filter's covariance."""
    if run.comparison is None:
        return None
    shown = [e for e in _ERRORS if e[0] in run.comparison.errors]
    if not shown:
        return None
    rows = -(-len(shown) // 2)
    figure, axes = _panels(rows, 1.75, 2)
    t = run.seconds(run.comparison.t)
    for axis, (column, title, unit, factor) in zip(axes, shown, strict=False):
        error = run.comparison.errors[column] * factor
        sigma = run.comparison.sigmas.get(column)
        if sigma is not None:
            step = -(-len(t) // _POINTS)
            bound = 3 * sigma[::step] * factor
            axis.fill_between(
                t[::step], -bound, bound, color=BAND, alpha=0.55, lw=0, label="3 σ of the filter"
            )
        _line(axis, t, error, color=ESTIMATE, lw=0.9, label="error")
        axis.axhline(0, color="#999", lw=0.6)
        _label(axis, title, unit)
        _limit(axis, error, None if sigma is None else 3 * sigma * factor)
    _legend(axes[min(1, len(shown) - 1)], 2)
    _end_columns(axes, len(shown))
    return figure


def _limit(axis: Axes, error: np.ndarray, bound: np.ndarray | None) -> None:
    """Room for the errors and for the usual band: not for the wide one before the filter has settled."""
    finite = np.abs(error[np.isfinite(error)])
    top = float(finite.max()) if len(finite) else 1.0
    if bound is not None and np.isfinite(bound).any():
        top = max(top, 1.3 * float(np.nanmedian(bound)))
    if top > 0:
        axis.set_ylim(-1.15 * top, 1.15 * top)


@matplotlib.rc_context(STYLE)
def motion(run: RunData) -> Figure | None:
    """Speed, accelerations, yaw and its rate."""
    groups = [
        ("velocity", "m/s", 1.0, [("vx", "forward"), ("vy", "to the left")]),
        ("acceleration", "m/s²", 1.0, [("ax", "forward"), ("ay", "to the left")]),
        ("yaw rate", "deg/s", DEG, [("wz", "yaw rate")]),
        ("yaw", "deg", DEG, [("yaw", "yaw")]),
        ("roll and pitch", "deg", DEG, [("roll", "roll"), ("pitch", "pitch")]),
    ]
    return _groups(run, groups)


@matplotlib.rc_context(STYLE)
def slip(run: RunData) -> Figure | None:
    """Sideslip of the vehicle, slip angles and ratios of the tyres."""
    groups = [
        ("sideslip", "deg", DEG, [("sideslip", "sideslip")]),
        ("tyre slip angle", "deg", DEG, [(f"slip.{w}.angle", w) for w in WHEELS]),
        ("tyre slip ratio", "%", 100.0, [(f"slip.{w}.ratio", w) for w in WHEELS]),
    ]
    return _groups(run, groups)


@matplotlib.rc_context(STYLE)
def tyres(run: RunData) -> Figure | None:
    """Forces between tyres and road."""
    groups = [
        (title, "kN", 1e-3, [(f"tyre.{w}.{f}", w) for w in WHEELS])
        for f, title in (("fx", "longitudinal force"), ("fy", "lateral force"), ("fz", "vertical force"))
    ]
    return _groups(run, groups)


@matplotlib.rc_context(STYLE)
def suspension(run: RunData) -> Figure | None:
    """Deflections, their rates and forces."""
    groups = [
        ("deflection (bump is positive)", "mm", 1e3, [(f"suspension.{w}.deflection", w) for w in WHEELS]),
        ("deflection rate", "m/s", 1.0, [(f"suspension.{w}.rate", w) for w in WHEELS]),
        ("force", "kN", 1e-3, [(f"suspension.{w}.force", w) for w in WHEELS]),
    ]
    return _groups(run, groups)


_Group = tuple[str, str, float, list[tuple[str, str]]]


def _groups(run: RunData, groups: Sequence[_Group]) -> Figure | None:
    shown = [g for g in groups if any(run.known(column) for column, _ in g[3])]
    if not shown:
        return None
    figure, axes = _panels(len(shown), 1.8)
    t = run.seconds(run.estimates.t)
    for axis, (title, unit, factor, lines) in zip(axes, shown, strict=True):
        for i, (column, name) in enumerate(lines):
            if not run.known(column):
                continue
            color = WHEEL_COLORS.get(name, COMPONENT_COLORS[i % 3])
            _draw(axis, run, t, column, factor, color, name, len(lines))
        _label(axis, title, unit)
        if len(axis.lines) > 1:
            _legend(axis)
    axes[-1].set_xlabel("time, s")
    return figure


def _draw(
    axis: Axes, run: RunData, t: np.ndarray, column: str, factor: float, color: str, name: str, lines: int
) -> None:
    values = run.estimates.columns[column] * factor
    if column == "yaw":
        known = np.isfinite(values)
        values = np.where(known, 0.0, np.nan)
        values[known] = np.unwrap(run.estimates.columns[column][known]) * factor
    if run.comparison is not None and column in run.comparison.truth and lines == 1:
        # From the error, so that an angle and its truth are drawn in the same turn.
        at = run.seconds(run.comparison.t)
        true = np.interp(at, t, values) - run.comparison.errors[column] * factor
        _line(axis, at, true, color=TRUTH, lw=2.2, alpha=0.35, label="truth")
        name = "estimate"
    _line(axis, t, values, color=color, label=name)


@matplotlib.rc_context(STYLE)
def innovations(run: RunData) -> Figure | None:
    """Innovation over its standard deviation, per sensor; rejected ones in red."""
    sensors = {name: s for name, s in run.sensors.items() if np.isfinite(s.normalised).any()}
    if not sensors:
        return None
    rows = -(-len(sensors) // 2)
    figure, axes = _panels(rows, 1.45, 2)
    for axis, (name, sensor) in zip(axes, sensors.items(), strict=False):
        _draw_innovations(axis, sensor)
        score = run.sensor_scores[name]
        nis = f"NIS {score.nis:.2f}" if np.isfinite(score.nis) else "none accepted"
        rejected = f", {score.rejected} of {len(sensor.t)} rejected" if score.rejected else ""
        axis.set_title(f"{name}   ")
        axis.set_title(nis + rejected, loc="right", fontweight="normal", color="#555", fontsize=9)
    _end_columns(axes, len(sensors))
    return figure


_EDGE = 5.0
"""σ: where the innovation plots end."""


def _draw_innovations(axis: Axes, sensor: SensorHistory) -> None:
    axis.axhspan(-3, 3, color="#f1f5fa", lw=0)
    axis.axhline(0, color="#999", lw=0.6)
    size = 4.0 if len(sensor.t) < 1000 else 2.4
    for i, component in enumerate(sensor.normalised.T):
        kept = np.where(sensor.fused, np.clip(component, -_EDGE, _EDGE), np.nan)
        axis.plot(
            sensor.t, kept, ".", ms=size, mew=0, alpha=0.5, color=COMPONENT_COLORS[i % 3], rasterized=True
        )
        rejected = np.where(sensor.fused, np.nan, np.clip(component, -_EDGE, _EDGE))
        axis.plot(sensor.t, rejected, "x", ms=4, mew=1, color=ALARM, clip_on=False, rasterized=True)
    axis.set_ylim(-_EDGE, _EDGE)
    axis.set_yticks([-3, 0, 3], ["−3 σ", "0", "3 σ"])
    axis.margins(x=0.01)


@matplotlib.rc_context(STYLE)
def timing(run: RunData) -> Figure | None:
    """How long the steps took, and how they are distributed."""
    durations = np.array([s.duration or 0 for s in run.steps], dtype=float) / 1e3
    if not durations.any():
        return None
    t = run.seconds([s.t for s in run.steps])
    period = float(np.median(np.diff([s.t for s in run.steps]))) / 1e3 if len(run.steps) > 1 else None
    figure = Figure(figsize=(WIDTH, 3.0))
    over_time, distribution = figure.subplots(1, 2, width_ratios=[2, 1])
    _line(over_time, t, durations, color=ESTIMATE, lw=0.8)
    over_time.set_yscale("log")
    _label(over_time, "step time", "µs")
    over_time.set_xlabel("time, s")
    ordered = np.sort(durations)
    beyond = 1 - np.arange(len(ordered)) / len(ordered)
    keep = np.unique(np.geomspace(1, len(ordered), 400).astype(int))
    distribution.plot(ordered[-keep], 100 * beyond[-keep], color=ESTIMATE)
    distribution.set_xscale("log")
    distribution.set_yscale("log")
    distribution.set_title("steps that took longer, %")
    distribution.set_xlabel("step time, µs")
    for scale in (over_time.yaxis, distribution.xaxis, distribution.yaxis):
        scale.set_major_formatter("{x:g}")
        scale.set_minor_formatter("")
    if period is not None:
        over_time.axhline(period, color=ALARM, lw=1, ls="--")
        over_time.annotate(
            "period", (1, period), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=ALARM
        )
        distribution.axvline(period, color=ALARM, lw=1, ls="--")
    return figure
