"""The live view: a page that redraws itself in a terminal, a line every five seconds elsewhere."""

from __future__ import annotations

import math
import sys
import time
from typing import Self, TextIO

import numpy as np

from vehicled.angles import wrap
from vehicled.demo.feed import Feed
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.simulation.drive import Truth
from vehicled.terminal import DIM, HIDE_CURSOR, PLAIN, RED, SHOW_CURSOR, Canvas, get_size

_SPARSE_S = 5.0
_WIDTH = 78
_LABEL = 11
_NAMES = {"fl": "front left", "fr": "front right", "rl": "rear left", "rr": "rear right"}
_DEG = 180 / math.pi
_SMALLEST_MAP = 1.0
"""m, either way: where the car stands still there is no area."""


class Screen:
    """Shows a drive while it runs. A context manager."""

    def __init__(
        self, title: str, truth: Truth, offset: int, quiet: bool, stream: TextIO | None = None
    ) -> None:
        """`offset`: host monotonic time less the time of `truth`, ns. `quiet` shows nothing at all."""
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._terminal = self._stream.isatty()
        self._title = title
        self._offset = offset
        self._truth = truth
        self._length = float(truth.t[-1]) * 1e-9
        x, y = (truth.values[:, ESTIMATE_INDEX[c]] for c in ("x", "y"))
        self._map = make_map(x, y, _WIDTH)
        self._drawn = 0
        self._next_line = time.monotonic() + _SPARSE_S

    def show(self, feed: Feed) -> None:
        """What is estimated now. After the end of the drive, of which there is no truth, the last page stays."""
        if self._quiet:
            return
        now = (time.monotonic_ns() - self._offset) * 1e-9
        estimate = feed.estimate()
        if estimate is not None and _number(estimate["t"]) - self._offset > self._truth.t[-1]:
            return
        if self._terminal:
            self._draw(self._page(now, estimate, feed))
        elif estimate is not None and time.monotonic() >= self._next_line:
            self._next_line += _SPARSE_S
            self._stream.write(self._line(now, estimate, feed) + "\n")
            self._stream.flush()

    def __enter__(self) -> Self:
        if self._terminal and not self._quiet:
            self._stream.write(HIDE_CURSOR)
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal and not self._quiet:
            self._stream.write(SHOW_CURSOR)
            self._stream.flush()

    def _draw(self, lines: list[str]) -> None:
        columns, rows = get_size(self._stream)
        lines = lines[: rows - 1]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        styled = (_style(line[: columns - 1]) + "\x1b[K\n" for line in lines)
        self._stream.write(f"{up}\r{''.join(styled)}\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)

    def _page(self, now: float, estimate: dict[str, float | None] | None, feed: Feed) -> list[str]:
        lines = [_justify(self._title, f"{min(max(now, 0.0), self._length):.1f} of {self._length:.1f} s")]
        lines += [_bar(now / self._length, _WIDTH), ""]
        if estimate is None:
            return [*lines, "waiting for the first estimate"]
        e, true = estimate, self._true(estimate)
        if e["x"] is not None and e["y"] is not None:
            self._map.dot(e["x"], e["y"])
            self._map.mark(e["x"], e["y"], "●")
        speed = _number(e["vx"])
        lines += [
            _row(
                "position",
                _value(e["x"], 1, "m east", 8, 2),
                _value(e["y"], 1, "m north", 8, 2),
                _value(e["z"], 1, "m up", 6, 2),
            ),
            _row(
                "motion",
                f"{speed * 3.6:8.1f} km/h",
                _value(e["yaw"], _DEG, "° heading", 10),
                _value(e["ax"], 1, "m/s² ahead", 6, 1),
                _value(e["ay"], 1, "left", 6, 1),
            ),
            _row(
                "sideslip",
                _value(_moving(e, "sideslip"), _DEG, "°", 8, 2),
                " ",
                swing_bar(_moving(e, "sideslip"), 6 / _DEG, 41),
            ),
            "",
            _row("", *(f"{title:^21}" for title in ("slip angle", "slip ratio", "deflection"))),
        ]
        for w in WHEELS:
            angle, ratio = _moving(e, f"slip.{w}.angle"), _moving(e, f"slip.{w}.ratio")
            deflection = e[f"suspension.{w}.deflection"]
            lines.append(
                _row(
                    _NAMES[w],
                    f"{_value(angle, _DEG, '°', 6)} {swing_bar(angle, 4 / _DEG)}",
                    f"{_value(ratio, 100, '%', 6)} {swing_bar(ratio, 0.1)}",
                    f"{_value(deflection, 1e3, 'mm', 6, 0)} {swing_bar(deflection, 0.03)}",
                )
            )
        lines += ["", *self._errors(e, true), *_gnss(feed), *_health(feed), "", *self._map.lines()]
        return lines

    def _true(self, estimate: dict[str, float | None]) -> dict[str, float]:
        """The truth at the time of an estimate, angles within a turn of it."""
        t = _number(estimate["t"]) - self._offset
        i = int(np.clip(np.searchsorted(self._truth.t, t), 1, len(self._truth.t) - 1))
        before, after = self._truth.t[i - 1], self._truth.t[i]
        share = min(max((t - before) / (after - before), 0.0), 1.0)
        result = {}
        for column in ("x", "y", "yaw", "sideslip"):
            a, b = self._truth.values[i - 1 : i + 1, ESTIMATE_INDEX[column]]
            if column in ("yaw", "sideslip"):
                b = a + wrap(b - a)
            result[column] = float(a + share * (b - a))
        return result

    def _errors(self, e: dict[str, float | None], true: dict[str, float]) -> list[str]:
        horizontal = math.hypot(_number(e["x"]) - true["x"], _number(e["y"]) - true["y"])
        sigma = math.hypot(_number(e["sigma.x"]), _number(e["sigma.y"]))
        yaw = wrap(_number(e["yaw"]) - true["yaw"])
        parts = [
            f"{horizontal * 100:6.1f} cm (3σ {3 * sigma * 100:.1f})",
            f"heading {yaw * _DEG:+.2f}° ({3 * _number(e['sigma.yaw']) * _DEG:.2f})",
        ]
        if _moving(e, "sideslip") is not None:
            slip = wrap(_number(e["sideslip"]) - true["sideslip"])
            parts.append(f"sideslip {slip * _DEG:+.2f}° ({3 * _number(e['sigma.sideslip']) * _DEG:.2f})")
        return [_row("true error", "  ".join(parts))]

    def _line(self, now: float, e: dict[str, float | None], feed: Feed) -> str:
        true = self._true(e)
        horizontal = math.hypot(_number(e["x"]) - true["x"], _number(e["y"]) - true["y"])
        parts = [
            f"{now:5.1f} of {self._length:.1f} s",
            _value(e["vx"], 3.6, "km/h", 5),
            f"sideslip {_value(_moving(e, 'sideslip'), _DEG, '°', 5, 2)}",
            f"off by {horizontal * 100:.1f} cm",
        ]
        if feed.status is not None:
            loop = feed.status["loop"]
            parts.append(f"step {_number(loop['step_us']['median']):.0f} µs")
            parts.append(f"{loop['missed']} of {loop['steps']} deadlines missed")
        return ", ".join(parts)


def make_map(x: np.ndarray, y: np.ndarray, columns: int, rows: int = 7) -> Canvas:
    """An empty map of the area that contains these points (n,), m; as small as the area's proportions allow."""
    west, south = float(np.nanmin(x)), float(np.nanmin(y))
    width = max(float(np.nanmax(x)) - west, _SMALLEST_MAP)
    height = max(float(np.nanmax(y)) - south, _SMALLEST_MAP)
    metres_per_dot = max(width / (2 * columns - 1), height / (4 * rows - 1))
    columns = min(columns, round(width / metres_per_dot) // 2 + 1)
    rows = min(rows, round(height / metres_per_dot) // 4 + 1)
    return Canvas(columns, rows, west, south, west + width, south + height)


def _gnss(feed: Feed) -> list[str]:
    if not feed.fixes:
        return [_row("GNSS", "no position in the last second")]
    accepted = sum(fix.fused for fix in feed.fixes)
    text = f"{accepted:6} of {len(feed.fixes)} fixes accepted in 1 s"
    last = feed.fixes[-1]
    if last.horizontal is not None and last.sigma is not None:
        text += f", last one {last.horizontal * 100:.1f} cm off (σ {last.sigma * 100:.1f})"
    return [_row("GNSS", text)]


def _health(feed: Feed) -> list[str]:
    if feed.status is None:
        return []
    loop, queue, recorder = (feed.status[part] for part in ("loop", "queue", "recorder"))
    median, most, largest = (_number(loop["step_us"][key]) for key in ("median", "p999", "max"))
    step = f"{median:6.0f} µs (99.9 % {most:.0f}, max {largest:.0f})"
    deadlines = f"{loop['missed']} of {loop['steps']} deadlines missed{'!' if loop['missed'] else ''}"
    rate = "" if feed.measurement_rate is None else f"{feed.measurement_rate:6.0f} measurements/s, "
    data = f"{rate}{sum(queue['dropped'].values())} dropped, {recorder['bytes'] / 1e6:.1f} MB recorded"
    return [_row("filter step", f"{step}, {deadlines}"), _row("data", data)]


def _style(line: str) -> str:
    """Labels dim, missed deadlines red."""
    if line.endswith("!"):
        return f"{RED}{line[:-1]}{PLAIN}"
    return f"{DIM}{line[:_LABEL]}{PLAIN}{line[_LABEL:]}" if line[:1].isalpha() else line


def _row(label: str, *cells: str) -> str:
    return f"{label:<{_LABEL}} {' '.join(cells)}".rstrip()


def _justify(left: str, right: str) -> str:
    return f"{left}{right:>{_WIDTH - len(left)}}"


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _moving(e: dict[str, float | None], column: str) -> float | None:
    """A slip, which means something only from walking pace on."""
    return e[column] if abs(_number(e["vx"])) > 1.0 else None


def _value(value: float | None, factor: float, unit: str, width: int, decimals: int = 1) -> str:
    # The sum makes −0 a plain 0.
    number = "–" if value is None else f"{round(value * factor, decimals) + 0.0:.{decimals}f}"
    return f"{number:>{width}}{'' if unit[0] in '°%' else ' '}{unit}"


def _bar(fraction: float, width: int) -> str:
    eighths = round(min(max(fraction, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width, "░")


def swing_bar(value: float | None, full: float, width: int = 13) -> str:
    """A bar from the middle to either side, which `full` fills; to the right is positive."""
    side = width // 2
    if value is None or not math.isfinite(value):
        return " " * side + "│" + " " * side
    halves = round(min(abs(value) / full, 1.0) * side * 2)
    whole, half = divmod(halves, 2)
    # Left is the same turned round: half a block then is the right half of its cell.
    if value >= 0:
        return " " * side + "│" + ("█" * whole + "▌" * half).ljust(side)
    return ("▐" * half + "█" * whole).rjust(side) + "│" + " " * side
