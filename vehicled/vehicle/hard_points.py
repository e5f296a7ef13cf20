"""Points of the left corner of an axle, by kind of suspension, in the design frame.

`places` and `directions` are what the compiled model takes of them, by the names of its parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vehicled.units import MetresVector, Radians

Suspension = Literal["double_wishbone", "macpherson", "swing_arm"]
Suspensions = tuple[Suspension, Suspension]
"""Of front and rear axle."""

Point = tuple[float, float, float]

_SMALL = 0.02
"""Least lever arm (m) and least sine of an angle at which a joint or a rod holds a wheel."""
_ABOVE = 0.2
"""m, height over the wheel centre of the second point that marks the arm's attitude."""


@dataclass(frozen=True, kw_only=True)
class WheelPlace:
    """Where the wheel is, whatever holds it."""

    wheel_center: MetresVector
    toe: Radians = 0.0
    """Toe-in of the wheel in design position."""
    camber: Radians = 0.0
    """Negative when the top of the wheel leans inwards."""


@dataclass(frozen=True, kw_only=True)
class SteeredPoints(WheelPlace):
    """What double wishbones and MacPherson struts have alike: a lower wishbone, and a tie rod."""

    lower_hinge: MetresVector
    """Lower wishbone on the chassis: any point of its hinge axis."""
    lower_axis: MetresVector = (1.0, 0.0, 0.0)
    """Direction of that hinge axis, of any length."""
    lower_ball_joint: MetresVector
    tie_rod_inner: MetresVector
    """On the rack (front) or on the chassis (rear)."""
    tie_rod_outer: MetresVector
    """On the knuckle."""

    def places(self) -> dict[str, Point]:
        """By name of the model's parameter."""
        return {
            "lower.hinge": self.lower_hinge,
            "lower.joint": self.lower_ball_joint,
            "tie.inner": self.tie_rod_inner,
            "tie.outer": self.tie_rod_outer,
        }

    def directions(self) -> dict[str, Point]:
        """By name of the model's parameter; of any length."""
        return {"lower.axis": self.lower_axis}


@dataclass(frozen=True, kw_only=True)
class HardPoints(SteeredPoints):
    """Double wishbones."""

    upper_hinge: MetresVector
    upper_axis: MetresVector = (1.0, 0.0, 0.0)
    upper_ball_joint: MetresVector
    spring_chassis: MetresVector
    spring_wishbone: MetresVector
    """Foot of spring and damper, on the lower wishbone."""

    def places(self) -> dict[str, Point]:
        """By name of the model's parameter."""
        return super().places() | {
            "upper.hinge": self.upper_hinge,
            "upper.joint": self.upper_ball_joint,
            "spring.chassis": self.spring_chassis,
            "spring.wishbone": self.spring_wishbone,
        }

    def directions(self) -> dict[str, Point]:
        """By name of the model's parameter; of any length."""
        return super().directions() | {"upper.axis": self.upper_axis}


@dataclass(frozen=True, kw_only=True)
class MacphersonPoints(SteeredPoints):
    """MacPherson strut: the lower part of the strut is one body with the knuckle."""

    strut_top: MetresVector
    """Bearing of the strut in the chassis; the strut's axis always passes through it."""
    strut_foot: MetresVector
    """Lower end of spring and damper: a point of the strut's axis on the knuckle."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for points that make no strut, or one that does not hold its wheel."""
        ball, top = np.array(self.lower_ball_joint), np.array(self.strut_top)
        strut, kingpin = top - self.strut_foot, top - ball
        if strut[2] <= _SMALL:
            yield "strut_top", "the strut cannot be assembled: its top must lie above strut_foot"
        if strut[2] < 0.5 * _length(strut):
            yield "strut_top", "the strut lies: expected its axis within 60° of the vertical"
        if strut @ kingpin < 0.5 * _length(strut) * _length(kingpin):
            yield "strut_top", "the strut cannot slide: its axis lies across the line to lower_ball_joint"
        yield from _check_hinge(
            self.lower_hinge, self.lower_axis, self.lower_ball_joint, "lower_axis", "lower_ball_joint"
        )
        rod = np.array(self.tie_rod_outer) - self.tie_rod_inner
        moment = np.cross(np.array(self.tie_rod_outer) - ball, rod) @ kingpin
        if abs(moment) < _SMALL * _length(rod) * _length(kingpin):
            yield "tie_rod_outer", "the tie rod does not hold the knuckle: its line meets the steering axis"

    def places(self) -> dict[str, Point]:
        """By name of the model's parameter."""
        return super().places() | {
            "upper.joint": self.strut_top,
            "spring.chassis": self.strut_top,
            "strut.foot": self.strut_foot,
        }


@dataclass(frozen=True, kw_only=True)
class SwingArmPoints(WheelPlace):
    """One arm on a hinge of the chassis, which carries the wheel."""

    hinge: MetresVector
    """Any point of the hinge axis."""
    hinge_axis: MetresVector
    """Its direction, of any length: across the car for a trailing arm, oblique for a semi-trailing arm, along the car
    for a swing axle."""
    spring_chassis: MetresVector
    spring_arm: MetresVector
    """Foot of spring and damper, on the arm."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for an arm on which the wheel has no travel."""
        yield from _check_hinge(self.hinge, self.hinge_axis, self.wheel_center, "hinge_axis", "wheel_center")

    def places(self) -> dict[str, Point]:
        """By name of the model's parameter: the arm is the model's lower wishbone, its end the wheel centre."""
        x, y, z = self.wheel_center
        return {
            "lower.hinge": self.hinge,
            "lower.joint": self.wheel_center,
            "upper.joint": (x, y, z + _ABOVE),
            "spring.chassis": self.spring_chassis,
            "spring.wishbone": self.spring_arm,
        }

    def directions(self) -> dict[str, Point]:
        """By name of the model's parameter; of any length."""
        return {"lower.axis": self.hinge_axis}


AnyPoints = HardPoints | MacphersonPoints | SwingArmPoints


def calc_spin_axis(points: WheelPlace) -> np.ndarray:
    """(3,) of the left wheel, to the left, from toe-in and camber in design position."""
    cos = np.cos(points.camber)
    return np.array([np.sin(points.toe) * cos, np.cos(points.toe) * cos, -np.sin(points.camber)])


def _check_hinge(
    hinge: Point, axis: Point, end: Point, axis_key: str, end_key: str
) -> Iterable[tuple[str, str]]:
    length = _length(np.array(axis))
    if length == 0.0:
        yield axis_key, "expected a direction, got zero"
        return
    speed = np.cross(np.array(axis) / length, np.array(end) - hinge)
    if _length(speed) < _SMALL:
        yield end_key, f"lies on the hinge axis: expected at least {1e3 * _SMALL:g} mm from it"
    elif abs(speed[2]) < _SMALL * _length(speed):
        yield axis_key, f"the wheel has no travel: {end_key} cannot move up or down about this axis"


def _length(v: np.ndarray) -> float:
    return float(np.linalg.norm(v))
