"""The plots of a report, as data: sections of panels over time, for one run or several over each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from vehicled.messages import WHEELS
from vehicled.report.data import RunData
from vehicled.report.recording import SensorHistory
from vehicled.report.style import (
    ALARM,
    COMPONENT_COLORS,
    DEG,
    ESTIMATE,
    RUN_COLORS,
    TRUTH,
    WHEEL_COLORS,
    choose_points,
)
from vehicled.scoring.scores import SLOWEST_SLIP

_DASHES: tuple[tuple[int, ...], ...] = ((), (7, 4), (2, 3), (10, 3, 2, 3))
"""Dashes of the runs in one report, if lines have their own colours; otherwise `RUN_COLORS` distinguish runs."""
_POINTS = 4000
"""Number of points of a line: enough to zoom in by a factor of ten."""
_LONGEST_HOLE = 3.0
"""Number of usual intervals between samples above which a line has a gap."""
_EDGE = 5.0
"""Limit of the innovation plots, in σ."""


@dataclass(frozen=True)
class Line:
    """One line of a panel, or points."""

    label: str
    y: np.ndarray
    """(n,), NaN where unknown."""
    color: str
    dash: tuple[int, ...] = ()
    kind: Literal["line", "points", "crosses"] = "line"
    width: float = 1.2


@dataclass(frozen=True)
class Lines:
    """Lines with the same times."""

    t: np.ndarray
    """(n,) s since the start of the run."""
    lines: list[Line]
    bound: np.ndarray | None = None
    """(n,) half the width of a band around zero."""

    def thinned(self) -> Lines:
        """The same lines with only as many points as can be seen."""
        if not self.lines or any(line.kind != "line" for line in self.lines):
            return self
        kept = choose_points([line.y for line in self.lines], _POINTS)
        lines = [replace(line, y=line.y[kept]) for line in self.lines]
        return Lines(self.t[kept], lines, None if self.bound is None else self.bound[kept])


@dataclass(frozen=True)
class Panel:
    """One plot over time."""

    title: str
    unit: str
    parts: list[Lines] = field(default_factory=list)
    limits: tuple[float, float] | None = None
    """Limits of the vertical axis; by default all values are shown."""
    note: str = ""
    is_logarithmic: bool = False


@dataclass(frozen=True)
class Section:
    """Panels on one subject."""

    title: str
    caption: str
    panels: list[Panel]


_Group = tuple[str, str, float, list[tuple[str, str]]]
"""Title, unit, factor, and columns with their labels in the plot."""
_MOTION: list[_Group] = [
    ("velocity", "m/s", 1.0, [("vx", "forward"), ("vy", "to the left")]),
    ("acceleration", "m/s²", 1.0, [("ax", "forward"), ("ay", "to the left")]),
    ("yaw rate", "deg/s", DEG, [("wz", "yaw rate")]),
    ("yaw", "deg", DEG, [("yaw", "yaw")]),
    ("roll and pitch", "deg", DEG, [("roll", "roll"), ("pitch", "pitch")]),
]
_SLIP: list[_Group] = [
    ("sideslip", "deg", DEG, [("sideslip", "sideslip")]),
    ("tyre slip angle", "deg", DEG, [(f"slip.{w}.angle", w) for w in WHEELS]),
    ("tyre slip ratio", "%", 100.0, [(f"slip.{w}.ratio", w) for w in WHEELS]),
]
_TYRES: list[_Group] = [
    (title, "kN", 1e-3, [(f"tyre.{w}.{f}", w) for w in WHEELS])
    for f, title in (("fx", "longitudinal force"), ("fy", "lateral force"), ("fz", "vertical force"))
]
_SUSPENSION: list[_Group] = [
    ("deflection (bump is positive)", "mm", 1e3, [(f"suspension.{w}.deflection", w) for w in WHEELS]),
    ("deflection rate", "m/s", 1.0, [(f"suspension.{w}.rate", w) for w in WHEELS]),
    ("force", "kN", 1e-3, [(f"suspension.{w}.force", w) for w in WHEELS]),
]
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


def make_sections(runs: Sequence[RunData]) -> Iterator[Section]:
    """All sections that have something to draw."""
    makers: tuple[tuple[str, str, Callable[[Sequence[RunData]], Iterator[Panel]]], ...] = (
        (
            "Errors",
            "Estimate minus truth, and three standard deviations by the filter's covariance.",
            _errors,
        ),
        ("Motion", "In vehicle axes: x forward, y to the left.", lambda r: _groups(r, _MOTION)),
        (
            "Slip",
            "Sideslip at the point of the output, slip angles and ratios at the wheels, from "
            f"{SLOWEST_SLIP:g} m/s on.",
            lambda r: _groups(r, _SLIP),
        ),
        ("Tyre forces", "On the tyre, in wheel axes.", lambda r: _groups(r, _TYRES)),
        ("Suspension", "Relative to rest.", lambda r: _groups(r, _SUSPENSION)),
        (
            "Innovations",
            "Measurement minus prediction over its standard deviation, a colour per component; red crosses were "
            "rejected. NIS is the mean normalised innovation squared per component: 1 for a consistent filter.",
            _innovations,
        ),
        ("Timing", "Of each filter step, as it was recorded live.", _timing),
    )
    for title, caption, make in makers:
        panels = [panel for panel in make(runs) if any(part.lines for part in panel.parts)]
        if panels:
            yield Section(title, caption, panels)


def _groups(runs: Sequence[RunData], groups: Sequence[_Group]) -> Iterator[Panel]:
    for title, unit, factor, columns in groups:
        parts = []
        for k, run in enumerate(runs):
            lines = []
            for i, (column, name) in enumerate(columns):
                if not run.known(column):
                    continue
                color = WHEEL_COLORS.get(name, COMPONENT_COLORS[i % len(COMPONENT_COLORS)])
                if len(columns) == 1:
                    name = "estimate"
                    color = RUN_COLORS[k % len(RUN_COLORS)]
                    parts += _true_line(runs, run, column, factor)
                y = _read(run, column) * factor
                dash = () if len(columns) == 1 else _DASHES[k % len(_DASHES)]
                lines.append(Line(_name(runs, k, name), y, color, dash))
            parts.append(_without_empty(Lines(run.seconds(run.estimates.t), lines)).thinned())
        yield Panel(title, unit, parts)


def _without_empty(part: Lines) -> Lines:
    """Only rows with values, as some columns have a lower rate; with a gap if values are missing for longer."""
    known = np.zeros(len(part.t), dtype=bool)
    for line in part.lines:
        known |= np.isfinite(line.y)
    at = np.flatnonzero(known)
    if len(at) < 2 or len(at) == len(known):
        return part
    steps = np.diff(at)
    # The first row of a gap is kept: it is empty in all lines.
    kept = np.union1d(at, at[:-1][steps > _LONGEST_HOLE * np.median(steps)] + 1)
    return Lines(part.t[kept], [replace(line, y=line.y[kept]) for line in part.lines])


def _read(run: RunData, column: str) -> np.ndarray:
    """A column; yaw without jumps, and slips without those that are quotients of noise."""
    values = run.estimates.columns[column]
    if column.startswith(("sideslip", "slip.")) and run.known("vx") and run.known("vy"):
        ahead, left = (run.estimates.columns[c] for c in ("vx", "vy"))
        return np.where(np.hypot(ahead, left) < SLOWEST_SLIP, np.nan, values)
    if column == "yaw":
        known = np.isfinite(values)
        unwrapped = np.full(len(values), np.nan)
        unwrapped[known] = np.unwrap(values[known])
        return unwrapped
    return values


def _true_line(runs: Sequence[RunData], run: RunData, column: str, factor: float) -> list[Lines]:
    """The truth of a column, once for all runs."""
    if (
        run.comparison is None
        or column not in run.comparison.truth
        or any(other.comparison is not None for other in runs[: runs.index(run)])
    ):
        return []
    # Calculated from the error, so that an angle and its truth are drawn in the same turn.
    at = run.seconds(run.comparison.t)
    values = _read(run, column)
    true = np.interp(at, run.seconds(run.estimates.t), values) - run.comparison.errors[column]
    return [Lines(at, [Line("truth", true * factor, "#9a9a9a", width=3.0)]).thinned()]


def _name(runs: Sequence[RunData], k: int, name: str) -> str:
    return name if len(runs) == 1 else f"{runs[k].name}: {name}"


def _errors(runs: Sequence[RunData]) -> Iterator[Panel]:
    for column, title, unit, factor in _ERRORS:
        parts, tops = [], []
        for k, run in enumerate(runs):
            if run.comparison is None or column not in run.comparison.errors:
                continue
            error = run.comparison.errors[column] * factor
            sigma = run.comparison.sigmas.get(column)
            bound = None if sigma is None else 3 * sigma * factor
            line = Line(_name(runs, k, "error"), error, RUN_COLORS[k % len(RUN_COLORS)])
            # Several bands over each other would be indistinguishable.
            part = Lines(run.seconds(run.comparison.t), [line], bound if len(runs) == 1 else None)
            parts.append(part.thinned())
            tops.append(_find_top(error, bound))
        top = max(tops, default=0.0)
        yield Panel(title, unit, parts, (-1.15 * top, 1.15 * top) if top > 0.0 else None)


def _find_top(error: np.ndarray, bound: np.ndarray | None) -> float:
    """Upper limit for the errors and the usual band, ignoring the wide band before the filter has settled."""
    finite = np.abs(error[np.isfinite(error)])
    top = float(finite.max()) if len(finite) else 0.0
    if bound is not None and np.isfinite(bound).any():
        top = max(top, 1.3 * float(np.nanmedian(bound)))
    return top


def _innovations(runs: Sequence[RunData]) -> Iterator[Panel]:
    names = dict.fromkeys(name for run in runs for name in run.recorded.sensors)
    for name in sorted(names):
        parts, notes = [], []
        for k, run in enumerate(runs):
            sensor = run.recorded.sensors.get(name)
            if sensor is None or not np.isfinite(sensor.normalised).any():
                continue
            parts.append(Lines(run.seconds(sensor.t), list(_draw_innovations(runs, k, sensor))))
            score = run.recorded.scores[name]
            nis = f"NIS {score.nis:.2f}" if np.isfinite(score.nis) else "none accepted"
            notes.append(nis + (f", {score.rejected} of {len(sensor.t)} rejected" if score.rejected else ""))
        yield Panel(name, "σ", parts, (-_EDGE, _EDGE), "; ".join(notes))


def _draw_innovations(runs: Sequence[RunData], k: int, sensor: SensorHistory) -> Iterator[Line]:
    components = sensor.normalised.T
    for i, component in enumerate(components):
        clipped = np.clip(component, -_EDGE, _EDGE)
        color = (
            COMPONENT_COLORS[i % len(COMPONENT_COLORS)] if len(runs) == 1 else RUN_COLORS[k % len(RUN_COLORS)]
        )
        label = _name(runs, k, "xyz"[i] if 1 < len(components) <= 3 else "accepted")
        yield Line(label, np.where(sensor.fused, clipped, np.nan), color, kind="points")
        rejected = np.where(sensor.fused, np.nan, clipped)
        if np.isfinite(rejected).any():
            yield Line(_name(runs, k, "rejected"), rejected, ALARM, kind="crosses")


def _timing(runs: Sequence[RunData]) -> Iterator[Panel]:
    parts = []
    for k, run in enumerate(runs):
        times, durations = run.recorded.steps.T[0], run.recorded.steps.T[1] / 1e3
        if not durations.any():
            continue
        color = ESTIMATE if len(runs) == 1 else RUN_COLORS[k % len(RUN_COLORS)]
        lines = [Line(_name(runs, k, "step"), np.where(durations > 0, durations, np.nan), color)]
        if len(times) > 1:
            period = float(np.median(np.diff(times))) / 1e3
            lines.append(Line(_name(runs, k, "period"), np.full(len(times), period), TRUTH, (6, 4)))
        parts.append(Lines(run.seconds(times), lines).thinned())
    yield Panel("step time", "µs", parts, is_logarithmic=True)
