"""Kinematics of the wheel over travel and steering, from hard points alone; the chassis is fixed.

Velocity analysis of one double-wishbone corner: the knuckle's ball joints turn about the wishbones' hinge
axes and the tie rod keeps its length, so that the knuckle has one motion with travel and one with the rack.
For the other kinds of suspension, only the motion ratio of the strut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vehicled.messages import WHEELS
from vehicled.vehicle.hard_points import (
    AnyPoints,
    HardPoints,
    LiveAxlePoints,
    MacphersonPoints,
    SwingArmPoints,
    calc_spin_axis,
)
from vehicled.vehicle.parameters import Vehicle


@dataclass(frozen=True)
class Corner:
    """Places of a left corner's points, each (3,) m, and the wheel's spin axis, in chassis axes."""

    lower_hinge: np.ndarray
    lower_axis: np.ndarray
    lower_ball_joint: np.ndarray
    upper_hinge: np.ndarray
    upper_axis: np.ndarray
    upper_ball_joint: np.ndarray
    tie_rod_inner: np.ndarray
    tie_rod_outer: np.ndarray
    spring_chassis: np.ndarray
    spring_wishbone: np.ndarray
    wheel_center: np.ndarray
    spin_axis: np.ndarray

    @classmethod
    def of(cls, points: HardPoints) -> Corner:
        """A corner from hard points, with camber and toe of the design position turned into the spin axis."""
        places = {
            name: np.array(getattr(points, name)) for name in cls.__annotations__ if name != "spin_axis"
        }
        return cls(**places, spin_axis=calc_spin_axis(points))

    def moved(self, rates: Rates, by: float) -> Corner:
        """The corner after a small displacement, to first order."""
        return Corner(**{name: getattr(self, name) + by * getattr(rates, name, 0.0) for name in vars(self)})

    @property
    def toe(self) -> float:
        """Toe-in, rad."""
        return float(np.arctan2(self.spin_axis[0], self.spin_axis[1]))

    @property
    def camber(self) -> float:
        """Negative when the top of the wheel leans inwards, rad."""
        return float(-np.arcsin(self.spin_axis[2] / np.linalg.norm(self.spin_axis)))


@dataclass(frozen=True)
class Rates:
    """Velocities of the moving points of `Corner`, (3,) each, per unit of travel or of the rack."""

    lower_ball_joint: np.ndarray
    upper_ball_joint: np.ndarray
    tie_rod_inner: np.ndarray
    tie_rod_outer: np.ndarray
    spring_wishbone: np.ndarray
    wheel_center: np.ndarray
    spin_axis: np.ndarray
    strut: float
    """Shortening of the strut."""


def calc_rates(corner: Corner, travel: float = 1.0, rack: float = 0.0) -> Rates:
    """Velocities for a rate of the wheel centre's height, and one of the tie rod's inner end to the left."""
    rod = corner.tie_rod_outer - corner.tie_rod_inner
    outer = _cross_matrix(corner.tie_rod_outer - corner.wheel_center)
    lower = _swing(corner.lower_hinge, corner.lower_axis, corner.lower_ball_joint)
    upper = _swing(corner.upper_hinge, corner.upper_axis, corner.upper_ball_joint)
    # Unknowns: velocity of the wheel centre, angular velocity of the knuckle, rates of the two wishbones. Equations:
    # each ball joint moves with its wishbone, the tie rod keeps its length, the wheel centre goes up as given.
    a, b = np.zeros((8, 8)), np.zeros(8)
    a[0:3, 0:3] = a[3:6, 0:3] = _UNIT
    a[0:3, 3:6], a[0:3, 6] = _cross_matrix(corner.lower_ball_joint - corner.wheel_center), -lower
    a[3:6, 3:6], a[3:6, 7] = _cross_matrix(corner.upper_ball_joint - corner.wheel_center), -upper
    a[6, 0:3], a[6, 3:6], b[6] = rod, rod @ outer, rod[1] * rack
    a[7, 2], b[7] = 1.0, travel
    x = np.linalg.solve(a, b)
    foot = x[6] * _swing(corner.lower_hinge, corner.lower_axis, corner.spring_wishbone)
    strut = corner.spring_chassis - corner.spring_wishbone
    return Rates(
        lower_ball_joint=x[6] * lower,
        upper_ball_joint=x[7] * upper,
        tie_rod_inner=np.array([0.0, rack, 0.0]),
        tie_rod_outer=x[:3] + outer @ x[3:6],
        spring_wishbone=foot,
        wheel_center=x[:3],
        spin_axis=_cross_matrix(corner.spin_axis) @ x[3:6],
        strut=float(strut @ foot / math.sqrt(strut @ strut)),
    )


_UNIT = np.eye(3)


def _cross_matrix(v: np.ndarray) -> np.ndarray:
    """The matrix that turns ω into ω × v; np.cross takes ten times as long for a single vector."""
    x, y, z = v.tolist()
    return np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])


def _swing(hinge: np.ndarray, axis: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Velocity of a point for one rad/s about a hinge."""
    return _cross_matrix(point - hinge) @ (axis / math.sqrt(axis @ axis))


