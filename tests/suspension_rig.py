"""Where the wheel of a corner is, from distances between its hard points alone; the chassis is fixed.

An independent solution beside that of the model: no natural coordinates, no velocities, a general solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from vehicled.vehicle.hard_points import AnyPoints, HardPoints, MacphersonPoints, SwingArmPoints


@dataclass(frozen=True)
class Placed:
    """The left wheel carrier after a motion from design position: x = center + R (x0 − center0)."""

    R: np.ndarray
    center: np.ndarray
    design_center: np.ndarray

    def of(self, point: np.ndarray | tuple[float, ...]) -> np.ndarray:
        """Where a point of the carrier is."""
        return self.center + self.R @ (np.array(point) - self.design_center)


def place(points: AnyPoints, height: float, rack: float = 0.0) -> Placed:
    """With the wheel centre raised by `height` and the tie rod's inner end moved left by `rack`, m."""
    center = np.array(points.wheel_center)

    def placed(x: np.ndarray) -> Placed:
        return Placed(Rotation.from_rotvec(x[3:]).as_matrix(), center + x[:3], center)

    def gaps(x: np.ndarray) -> np.ndarray:
        carrier = placed(x)
        found = [x[2] - height]
        for fixed, moving in _links(points):
            found.append(_distance(fixed, carrier.of(moving)) - _distance(fixed, moving))
        if not isinstance(points, SwingArmPoints):
            inner, outer = np.array(points.tie_rod_inner), points.tie_rod_outer
            found.append(
                _distance(inner + np.array([0.0, rack, 0.0]), carrier.of(outer)) - _distance(inner, outer)
            )
        if isinstance(points, MacphersonPoints):
            top, foot = carrier.of(points.strut_top), carrier.of(points.strut_foot)
            found += list(np.cross(points.strut_top - foot, (top - foot) / _distance(top, foot)))
        return np.array(found)

    start = np.array([0.0, 0.0, height, 0.0, 0.0, 0.0])
    solved = least_squares(gaps, start, method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15)
    assert np.abs(solved.fun).max() < 1e-10, "these points cannot be assembled"
    return placed(solved.x)


def _links(points: AnyPoints) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rods that hold the carrier: from points of the hinge axes to points of it."""
    if isinstance(points, SwingArmPoints):
        center = np.array(points.wheel_center)
        ends = center + 0.3 * np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0]])
        return [link for end in ends for link in _wishbone(points.hinge, points.hinge_axis, end)]
    links = _wishbone(points.lower_hinge, points.lower_axis, points.lower_ball_joint)
    if isinstance(points, HardPoints):
        links += _wishbone(points.upper_hinge, points.upper_axis, points.upper_ball_joint)
    return links


def _wishbone(hinge, axis, end) -> list[tuple[np.ndarray, np.ndarray]]:
    along = np.array(axis) / np.linalg.norm(axis)
    return [(hinge + by * along, np.array(end)) for by in (-0.2, 0.2)]


def _distance(a, b) -> float:
    return float(np.linalg.norm(np.subtract(a, b)))
