"""The page: figures and tables in one HTML file that needs nothing else."""

import base64
import html
import io
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from vehicled import __version__
from vehicled.report import plots
from vehicled.report.data import RunData, load_run
from vehicled.scoring import Score

_SECTIONS: tuple[tuple[str, Callable[[RunData], Figure | None], str], ...] = (
    (
        "Track",
        plots.track,
        "The point of the output (the vehicle origin, unless another is set) in the local east-north-up plane; fixes "
        "are of the GNSS antenna.",
    ),
    (
        "Errors",
        plots.errors,
        "Estimate minus truth, and three standard deviations by the filter's covariance.",
    ),
    ("Motion", plots.motion, "In vehicle axes: x forward, y to the left."),
    ("Slip", plots.slip, "Sideslip at the point of the output, slip angles and ratios at the wheels."),
    ("Tyre forces", plots.tyres, "On the tyre, in wheel axes."),
    ("Suspension", plots.suspension, "Relative to rest."),
    (
        "Innovations",
        plots.innovations,
        "Measurement minus prediction over its standard deviation, a colour per component; red crosses were "
        "rejected. NIS is the mean normalised innovation squared per component: 1 for a consistent filter.",
    ),
    ("Timing", plots.timing, "Of each filter step, as it was recorded live."),
)

_STYLE = """
:root { color: #1d2733; font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
body { margin: 0; background: #f5f6f8; }
main { max-width: 1060px; margin: 0 auto; padding: 2rem 1.5rem 4rem; }
header h1 { font-size: 1.6rem; margin: 0; }
header p { color: #66717e; margin: .2rem 0 1.4rem; }
nav { margin: 0 0 1.6rem; }
nav a { color: #1f5fa8; text-decoration: none; margin-right: 1.1rem; }
nav a:hover { text-decoration: underline; }
section, .card { background: #fff; border: 1px solid #e3e6ea; border-radius: 8px; }
section { padding: 1.1rem 1.4rem 1.3rem; margin-bottom: 1.3rem; }
section h2 { font-size: 1.1rem; margin: 0 0 .1rem; }
section > p { color: #66717e; margin: 0 0 .8rem; font-size: .92rem; }
img { width: 100%; height: auto; display: block; }
.cards, .tables { display: grid; gap: .9rem; }
.cards { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); margin-bottom: 1.3rem; }
.card { padding: .7rem 1rem; }
.card b { display: block; font-size: 1.35rem; font-weight: 600; white-space: nowrap; }
.card span { color: #66717e; font-size: .85rem; }
.tables { grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 0 2.4rem; align-items: start; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; margin: .6rem 0; }
td { font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .22rem .4rem; border-bottom: 1px solid #eef0f2; }
th { color: #66717e; font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
.bad { color: #c62f3d; font-weight: 600; }
@media print { body { background: #fff; } section, .card { break-inside: avoid; } }
"""


def write_report(run: str | Path, output: str | Path, truth: str | Path | None = None) -> RunData:
    """Write the report of a recording (.mcap) or a table of estimates (.csv) to an HTML file.

    `truth`: table of true values, if known. Returns what was read. Raises UsageError, RunError, OSError.
    """
    data = load_run(run, truth)
    page = render_page(data)
    Path(output).write_text(page, encoding="utf-8")
    return data


def render_page(run: RunData) -> str:
    """The whole page about a run."""
    sections = []
    for title, draw, caption in _SECTIONS:
        figure = draw(run)
        if figure is not None:
            sections.append((title, f"<p>{_text(caption)}</p>{_image(figure, title)}"))
    sections.insert(min(1, len(sections)), ("Summary", _summary(run)))
    navigation = "".join(f'<a href="#{_anchor(title)}">{_text(title)}</a>' for title, _ in sections)
    body = "".join(
        f'<section id="{_anchor(title)}"><h2>{_text(title)}</h2>{content}</section>'
        for title, content in sections
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(run.name)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><header><h1>{_text(run.name)}</h1><p>vehicled {__version__}</p></header>"
        f'<div class="cards">{"".join(_cards(run))}</div><nav>{navigation}</nav>{body}</main></body></html>\n'
    )


