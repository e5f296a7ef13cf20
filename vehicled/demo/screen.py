"""The live view: a page that redraws itself in a terminal, a line every five seconds elsewhere."""

from __future__ import annotations

import math
import sys
import time
from typing import Self, TextIO

import numpy as np

from vehicled.live.feed import Feed
from vehicled.live.lines import (
    DEG,
    WIDTH,
    Values,
    corner_lines,
    format_value,
    gnss_lines,
    health_lines,
    justify,
    make_map,
    motion_lines,
    number,
    row,
    style,
    while_moving,
)
from vehicled.maths.angles import wrap
from vehicled.messages import ESTIMATE_INDEX
from vehicled.simulation.drive import Truth
from vehicled.terminal.canvas import HIDE_CURSOR, SHOW_CURSOR, get_size

_SPARSE_S = 5.0


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
        self._map = make_map(x, y, WIDTH)
        self._drawn = 0
        self._next_line = time.monotonic() + _SPARSE_S

    def show(self, feed: Feed) -> None:
        """What is estimated now. After the end of the drive, of which there is no truth, the last page stays."""
        if self._quiet:
            return
        now = (time.monotonic_ns() - self._offset) * 1e-9
        estimate = feed.estimate()
        if estimate is not None and number(estimate["t"]) - self._offset > self._truth.t[-1]:
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
        styled = (style(line[: columns - 1]) + "\x1b[K\n" for line in lines)
        self._stream.write(f"{up}\r{''.join(styled)}\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)

    def _page(self, now: float, estimate: Values | None, feed: Feed) -> list[str]:
        lines = [justify(self._title, f"{min(max(now, 0.0), self._length):.1f} of {self._length:.1f} s")]
        lines += [_bar(now / self._length, WIDTH), ""]
        if estimate is None:
            return [*lines, "waiting for the first estimate"]
        e, true = estimate, self._true(estimate)
        if e["x"] is not None and e["y"] is not None:
            self._map.dot(e["x"], e["y"])
            self._map.mark(e["x"], e["y"], "●")
        lines += [*motion_lines(e), "", *corner_lines(e), ""]
        lines += [*self._errors(e, true), *gnss_lines(feed), *health_lines(feed), "", *self._map.lines()]
        return lines

    def _true(self, estimate: Values) -> dict[str, float]:
        """The truth at the time of an estimate, angles within a turn of it."""
        t = number(estimate["t"]) - self._offset
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

    def _errors(self, e: Values, true: dict[str, float]) -> list[str]:
        horizontal = _horizontal_error(e, true)
        sigma = math.hypot(number(e["sigma.x"]), number(e["sigma.y"]))
        yaw = wrap(number(e["yaw"]) - true["yaw"])
        parts = [
            f"{horizontal * 100:6.1f} cm (3σ {3 * sigma * 100:.1f})",
            f"yaw {yaw * DEG:+.2f}° ({3 * number(e['sigma.yaw']) * DEG:.2f})",
        ]
        if while_moving(e, "sideslip") is not None:
            slip = wrap(number(e["sideslip"]) - true["sideslip"])
            parts.append(f"sideslip {slip * DEG:+.2f}° ({3 * number(e['sigma.sideslip']) * DEG:.2f})")
        return [row("true error", "  ".join(parts))]

    def _line(self, now: float, e: Values, feed: Feed) -> str:
        true = self._true(e)
        horizontal = _horizontal_error(e, true)
        parts = [
            f"{now:5.1f} of {self._length:.1f} s",
            format_value(e["vx"], 3.6, "km/h", 5),
            f"sideslip {format_value(while_moving(e, 'sideslip'), DEG, '°', 5, 2)}",
            f"off by {horizontal * 100:.1f} cm",
        ]
        if feed.status is not None:
            loop = feed.status.counters.loop
            assert loop is not None  # of a daemon
            parts.append(f"step {number(loop.step_us.median):.0f} µs")
            parts.append(f"{loop.missed} of {loop.steps} deadlines missed")
        return ", ".join(parts)


def _horizontal_error(e: Values, true: dict[str, float]) -> float:
    """Distance in the plane, m."""
    return math.hypot(number(e["x"]) - true["x"], number(e["y"]) - true["y"])


def _bar(fraction: float, width: int) -> str:
    eighths = round(min(max(fraction, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width, "░")
