"""Wheel positions of a corner, from distances between hard points alone, and the wheel positions of the model.

The solution from distances is independent of the model: no natural coordinates, no velocities, a general solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from vehicle_rig import Basics, G, Rig

from vehicled.messages import WHEELS
from vehicled.vehicle.hard_points import (
    AnyPoints,
    HardPoints,
    MacphersonPoints,
    SwingArmPoints,
    calc_spin_axis,
)


@dataclass(frozen=True)
class Placed:
    """The left wheel carrier after a motion from design position: x = center + R (x0 − center0)."""

    R: np.ndarray
    center: np.ndarray
    design_center: np.ndarray

    def of(self, point: np.ndarray | tuple[float, ...]) -> np.ndarray:
        """Present position of a point of the carrier."""
        return self.center + self.R @ (np.array(point) - self.design_center)


def place(points: AnyPoints, height: float, rack: float = 0.0) -> Placed:
    """The carrier with the wheel centre raised by `height` and the tie rod's inner end moved left by `rack`, m."""
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
    """Rods that hold the carrier, from points of the hinge axes to points of the carrier."""
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


def points_of(rig: Rig, n: int) -> AnyPoints:
    return rig.vehicle.axle(WHEELS[n]).hard_points


def mirror(n: int) -> np.ndarray:
    return np.array([1.0, 1.0 - 2.0 * (n % 2), 1.0])


class Carriers:
    """Wheel carriers of the model, mirrored to the left side's design, and the chassis."""

    def __init__(self, rig: Rig, rates: str = "qd") -> None:
        self._rig, self.basics = rig, Basics(rig.car, rates)
        self.R_world_chassis = np.column_stack([self.basics(v, "now") for v in ("v1", "v2", "v3")])
        self.origin = rig.vehicle.center_of_mass()

    def columns(self, n: int, when: str) -> np.ndarray:
        b = self.basics
        lower, upper = (b(f"{side}.joint", when, n) for side in ("lower", "upper"))
        return np.column_stack([upper - lower, b("knuckle.forward", when, n), b("wheel.axis", when, n)])

    def __call__(self, n: int) -> Placed:
        b, R, flip = self.basics, self.R_world_chassis, np.diag(mirror(n))
        center = np.array(points_of(self._rig, n).wheel_center)
        turned = R.T @ self.columns(n, "now") @ np.linalg.inv(self.columns(n, "design"))
        design = b("lower.joint", "design", n)
        now = R.T @ (b("lower.joint", "now", n) - b("r1", "now"))
        now = now + turned @ (flip @ center - self.origin - design) + self.origin
        return Placed(flip @ turned @ flip, flip @ now, center)


class Published:
    """Published forces of one corner, in chassis axes, with positions in the design frame."""

    def __init__(self, rig: Rig, n: int, kind: str, values: dict[str, float]) -> None:
        self._rig, self._n, self._kind, self._values = rig, n, kind, values
        self._carriers = Carriers(rig)
        self._points, self._now, self._side = points_of(rig, n), self._carriers(n), mirror(n)

    def _vector(self, name: str) -> np.ndarray:
        return np.array([self._values[f"{name}{a}"] for a in "xyz"])

    def _on_arm(self, point, side: str = "lower") -> np.ndarray:
        """Present position of a point of the left arm, which has turned about its hinge as far as its end has."""
        p = self._points
        if self._kind == "swing_arm":
            return self._now.of(point)
        hinge, axis = (np.array(getattr(p, f"{side}_{what}")) for what in ("hinge", "axis"))
        joint = np.array(getattr(p, f"{side}_ball_joint"))
        turned = self._now.of(joint) - hinge
        axis = axis / np.linalg.norm(axis)
        along = axis * (axis @ turned)
        sine = axis @ np.cross(joint - hinge - along, turned - along)
        cosine = (joint - hinge - along) @ (turned - along)
        return hinge + Rotation.from_rotvec(axis * np.arctan2(sine, cosine)).apply(point - hinge)

    def acting(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Forces of chassis and rack on the corner, and their points of action."""
        p, side = self._points, self._side
        hinge = p.hinge if self._kind == "swing_arm" else p.lower_hinge
        found = [(self._vector("lower_hinge.f"), side * hinge)]
        if self._kind != "swing_arm":
            rack = self._rig.car.inputs[0] if self._n < 2 else 0.0
            inner, outer = side * p.tie_rod_inner + (0.0, rack, 0.0), side * self._now.of(p.tie_rod_outer)
            rod = (inner - outer) / np.linalg.norm(inner - outer)
            found.append((self._values["tie_rod.force"] * rod, inner))
        if self._kind == "macpherson":
            return [*found, (self._vector("upper_ball_joint.f"), side * p.strut_top)]
        if self._kind == "double_wishbone":
            found.append((self._vector("upper_hinge.f"), side * p.upper_hinge))
        foot = p.spring_arm if self._kind == "swing_arm" else p.spring_wishbone
        strut = side * (self._on_arm(foot) - p.spring_chassis)
        force = self._rig.car.corner_output("suspension.force")[self._n]
        return [*found, (force * strut / np.linalg.norm(strut), side * p.spring_chassis)]

    def balance(self) -> np.ndarray:
        """(6,) sum of all forces and moments on the corner at rest."""
        R, car, axle = self._carriers.R_world_chassis, self._rig.car, self._rig.vehicle.axle(WHEELS[self._n])
        up, spin = R.T[:, 2], self._side * (self._now.R @ calc_spin_axis(axle.hard_points))
        center = self._side * self._now.center
        down = spin * (spin @ up) - up
        contact = center + down / np.linalg.norm(down) * axle.tyre.radius
        acting = [*self.acting(), (car.corner_output("tyre.fz")[self._n] * up, contact)]
        acting.append((-G * axle.wheel.mass * up, center))
        for name, body in axle.bodies().items():
            there = self._now.of(body.center_of_mass)
            if name != "knuckle":
                there = self._on_arm(body.center_of_mass, name.partition("_")[0])
            acting.append((-G * body.mass * up, self._side * there))
        moments = self._vector("lower_hinge.m") + self._vector("upper_hinge.m")
        return np.append(sum(f for f, _ in acting), moments + sum(np.cross(at, f) for f, at in acting))
