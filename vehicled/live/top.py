"""State of a daemon as a page of text: redrawn in a terminal, or printed once."""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import Any

import numpy as np

from vehicled.errors import RunError
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
    row,
    style,
)
from vehicled.live.shown import ShownStatus
from vehicled.live.subscriber import Publication
from vehicled.terminal.canvas import Page, keys

_REDRAW_S = 0.1
_SILENT_S = 2.5
"""s without a status: normally there is one each second."""
_SNAPSHOT_S = 1.1
"""s: long enough for a status and a second of fixes."""
_TRACK = 2000
_SPACING = 0.5
"""Distance between points of the track, m."""
_SMALLEST_MAP_ROWS = 3


class RecentTrack:
    """Recent positions of the car."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=_TRACK)
        self._t = -math.inf

    def add(self, e: Values) -> None:
        """Add the position of an estimate. A time before the last one means another drive."""
        if e["t"] < self._t:
            self._points.clear()
        self._t = e["t"]
        x, y = e["x"], e["y"]
        if x is None or y is None:
            return
        if not self._points or math.dist(self._points[-1], (x, y)) >= _SPACING:
            self._points.append((x, y))

    def lines(self, rows: int) -> list[str]:
        """Lines of a map with at most `rows` rows; none before the car has moved."""
        if len(self._points) < 2 or rows < _SMALLEST_MAP_ROWS:
            return []
        points = np.array(self._points)
        view = make_map(points[:, 0], points[:, 1], WIDTH, rows)
        for x, y in self._points:
            view.dot(x, y)
        view.mark(*self._points[-1], "●")
        return view.lines()


def make_page(endpoint: str, feed: Feed, track: RecentTrack, rows: int) -> list[str]:
    """The page, with at most `rows` rows."""
    lines = [justify(endpoint, "" if feed.status is None else feed.status.state), ""]
    if feed.silent_for > _SILENT_S:
        lines += [_silence(feed), ""]
    e = feed.estimate()
    if e is None:
        lines += [row("estimate", "none yet")]
    else:
        track.add(e)
        lines += [*motion_lines(e), _uncertainty(e), "", *corner_lines(e)]
    lines += ["", *gnss_lines(feed), *health_lines(feed)]
    if feed.status is not None:
        lines += _condition_lines(feed.status)
    marks = [c for c in feed.commands if c.name == "mark"]
    if marks:
        lines.append(row("mark", str(marks[-1].arguments.get("text", ""))))
    return [_printable(line) for line in [*lines, "", *track.lines(rows - len(lines) - 1)]]


def _silence(feed: Feed) -> str:
    if feed.messages == 0:
        return row("waiting", "no daemon publishes there yet")
    return f"no messages for {feed.silent_for:.0f} s: the daemon has stopped, or hangs; waiting!"


def _uncertainty(e: Values) -> str:
    x, y = e["sigma.x"], e["sigma.y"]
    horizontal = None if x is None or y is None else math.hypot(x, y)
    return row(
        "1 σ",
        format_value(horizontal, 1, "m position", 8, 2),
        format_value(e["sigma.yaw"], DEG, "° yaw", 8, 2),
        format_value(e["sigma.vx"], 1, "m/s speed", 8, 2),
        format_value(e["sigma.sideslip"], DEG, "° sideslip", 8, 2),
    )


def _condition_lines(status: ShownStatus) -> list[str]:
    """Reason for the state, and each source that does not serve the estimate."""
    lines = [] if status.reason is None else [row(status.state, f"{status.reason}!")]
    for fault in status.faults:
        uncertain = f" (less certain: {', '.join(fault.less_certain)})" if fault.less_certain else ""
        lines.append(row(fault.source, f"{fault.reason}{uncertain}!"))
    return lines


def _printable(line: str) -> str:
    """The line without control characters for terminals: reasons and marks are texts of other programs."""
    return "".join(c if c.isprintable() else " " for c in line)


def watch(publication: Publication) -> None:
    """Redraw the page in this terminal until the key q is pressed. Raises UsageError for a bad endpoint."""
    with Feed(publication) as feed, Page(sys.stdout) as page, keys() as pressed:
        track = RecentTrack()
        while "q" not in pressed.take():
            feed.take(_REDRAW_S)
            columns, rows = page.size()
            lines = make_page(publication.endpoint, feed, track, rows - 1)
            page.draw([*(style(line[:columns]) for line in lines), style("q ends"[:columns])])


def take_snapshot(publication: Publication, wait: float) -> Feed:
    """Collect messages for about a second; waits for the first message at most `wait` seconds.

    Raises UsageError for a bad endpoint, RunError without a message.
    """
    with Feed(publication) as feed:
        waited = 0.0
        while feed.messages == 0:
            if waited >= wait:
                raise RunError(
                    f"{publication.endpoint}: no messages within {wait:g} s; expected a running daemon (vehicled run)"
                )
            feed.take(_REDRAW_S)
            waited += _REDRAW_S
        feed.take(_SNAPSHOT_S)
        return feed


def as_json(endpoint: str, feed: Feed) -> dict[str, Any]:
    """A snapshot for programs: SI units and radians, null for unknown values."""
    return {
        "endpoint": endpoint,
        "estimate": feed.estimate(),
        "status": feed.full_status(),
        "measurements_per_s": feed.measurement_rate,
        "fixes": {"received": len(feed.fixes), "accepted": sum(fix.fused for fix in feed.fixes)},
    }