def _text(text: object) -> str:
    return html.escape(str(text))


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _image(figure: Figure, title: str) -> str:
    buffer = io.BytesIO()
    with matplotlib.rc_context(plots.STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{_text(title)}" src="data:image/svg+xml;base64,{data}">'


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
    durations = np.array([s.duration for s in run.steps if s.duration is not None], dtype=float)
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
    loop = run.statuses[-1].counters.get("loop") if run.statuses else None
    if isinstance(loop, dict) and loop.get("steps"):
        missed = loop.get("missed", 0)
        yield _card(
            f"{100 * (1 - missed / loop['steps']):.2f} %",
            f"steps on time, {missed} missed",
            bad=missed > 0.001 * loop["steps"],
        )


def _estimator_status(run: RunData) -> dict[str, Any]:
    """What the last status has of the estimator; nothing in recordings without one."""
    status = run.statuses[-1].counters.get("estimator") if run.statuses else None
    return status if isinstance(status, dict) else {}


def _card(value: str, label: str, bad: bool = False) -> str:
    mark = ' class="bad"' if bad else ""
    return f'<div class="card"><b{mark}>{_text(value)}</b><span>{_text(label)}</span></div>'


def _amount(value: float, unit: str) -> tuple[str, str]:
    """A number for people: degrees for radians, and millimetres where metres are too coarse."""
    factor, shown = {"rad": (plots.DEG, "deg"), "rad/s": (plots.DEG, "deg/s")}.get(unit, (1.0, unit))
    if unit == "m" and abs(value) < 0.1:
        factor, shown = 1000.0, "mm"
    return f"{value * factor:.3g}", shown


def _summary(run: RunData) -> str:
    tables = [_scores_table(run), _sensors_table(run), _sources_table(run), _counters_table(run)]
    units = _estimator_status(run).get("units", {})
    faults = [
        *(str(p) for p in run.problems if p),
        *(f"{channels}: {text}" for channels, text in units.items()),
    ]
    problems = "".join(f"<p class=bad>{_text(fault)}</p>" for fault in faults)
    return f'{problems}<div class="tables">{"".join(f"<div>{t}</div>" for t in tables if t)}</div>'


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Cells are HTML already."""
    if not rows:
        return ""
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{_text(h)}</th>' for h in head)}</tr>{lines}</table>"


def _scores_table(run: RunData) -> str:
    if run.scores is None:
        return ""

    def row(name: str, s: Score) -> list[str]:
        rmse, unit = _amount(s.rmse, s.unit)
        # Both numbers in the unit of the larger one, so that they can be compared.
        largest, largest_unit = _amount(s.max, s.unit)
        if unit != largest_unit:
            rmse = f"{s.rmse:.3g}"
        nees = "" if s.nees is None else _mark_consistency(s.nees)
        return [_text(name), rmse, largest, _text(largest_unit), nees]

    rows = [row(name, s) for name, s in run.scores.quantities.items()]
    return _table(["error of", "RMSE", "largest", "", "NEES"], rows)


def _mark_consistency(consistency: float) -> str:
    """A number that should be 1, marked if it is outside 0.8 to 1.25."""
    if not math.isfinite(consistency):
        return "–"
    return (
        f"{consistency:.2f}" if 0.8 <= consistency <= 1.25 else f'<span class="bad">{consistency:.3g}</span>'
    )


def _sensors_table(run: RunData) -> str:
    rows = []
    for name, s in run.sensor_scores.items():
        reasons = ", ".join(f"{reason} {n}" for reason, n in run.sensors[name].reasons.most_common(3))
        rows.append([_text(name), _mark_consistency(s.nis), str(s.fused), _text(reasons)])
    return _table(["sensor", "NIS", "accepted", "rejected"], rows)


def _sources_table(run: RunData) -> str:
    counts = Counter(m.source for m in run.measurements)
    ages: dict[str, list[int]] = {}
    for m in run.measurements:
        ages.setdefault(m.source, []).append(m.arrival - m.t)
    length = max((int(run.estimates.t[-1]) - run.start) / 1e9, 1e-9)
    rows = [
        [_text(name), str(n), f"{n / length:.1f}", f"{np.median(ages[name]) / 1e6:.1f}"]
        for name, n in counts.items()
    ]
    return _table(["device", "measurements", "Hz", "latency, ms"], rows)


def _counters_table(run: RunData) -> str:
    """The last status, but without the many zeros."""
    if not run.statuses:
        return ""

    def flatten(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flatten(f"{prefix} {key}".strip(), inner)
        elif value not in (0, 0.0, None, "", [], False):
            yield prefix, f"{value:.6g}" if isinstance(value, float) else str(value)

    rows = [[_text(name), _text(value)] for name, value in flatten("", run.statuses[-1].counters)]
    return _table(["last status", ""], rows)