def moved(corner: Corner, travel: float = 0.0, rack: float = 0.0, steps: int = 40) -> Corner:
    """The corner after its wheel centre has gone up by `travel` and the rod's inner end left by `rack` (m).

    Explicit midpoint rule; with 40 steps over 0.1 m the lengths hold to some micrometres.
    """
    for _ in range(steps):
        half = corner.moved(calc_rates(corner, travel, rack), 0.5 / steps)
        corner = corner.moved(calc_rates(half, travel, rack), 1.0 / steps)
    return corner


@dataclass(frozen=True)
class Ratios:
    """Motion ratios in design position, per travel of an axle's wheels."""

    strut: float
    """Shortening of the left strut."""
    bar: float
    """Rise of the left end of the anti-roll bar over the chassis."""


def calc_ratios(points: AnyPoints, right: float = 1.0) -> Ratios:
    """Ratios to the travel of the left wheel; the right one travels by `right` of it (live axles only)."""
    if isinstance(points, HardPoints):
        rates = calc_rates(Corner.of(points))
        return Ratios(rates.strut, float(rates.lower_ball_joint[2]))
    if isinstance(points, MacphersonPoints):
        return _calc_macpherson_ratios(points)
    if isinstance(points, LiveAxlePoints):
        return _calc_live_axle_ratios(points, right)
    return Ratios(_calc_swing_arm_ratio(points), 1.0)


def calc_strut_ratio(points: AnyPoints) -> float:
    """Shortening of the strut per wheel travel in design position; for a live axle, travel of both wheels."""
    return calc_ratios(points).strut


def _calc_macpherson_ratios(points: MacphersonPoints) -> Ratios:
    top, foot, ball, outer, centre = (
        np.array(getattr(points, name))
        for name in ("strut_top", "strut_foot", "lower_ball_joint", "tie_rod_outer", "wheel_center")
    )
    hinge, axis, rod = np.array(points.lower_hinge), np.array(points.lower_axis), outer - points.tie_rod_inner
    strut = (top - foot) / np.linalg.norm(top - foot)
    # Unknowns: rate of the wishbone, which moves the ball joint, and angular velocity of the knuckle. Equations: the
    # knuckle's point at the strut's top slides along the strut, the tie rod keeps its length, the wheel goes up.
    swing = _swing(hinge, axis, ball)
    a, b = np.zeros((5, 4)), np.zeros(5)
    a[:3, 0], a[:3, 1:] = swing, _cross_matrix(top - ball)
    a[:3] -= np.outer(strut, strut @ a[:3])
    a[3, 0], a[3, 1:] = rod @ swing, rod @ _cross_matrix(outer - ball)
    a[4, 0], a[4, 1:] = swing[2], _cross_matrix(centre - ball)[2]
    b[4] = 1.0
    rates = np.linalg.lstsq(a, b)[0]
    moved = swing * rates[0]
    return Ratios(float(strut @ (moved + _cross_matrix(foot - ball) @ rates[1:])), float(moved[2]))


def _calc_swing_arm_ratio(points: SwingArmPoints) -> float:
    hinge, axis, foot = (np.array(p) for p in (points.hinge, points.hinge_axis, points.spring_arm))
    strut = points.spring_chassis - foot
    rate = strut @ _swing(hinge, axis, foot) / _swing(hinge, axis, np.array(points.wheel_center))[2]
    return float(rate / math.sqrt(strut @ strut))


def _calc_live_axle_ratios(points: LiveAxlePoints, right: float) -> Ratios:
    x, _, z = points.wheel_center
    motion = np.linalg.solve(points.calc_constraints(), [0.0, 0.0, 0.0, 0.0, 1.0, right])
    foot, link = np.array(points.spring_axle), np.array(points.link_axle)
    foot_rate, link_rate = (
        motion[:3] + _cross_matrix(p - np.array([x, 0.0, z])) @ motion[3:] for p in (foot, link)
    )
    strut = points.spring_chassis - foot
    return Ratios(float(strut @ foot_rate / math.sqrt(strut @ strut)), float(link_rate[2]))


def calc_heave_stiffness(vehicle: Vehicle) -> np.ndarray:
    """(8,) vertical force on the body by travel (N/m) and by its rate (N·s/m), per wheel, near design position."""
    stiffness, damping = [], []
    for wheel in WHEELS:
        axle = vehicle.axle(wheel)
        ratio = calc_strut_ratio(axle.hard_points)
        stiffness.append(ratio**2 * axle.spring.stiffness)
        damping.append(ratio**2 * 0.5 * (axle.damper.bump + axle.damper.rebound))
    return np.array([*stiffness, *damping])
