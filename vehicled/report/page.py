"""The page: plots and tables in one HTML file without further files or network."""

import base64
import html
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.errors import UsageError
from vehicled.report.data import RunData, load_run
from vehicled.report.panels import Panel, make_sections
from vehicled.report.style import DEG, GNSS, RUN_COLORS, TRUTH
from vehicled.scoring.scores import Score
from vehicled.terminal.output_files import write_output
from vehicled.version import __version__

_ASSETS = files("vehicled") / "report" / "assets"
_UPLOT = files("vehicled") / "vendored" / "uplot"
_MOST_RUNS = 6
_MOST_FIXES = 20_000
"""Largest number of fixes in the drawing of the track."""
_TRACK_POINTS = 6_000
"""Largest number of points of one line of the track. The page searches all of them whenever the mouse moves."""


def write_report(
    runs: Sequence[str | Path],
    output: str | Path,
    truth: str | Path | None = None,
    processes: int = 1,
) -> list[RunData]:
    """Write the report of recordings (.mcap) or tables of estimates (.csv) to an HTML file.

    Several runs are drawn over each other. `truth`: table of true values, if known. `processes`: number of
    processes that read a long recording. Returns the data that were read. Raises UsageError, RunError,
    OSError.
    """
    if not 1 <= len(runs) <= _MOST_RUNS:
        raise UsageError(f"{len(runs)} runs: expected 1 to {_MOST_RUNS} in a report")
    data = _with_own_names([load_run(run, truth, processes) for run in runs], [Path(run) for run in runs])
    page = render_page(data).encode(
        "utf-8", errors="replace"
    )  # names of files may have bytes that are no text
    write_output(Path(output), page)
    return data


def _with_own_names(data: list[RunData], paths: list[Path]) -> list[RunData]:
    """Distinguish files of the same name by their folders."""
    names = Counter(run.name for run in data)
    return [
        replace(run, name=f"{path.parent.name}/{run.name}") if names[run.name] > 1 else run
        for run, path in zip(data, paths, strict=True)
    ]


def render_page(runs: Sequence[RunData]) -> str:
    """The whole page about one run, or several over each other: plots first, then tables."""
    sections = list(make_sections(runs))
    track = _draw_track(runs)
    shown = [("Track", _TRACK_CAPTION, '<div id="track"></div>')] if track is not None else []
    number = iter(range(sum(len(section.panels) for section in sections)))
    for section in sections:
        plots = "".join(f'<div class="plot" data-panel="{next(number)}"></div>' for _ in section.panels)
        shown.append((section.title, section.caption, plots))
    content = "".join(
        f'<section id="{_anchor(title)}"><h2>{_text(title)}</h2><p>{_text(caption)}</p>{inner}</section>'
        for title, caption, inner in shown
    )
    summaries = "".join(
        f'<section id="{_anchor(_table_title(runs, run))}"><h2>{_text(_table_title(runs, run))}</h2>'
        f'<div class="cards">{"".join(_cards(run))}</div>{_summary(run)}</section>'
        for run in runs
    )
    titles = [title for title, _, _ in shown] + [_table_title(runs, run) for run in runs]
    navigation = "".join(f'<a href="#{_anchor(title)}">{_text(title)}</a>' for title in titles)
    name = _text(", ".join(run.name for run in runs))
    data = {"track": track, "panels": [_pack(panel) for section in sections for panel in section.panels]}
    # Escape what would end the script element early.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    style = _read(_UPLOT / "uPlot.min.css") + _read(_ASSETS / "report.css")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main><header><h1>{name}</h1><p>vehicled {__version__}. Drag over a plot to zoom all of them, "
        f"double click to see the whole run.</p></header><nav>{navigation}</nav>{content}{summaries}</main>"
        f'<script type="application/json" id="data">{text}</script>'
        f"<script>{_read(_UPLOT / 'uPlot.iife.min.js')}</script><script>{_read(_ASSETS / 'report.js')}</script>"
        "</body></html>\n"
    )


_TRACK_CAPTION = (
    "The point of the output (the vehicle origin, unless another is set) in the local east-north-up plane; fixes are "
    "of the GNSS antenna. The wheel of the mouse zooms, a drag moves."
)


