"""Paths to be driven: a planar curve laid out piece by piece from its curvature."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vehicled.maths.linear_table import LinearTable

_STEP = 0.1
"""Spacing of the points of a path, m."""


@dataclass(frozen=True)
class Path:
    """A curve at equal steps of arc length; all arrays (n,)."""

    s: np.ndarray
    """Arc length, m."""
    x: np.ndarray
    y: np.ndarray
    heading: np.ndarray
    """rad, from x towards y, unwrapped."""
    curvature: np.ndarray
    """1/m, positive to the left."""

    def nearest(self, x: float, y: float, guess: float) -> float:
        """Arc length of the point nearest to (x, y) within a few metres of `guess`, m.

        Searches from the node at `guess` while the next node is nearer.
        """
        nodes = self._nodes
        step = nodes[1][0] - nodes[0][0]
        middle = int(guess / step)
        low = min(max(middle - 30, 0), len(nodes) - 2)
        high = min(middle + 60, len(nodes)) - 1

        def distance(i: int) -> float:
            _, x_i, y_i, _ = nodes[i]
            return (x_i - x) ** 2 + (y_i - y) ** 2

        i = min(max(middle, low), high)
        least = distance(i)
        while i < high and (further := distance(i + 1)) < least:
            i, least = i + 1, further
        while i > low and (further := distance(i - 1)) <= least:
            i, least = i - 1, further
        s, x_i, y_i, heading = nodes[i]
        along = (x - x_i) * math.cos(heading) + (y - y_i) * math.sin(heading)
        return s + min(max(along, -step), step)

    def offset(self, s: float, x: float, y: float) -> float:
        """How far (x, y) lies to the left of the path at `s`, m."""
        _, x_i, y_i, heading = self._nodes[self._index(s)]
        return (y - y_i) * math.cos(heading) - (x - x_i) * math.sin(heading)

    def heading_at(self, s: float) -> float:
        """Direction of the path at arc length s (m), rad; at the nearest node, continued with its curvature."""
        i = self._index(s)
        return float(self.heading[i] + self.curvature[i] * (s - self.s[i]))

    def curvature_at(self, s: float) -> float:
        """1/m at arc length s (m), positive to the left; linear between nodes."""
        return self._curvature(s)

    # A driver calls these thousands of times, for single points.

    @cached_property
    def _nodes(self) -> list[tuple[float, float, float, float]]:
        """Points (s, x, y, heading) as plain numbers."""
        columns = (self.s, self.x, self.y, self.heading)
        return list(zip(*(c.tolist() for c in columns), strict=True))

    @cached_property
    def _curvature(self) -> LinearTable:
        return LinearTable(self.s, self.curvature)

    def _index(self, s: float) -> int:
        nodes = self._nodes
        return min(max(round(s / (nodes[1][0] - nodes[0][0])), 0), len(nodes) - 1)


class CourseBuilder:
    """Lays pieces end to end; the curvature is continuous within each piece and zero where pieces meet."""

    def __init__(self, x: float = 0.0, y: float = 0.0, heading: float = 0.0) -> None:
        self._start = x, y, heading
        self._pieces: list[np.ndarray] = []

    def straight(self, length: float) -> "CourseBuilder":
        """Append a straight piece, m."""
        return self._append(length, lambda s: np.zeros_like(s))

    def corner(self, radius: float, angle: float, transition: float) -> "CourseBuilder":
        """An arc between two clothoids of length `transition` (m), turning by `angle` (rad, left positive).

        The arc is shortened by what the clothoids turn; ValueError if those alone turn more than `angle`.
        """
        arc = abs(angle) * radius - transition
        if arc < 0:
            raise ValueError(f"a corner of {angle:g} rad at {radius:g} m is shorter than its transitions")
        peak = math.copysign(1 / radius, angle)
        knots = np.cumsum([0.0, transition, arc, transition])
        return self._append(knots[-1], lambda s: np.interp(s, knots, [0.0, peak, peak, 0.0]))

    def shift(self, length: float, offset: float) -> "CourseBuilder":
        """A change of lane: `offset` m to the left over `length` m ahead, along a quintic."""
        u = np.linspace(0.0, 1.0, 2001)
        slope = offset / length * (30 * u**2 - 60 * u**3 + 30 * u**4)
        bend = offset / length**2 * (60 * u - 180 * u**2 + 120 * u**3)
        stretch = np.sqrt(1 + slope**2)
        arc = np.concatenate([[0.0], np.cumsum((stretch[1:] + stretch[:-1]) / 2 * np.diff(u) * length)])
        curvature = bend / stretch**3
        return self._append(float(arc[-1]), lambda s: np.interp(s, arc, curvature))

    def weave(self, wavelength: float, amplitude: float, periods: int) -> "CourseBuilder":
        """A slalom about the straight line ahead, swinging left and right by `amplitude` (m)."""
        half = wavelength / 2
        # Out to one side over a quarter of a period, then from side to side, then back to the line.
        self.shift(half, amplitude)
        for i in range(2 * periods - 1):
            self.shift(half, -2 * amplitude if i % 2 == 0 else 2 * amplitude)
        return self.shift(half, amplitude)

    def build(self) -> Path:
        """The path of all pieces so far."""
        curvature = np.concatenate([*self._pieces, [0.0]])
        s = _STEP * np.arange(len(curvature))
        x0, y0, heading0 = self._start
        heading = heading0 + _integrate(curvature)
        return Path(s, x0 + _integrate(np.cos(heading)), y0 + _integrate(np.sin(heading)), heading, curvature)

    def _append(self, length: float, curvature: Callable[[np.ndarray], np.ndarray]) -> "CourseBuilder":
        # Stretch the piece to whole steps, keeping the angle that it turns.
        n = max(round(length / _STEP), 1)
        scale = length / (n * _STEP)
        self._pieces.append(scale * curvature(np.arange(n) * _STEP * scale))
        return self


def _integrate(rate: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * _STEP)])


@dataclass(frozen=True)
class Lane:
    """A lane between cones along x: from `start` to `end`, its right edge at `right`; all m."""

    start: float
    end: float
    right: float
    width: float

    @property
    def middle(self) -> float:
        """y of its centre line, m."""
        return self.right + self.width / 2


def double_lane_change_lanes(vehicle_width: float) -> tuple[Lane, Lane, Lane]:
    """The three coned lanes of ISO 3888-1 for a vehicle of this width (m).

    Lengths 15, 25 and 30 m with 30 and 25 m between them; widths 1.1 w, 1.2 w and 1.3 w, each + 0.25 m; the
    middle lane lies 3.5 m to the left, right edge to right edge. x starts at the entry, y in the middle of
    the first lane.
    """
    widths = [k * vehicle_width + 0.25 for k in (1.1, 1.2, 1.3)]
    right = -widths[0] / 2
    return (
        Lane(0.0, 15.0, right, widths[0]),
        Lane(45.0, 70.0, right + 3.5, widths[1]),
        Lane(95.0, 125.0, right, widths[2]),
    )


def double_lane_change(builder: CourseBuilder, vehicle_width: float) -> CourseBuilder:
    """Adds a path through the three lanes of ISO 3888-1 that keeps a car of this width between the cones.

    As a driver does, it begins to turn while still in a lane and ends turning in the next.
    """
    first, second, third = double_lane_change_lanes(vehicle_width)
    before, after = (7.0, 6.0), (7.0, 9.0)
    # m by which each change begins before the end of a lane and ends after the start of the next
    builder.straight(first.end - before[0] - first.start)
    builder.shift(second.start - first.end + before[0] + after[0], second.middle - first.middle)
    builder.straight(second.end - before[1] - second.start - after[0])
    builder.shift(third.start - second.end + before[1] + after[1], third.middle - second.middle)
    return builder.straight(third.end - third.start - after[1])
