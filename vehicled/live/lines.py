"""Lines of text with an estimate and the daemon's health, for the pages of `vehicled demo` and `top`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vehicled.live.feed import Feed
from vehicled.messages import WHEELS
from vehicled.terminal.canvas import DIM, PLAIN, RED, Canvas

WIDTH = 78
DEG = 180 / math.pi
_LABEL = 11
_NAMES = {"fl": "front left", "fr": "front right", "rl": "rear left", "rr": "rear right"}
_SMALLEST_MAP = 1.0
"""Least width and height, m: a car at standstill has no area."""

Values = dict[str, Any]
"""An estimate as returned by `Feed.estimate`."""


def motion_lines(e: Values) -> list[str]:
    """Position, velocity and sideslip."""
    return [
        row(
            "position",
            format_value(e["x"], 1, "m east", 8, 2),
            format_value(e["y"], 1, "m north", 8, 2),
            format_value(e["z"], 1, "m up", 6, 2),
        ),
        row(
            "motion",
            f"{number(e['vx']) * 3.6:8.1f} km/h",
            format_value(e["yaw"], DEG, "° yaw", 10),
            format_value(e["ax"], 1, "m/s² ahead", 6, 1),
            format_value(e["ay"], 1, "left", 6, 1),
        ),
        row(
            "sideslip",
            format_value(while_moving(e, "sideslip"), DEG, "°", 8, 2),
            " ",
            swing_bar(while_moving(e, "sideslip"), 6 / DEG, 41),
        ),
    ]


def corner_lines(e: Values) -> list[str]:
    """Slip and deflection of each wheel, with a heading."""
    lines = [row("", *(f"{title:^21}" for title in ("slip angle", "slip ratio", "deflection")))]
    for w in WHEELS:
        angle, ratio = while_moving(e, f"slip.{w}.angle"), while_moving(e, f"slip.{w}.ratio")
        deflection = e[f"suspension.{w}.deflection"]
        lines.append(
            row(
                _NAMES[w],
                f"{format_value(angle, DEG, '°', 6)} {swing_bar(angle, 4 / DEG)}",
                f"{format_value(ratio, 100, '%', 6)} {swing_bar(ratio, 0.1)}",
                f"{format_value(deflection, 1e3, 'mm', 6, 0)} {swing_bar(deflection, 0.03)}",
            )
        )
    return lines


def gnss_lines(feed: Feed) -> list[str]:
    """Whether the receiver's positions were accepted."""
    if not feed.fixes:
        return [row("GNSS", "no position in the last second")]
    accepted = sum(fix.fused for fix in feed.fixes)
    text = f"{accepted:6} of {len(feed.fixes)} fixes accepted in 1 s"
    last = feed.fixes[-1]
    if last.horizontal is not None and last.sigma is not None:
        text += f", last one {last.horizontal * 100:.1f} cm off (σ {last.sigma * 100:.1f})"
    return [row("GNSS", text)]


def health_lines(feed: Feed) -> list[str]:
    """Time of the filter step, deadlines, and numbers of received, dropped and recorded messages, as far as known."""
    if feed.status is None:
        return []
    counters, lines = feed.status.counters, []
    if loop := counters.loop:
        median, most, largest = map(number, (loop.step_us.median, loop.step_us.p999, loop.step_us.max))
        step = f"{median:6.0f} µs (99.9 % {most:.0f}, max {largest:.0f})"
        deadlines = f"{loop.missed} of {loop.steps} deadlines missed{'!' if loop.missed else ''}"
        lines.append(row("filter step", f"{step}, {deadlines}"))
    if queue := counters.queue:
        rate = "" if feed.measurement_rate is None else f"{feed.measurement_rate:6.0f} measurements/s, "
        recorder = counters.recorder
        kept = "not recorded" if recorder is None else f"{recorder.bytes / 1e6:.1f} MB recorded"
        lines.append(row("data", f"{rate}{sum(queue.dropped.values())} dropped, {kept}"))
    return lines


def make_map(x: np.ndarray, y: np.ndarray, columns: int, rows: int = 7) -> Canvas:
    """An empty map of the area that contains these points (n,), m; as small as its proportions allow."""
    west, south = float(np.nanmin(x)), float(np.nanmin(y))
    width = max(float(np.nanmax(x)) - west, _SMALLEST_MAP)
    height = max(float(np.nanmax(y)) - south, _SMALLEST_MAP)
    metres_per_dot = max(width / (2 * columns - 1), height / (4 * rows - 1))
    columns = min(columns, round(width / metres_per_dot) // 2 + 1)
    rows = min(rows, round(height / metres_per_dot) // 4 + 1)
    return Canvas(columns, rows, west, south, west + width, south + height)


def style(line: str) -> str:
    """A line with styles for a terminal: labels dim, and a line that ends with ! red."""
    if line.endswith("!"):
        return f"{RED}{line[:-1]}{PLAIN}"
    return f"{DIM}{line[:_LABEL]}{PLAIN}{line[_LABEL:]}" if line[:1].isalpha() else line


def row(label: str, *cells: str) -> str:
    """A line: its label, and its cells."""
    return f"{label:<{_LABEL}} {' '.join(cells)}".rstrip()


def justify(left: str, right: str) -> str:
    """A line with text at both of its ends."""
    return f"{left}{right:>{WIDTH - len(left)}}"


def number(value: float | None) -> float:
    """The value, or NaN if unknown."""
    return math.nan if value is None else value


def while_moving(e: Values, column: str) -> float | None:
    """A slip, which is meaningful only above walking speed; None below."""
    value: float | None = e[column]
    return value if abs(number(e["vx"])) > 1.0 else None


def format_value(value: float | None, factor: float, unit: str, width: int, decimals: int = 1) -> str:
    """A value times `factor` with its unit; the number has `width` characters."""
    # Adding 0.0 turns −0 into 0.
    digits = "–" if value is None else f"{round(value * factor, decimals) + 0.0:.{decimals}f}"
    return f"{digits:>{width}}{'' if unit[0] in '°%' else ' '}{unit}"


def swing_bar(value: float | None, full: float, width: int = 13) -> str:
    """A bar from the middle to either side, full at `full`; positive values to the right."""
    side = width // 2
    if value is None or not math.isfinite(value):
        return " " * side + "│" + " " * side
    halves = round(min(abs(value) / full, 1.0) * side * 2)
    whole, half = divmod(halves, 2)
    # To the left the bar is mirrored: half a block is then the right half of its cell.
    if value >= 0:
        return " " * side + "│" + ("█" * whole + "▌" * half).ljust(side)
    return ("▐" * half + "█" * whole).rjust(side) + "│" + " " * side
