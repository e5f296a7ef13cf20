"""Kinematics of the wheel of a double-wishbone corner over travel and steering, from hard points alone.

Velocity analysis of one corner: the knuckle's ball joints turn about the wishbones' hinge axes and the tie rod
keeps its length, so that the knuckle has one motion with travel and one with the rack. The chassis is fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vehicled.messages import WHEELS
from vehicled.vehicle.parameters import HardPoints, Vehicle


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
        cos = np.cos(points.camber)
        axis = [np.sin(points.toe) * cos, np.cos(points.toe) * cos, -np.sin(points.camber)]
        return cls(**places, spin_axis=np.array(axis))

    def moved(self, rates: Rates, by: float) -> Corner:
        """After a small displacement, to first order."""
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
    """Velocities of the points of `Corner` that move, (3,) each, per unit of what moves them."""

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
    """Velocities for a rate of the wheel centre's height and one of the tie rod's inner end, to the left."""
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
    """The matrix that gives ω × v for ω; np.cross takes ten times as long for a single vector."""
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


def calc_heave_stiffness(vehicle: Vehicle) -> np.ndarray:
    """(8,) vertical force on the body by travel (N/m) and by rate of travel (N·s/m) of each wheel, about design."""
    stiffness, damping = [], []
    for wheel in WHEELS:
        axle = vehicle.axle(wheel)
        ratio = calc_rates(Corner.of(axle.hard_points)).strut
        stiffness.append(ratio**2 * axle.spring.stiffness)
        damping.append(ratio**2 * 0.5 * (axle.damper.bump + axle.damper.rebound))
    return np.array([*stiffness, *damping])