def _read(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


def _table_title(runs: Sequence[RunData], run: RunData) -> str:
    return "Summary" if len(runs) == 1 else f"Summary of {run.name}"


def _pack(panel: Panel) -> dict[str, Any]:
    """A panel for the page's script."""
    return {
        "title": f"{panel.title}, {panel.unit}" if panel.unit else panel.title,
        "note": panel.note,
        "limits": panel.limits,
        "log": panel.is_logarithmic,
        "parts": [
            {
                "t": _pack_numbers(part.t, "<f8"),
                "bound": None if part.bound is None else _pack_numbers(part.bound),
                "lines": [
                    {
                        "label": line.label,
                        "color": line.color,
                        "dash": line.dash,
                        "kind": line.kind,
                        "width": line.width,
                        "y": _pack_numbers(line.y),
                    }
                    for line in part.lines
                ],
            }
            for part in panel.parts
        ],
    }


def _pack_numbers(values: np.ndarray, kind: str = "<f4") -> str:
    """Little-endian numbers in base64: half as long as decimal text."""
    with np.errstate(over="ignore"):
        return base64.b64encode(np.asarray(values).astype(kind).tobytes()).decode()


def _draw_track(runs: Sequence[RunData]) -> list[dict[str, Any]] | None:
    """Lines and points in the plane, m; None without any."""
    drawn: list[dict[str, Any]] = []

    def add(
        label: str,
        color: str,
        kind: str,
        most: int,
        x: np.ndarray,
        y: np.ndarray,
        t: np.ndarray | None = None,
    ) -> None:
        kept = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if not len(kept):
            return
        kept = kept[:: -(-len(kept) // most)]
        packed = [None if v is None else _pack_numbers(v[kept], "<f8") for v in (x, y, t)]
        drawn.append({"label": label, "color": color, "kind": kind, **dict(zip("xyt", packed, strict=True))})

    for k, run in enumerate(runs):
        if not (run.known("x") and run.known("y")):
            continue
        if k == 0:
            add("GNSS fixes", GNSS, "points", _MOST_FIXES, *run.fixes.T)
        columns, t = run.estimates.columns, run.seconds(run.estimates.t)
        add(run.name, RUN_COLORS[k % len(RUN_COLORS)], "line", _TRACK_POINTS, columns["x"], columns["y"], t)
        if k == 0 and run.comparison is not None and {"x", "y"} <= run.comparison.truth.keys():
            truth = run.comparison.truth
            add("truth", TRUTH, "dashes", _TRACK_POINTS, truth["x"], truth["y"])
    return drawn or None


def _text(text: object) -> str:
    return html.escape(str(text))


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _cards(run: RunData) -> Iterator[str]:
    t = run.estimates.t
    length = (int(t[-1]) - int(t[0])) / 1e9
    yield _card(f"{length:.1f} s", f"{len(t)} steps")
    if run.known("x") and run.known("y"):
        moves = np.hypot(np.diff(run.estimates.columns["x"]), np.diff(run.estimates.columns["y"]))
        distance = float(np.nansum(moves))
        yield _card(f"{distance / 1000:.2f} km" if distance >= 1000 else f"{distance:.0f} m", "driven")
    if run.scores is not None:
        quantities = run.scores.quantities
        for name, label in (
            ("horizontal", "horizontal RMSE"),
            ("yaw", "yaw RMSE"),
            ("sideslip", "sideslip RMSE"),
        ):
            if name in quantities:
                yield _card(" ".join(_amount(quantities[name].rmse, quantities[name].unit)), label)
    durations = run.recorded.steps[:, 1]
    durations = durations[durations > 0]
    if len(durations):
        yield _card(
            f"{np.median(durations) / 1e3:.0f} µs",
            f"median step, 99.9 % {np.quantile(durations, 0.999) / 1e3:.0f} µs",
        )
    estimator = _estimator_status(run)
    if "restarts" in estimator:
        yield _card(str(estimator["restarts"]), "restarts of the filter", bad=estimator["restarts"] > 0)
    if estimator.get("steps") and "without_steering" in estimator:
        share = estimator["without_steering"] / estimator["steps"]
        yield _card(f"{100 * (1 - share):.0f} %", "steps with measured steering", bad=share > 0.01)
    loop = run.recorded.status.counters.get("loop") if run.recorded.status else None
    if isinstance(loop, dict) and loop.get("steps"):
        missed = loop.get("missed", 0)
        yield _card(
            f"{100 * (1 - missed / loop['steps']):.2f} %",
            f"steps on time, {missed} missed",
            bad=missed > 0.001 * loop["steps"],
        )


def _estimator_status(run: RunData) -> dict[str, Any]:
    """The estimator's part of the last status; empty in recordings without a status."""
    status = run.recorded.status.counters.get("estimator") if run.recorded.status else None
    return status if isinstance(status, dict) else {}


def _card(value: str, label: str, bad: bool = False) -> str:
    mark = ' class="bad"' if bad else ""
    return f'<div class="card"><b{mark}>{_text(value)}</b><span>{_text(label)}</span></div>'


def _amount(value: float, unit: str) -> tuple[str, str]:
    """A number in a customary unit: degrees for radians, and millimetres if metres are too coarse."""
    factor, shown = {"rad": (DEG, "deg"), "rad/s": (DEG, "deg/s")}.get(unit, (1.0, unit))
    if unit == "m" and abs(value) < 0.1:
        factor, shown = 1000.0, "mm"
    return f"{value * factor:.3g}", shown


def _summary(run: RunData) -> str:
    tables = [_scores_table(run), _sensors_table(run), _sources_table(run), _parameters_table(run)]
    units = _estimator_status(run).get("units", {})
    faults = [
        *(str(p) for p in run.problems if p),
        *(f"{channels}: {text}" for channels, text in units.items()),
    ]
    problems = "".join(f"<p class=bad>{_text(fault)}</p>" for fault in faults)
    counters = _counters_table(run)
    folded = f"<details><summary>Last status</summary>{counters}</details>" if counters else ""
    return f'{problems}<div class="tables">{"".join(f"<div>{t}</div>" for t in tables if t)}</div>{folded}'


def _table(head: list[str], rows: list[list[str]]) -> str:
    """A table; its cells are already HTML."""
    if not rows:
        return ""
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{_text(h)}</th>' for h in head)}</tr>{lines}</table>"


def _scores_table(run: RunData) -> str:
    if run.scores is None:
        return ""

    def row(name: str, s: Score) -> list[str]:
        rmse, unit = _amount(s.rmse, s.unit)
        # Both numbers in the unit of the larger one, to be comparable.
        largest, largest_unit = _amount(s.max, s.unit)
        if unit != largest_unit:
            rmse = f"{s.rmse:.3g}"
        nees = "" if s.nees is None else _mark_consistency(s.nees)
        return [_text(name), rmse, largest, _text(largest_unit), nees]

    rows = [row(name, s) for name, s in run.scores.quantities.items()]
    notes = "".join(f"<p>{_text(note)}</p>" for note in run.scores.notes)
    return _table(["error of", "RMSE", "largest", "", "NEES"], rows) + notes


def _mark_consistency(consistency: float) -> str:
    """A number that should be 1, marked if it is outside 0.8 to 1.25."""
    if not math.isfinite(consistency):
        return "–"
    return (
        f"{consistency:.2f}" if 0.8 <= consistency <= 1.25 else f'<span class="bad">{consistency:.3g}</span>'
    )


def _sensors_table(run: RunData) -> str:
    rows = []
    for name, s in run.recorded.scores.items():
        reasons = ", ".join(
            f"{reason} {n}" for reason, n in run.recorded.sensors[name].reasons.most_common(3)
        )
        rows.append([_text(name), _mark_consistency(s.nis), str(s.fused), _text(reasons)])
    return _table(["sensor, as recorded", "NIS", "accepted", "rejected"], rows)


def _sources_table(run: RunData) -> str:
    length = max((int(run.estimates.t[-1]) - run.start) / 1e9, 1e-9)
    rows = [
        [_text(name), str(d.measurements), f"{d.measurements / length:.1f}", f"{d.latency * 1e3:.1f}"]
        for name, d in run.recorded.devices.items()
    ]
    return _table(["device", "measurements", "Hz", "latency, ms"], rows)


def _parameters_table(run: RunData) -> str:
    found = run.recorded.parameters
    if found is None:
        return ""
    rows = []
    for name, value in found.value.items():
        sigma, unit = _amount(found.sigma[name], found.unit[name])
        shown, shown_unit = _amount(value, found.unit[name])
        if unit != shown_unit:
            # Both in the unit of the file, to be comparable.
            shown, sigma, unit = f"{value:.3g}", f"{found.sigma[name]:.3g}", found.unit[name]
        rows.append([_text(name), shown, f"± {sigma}", _text(unit)])
    return _table(["found at the end", "", "1 σ", ""], rows)


def _counters_table(run: RunData) -> str:
    """The counters of the last status, without the many zeros."""
    if run.recorded.status is None:
        return ""

    def flatten(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flatten(f"{prefix} {key}".strip(), inner)
        elif value not in (0, 0.0, None, "", [], False):
            yield prefix, f"{value:.6g}" if isinstance(value, float) else str(value)

    rows = [[_text(name), _text(value)] for name, value in flatten("", run.recorded.status.counters)]
    return _table(["counter", ""], rows)
