"""Points of the left corner of an axle, by kind of suspension, in the design frame.

`places` and `directions` give them by the names of the compiled model's parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

import numpy as np

from vehicled.units import MetresVector, Range, Unit
from vehicled.vehicle.ranges import Place, WheelAngle

Suspension = Literal["double_wishbone", "macpherson", "swing_arm", "live_axle"]
Suspensions = tuple[Suspension, Suspension]
"""Kinds of front and rear axle."""

Point = tuple[float, float, float]

_SMALL = 0.02
"""Least lever arm (m) and least sine of an angle at which a joint or a rod holds a wheel."""
_HALF_TRACK = Range(0.3, 1.5)
_NEAR, _FAR = 0.9, 3.0
"""Largest distance of a wheel's centre from points of its carrier, and from other points of its suspension,
m."""
_ABOVE = 0.2
"""Height over the wheel centre of the second point that defines the arm's attitude, m."""


@dataclass(frozen=True, kw_only=True)
class WheelPlace:
    """Place of the wheel, for any suspension."""

    ON_CARRIER: ClassVar[tuple[str, ...]] = ()
    """Points that move with the wheel."""
    MIDDLE: ClassVar[tuple[str, ...]] = ()
    """Points that are not mirrored, as there is only one of each."""

    wheel_center: Place
    toe: WheelAngle = 0.0
    """Toe-in of the wheel in design position."""
    camber: WheelAngle = 0.0
    """Negative when the top of the wheel leans inwards."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for a wheel on the other side, and for points that cannot belong to it."""
        y = self.wheel_center[1]
        if y not in _HALF_TRACK:
            expected = f"expected the left wheel, y {_HALF_TRACK.describe(Unit('m'))}"
            yield "wheel_center", f"{expected}, got {y:.4g} m"
        points, far = self.points(), []
        for name, place in points.items():
            most = _NEAR if name in self.ON_CARRIER else _FAR
            distance = _length(np.subtract(place, self.wheel_center))
            if distance > most:
                far.append((name, f"{distance:.4g} m from wheel_center: expected at most {most:g} m"))
        if len(far) > len(points) / 2:
            yield "wheel_center", f"far from the other points: {far[0][0]} is {far[0][1]}"
        yield from far
        for name, place in points.items():
            # Any point of a hinge's axis may be given, even one below the ground.
            if place[2] < 0.0 and not name.endswith("hinge"):
                yield name, f"expected a point over the ground, got z {place[2]:.4g} m"

    def points(self) -> dict[str, Point]:
        """All points except the wheel's centre, by key."""
        keys = [f.name for f in fields(self) if not f.name.endswith("_axis") and f.name != "wheel_center"]
        return {key: point for key in keys if isinstance(point := getattr(self, key), tuple)}


@dataclass(frozen=True, kw_only=True)
class SteeredPoints(WheelPlace):
    """Common points of double wishbones and MacPherson struts: of a lower wishbone and a tie rod."""

    lower_hinge: Place
    """Lower wishbone on the chassis: any point of its hinge axis."""
    lower_axis: MetresVector = (1.0, 0.0, 0.0)
    """Direction of that hinge axis, of any length."""
    lower_ball_joint: Place
    tie_rod_inner: Place
    """On the rack (front) or on the chassis (rear)."""
    tie_rod_outer: Place
    """On the knuckle."""

    def _check_guides(self, upper: Point) -> Iterable[tuple[str, str]]:
        """Check the guides of the wheel; `upper`: the second point of the steering axis."""
        yield from _check_hinge(
            self.lower_hinge, self.lower_axis, self.lower_ball_joint, "lower_axis", "lower_ball_joint"
        )
        ball = np.array(self.lower_ball_joint)
        kingpin = upper - ball
        rod = np.array(self.tie_rod_outer) - self.tie_rod_inner
        moment = np.cross(np.array(self.tie_rod_outer) - ball, rod) @ kingpin
        if abs(moment) < _SMALL * _length(rod) * _length(kingpin):
            yield "tie_rod_outer", "the tie rod does not hold the knuckle: its line meets the steering axis"

    def places(self, side: float) -> dict[str, Point]:
        """Points by name of the model's parameter, mirrored to the left; `side` of the corner: 1 left, -1 right."""
        return {
            "lower.hinge": self.lower_hinge,
            "lower.joint": self.lower_ball_joint,
            "tie.inner": self.tie_rod_inner,
            "tie.outer": self.tie_rod_outer,
        }

    def directions(self) -> dict[str, Point]:
        """Directions by name of the model's parameter, of any length."""
        return {"lower.axis": self.lower_axis}


@dataclass(frozen=True, kw_only=True)
class HardPoints(SteeredPoints):
    """Double wishbones."""

    ON_CARRIER: ClassVar = ("lower_ball_joint", "upper_ball_joint", "tie_rod_outer")

    upper_hinge: Place
    upper_axis: MetresVector = (1.0, 0.0, 0.0)
    upper_ball_joint: Place
    spring_chassis: Place
    spring_wishbone: Place
    """Foot of spring and damper, on the lower wishbone."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for points that do not hold the wheel, or a spring without length."""
        yield from super().check()
        yield from _check_length(
            self.spring_chassis, self.spring_wishbone, "spring_chassis", "spring_wishbone"
        )
        yield from _check_length(
            self.lower_ball_joint, self.upper_ball_joint, "lower_ball_joint", "upper_ball_joint"
        )
        yield from _check_hinge(
            self.upper_hinge, self.upper_axis, self.upper_ball_joint, "upper_axis", "upper_ball_joint"
        )
        yield from self._check_guides(self.upper_ball_joint)

    def places(self, side: float) -> dict[str, Point]:
        """Points by name of the model's parameter."""
        return super().places(side) | {
            "upper.hinge": self.upper_hinge,
            "upper.joint": self.upper_ball_joint,
            "spring.chassis": self.spring_chassis,
            "spring.wishbone": self.spring_wishbone,
        }

    def directions(self) -> dict[str, Point]:
        """Directions by name of the model's parameter, of any length."""
        return super().directions() | {"upper.axis": self.upper_axis}


@dataclass(frozen=True, kw_only=True)
class MacphersonPoints(SteeredPoints):
    """MacPherson strut: the lower part of the strut is one body with the knuckle."""

    ON_CARRIER: ClassVar = ("lower_ball_joint", "strut_foot", "tie_rod_outer")

    strut_top: Place
    """Bearing of the strut in the chassis; the strut's axis always passes through it."""
    strut_foot: Place
    """Lower end of spring and damper: a point of the strut's axis on the knuckle."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for points that make no strut, or one that does not hold its wheel."""
        yield from super().check()
        ball, top = np.array(self.lower_ball_joint), np.array(self.strut_top)
        strut, kingpin = top - self.strut_foot, top - ball
        if strut[2] <= _SMALL:
            yield "strut_top", "the strut cannot be assembled: its top must lie above strut_foot"
        if strut[2] < 0.5 * _length(strut):
            yield "strut_top", "the strut lies: expected its axis within 60° of the vertical"
        if strut @ kingpin < 0.5 * _length(strut) * _length(kingpin):
            yield "strut_top", "the strut cannot slide: its axis lies across the line to lower_ball_joint"
        yield from self._check_guides(self.strut_top)

    def places(self, side: float) -> dict[str, Point]:
        """Points by name of the model's parameter."""
        return super().places(side) | {
            "upper.joint": self.strut_top,
            "spring.chassis": self.strut_top,
            "strut.foot": self.strut_foot,
        }


@dataclass(frozen=True, kw_only=True)
class SwingArmPoints(WheelPlace):
    """One arm on a hinge of the chassis; it carries the wheel."""

    hinge: Place
    """Any point of the hinge axis."""
    hinge_axis: MetresVector
    """Its direction, of any length: across the car for a trailing arm, oblique for a semi-trailing arm, along the car
    for a swing axle."""
    spring_chassis: Place
    spring_arm: Place
    """Foot of spring and damper, on the arm."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for an arm on which the wheel has no travel, or a spring without length."""
        yield from super().check()
        yield from _check_hinge(self.hinge, self.hinge_axis, self.wheel_center, "hinge_axis", "wheel_center")
        yield from _check_length(self.spring_chassis, self.spring_arm, "spring_chassis", "spring_arm")

    def places(self, side: float) -> dict[str, Point]:
        """Points by name of the model's parameter: the arm is the lower wishbone, the wheel centre its end."""
        x, y, z = self.wheel_center
        return {
            "lower.hinge": self.hinge,
            "lower.joint": self.wheel_center,
            "upper.joint": (x, y, z + _ABOVE),
            "spring.chassis": self.spring_chassis,
            "spring.wishbone": self.spring_arm,
        }

    def directions(self) -> dict[str, Point]:
        """Directions by name of the model's parameter, of any length."""
        return {"lower.axis": self.hinge_axis}


@dataclass(frozen=True, kw_only=True)
class LiveAxlePoints(WheelPlace):
    """A rigid axle on two trailing links, an upper link and a Panhard rod, all with ball joints at both ends.

    There is one upper link and one Panhard rod; their points are not mirrored.
    """

    MIDDLE: ClassVar = ("upper_link_chassis", "upper_link_axle", "panhard_chassis", "panhard_axle")

    link_chassis: Place
    link_axle: Place
    """Left trailing link, as for other mirrored points."""
    upper_link_chassis: Place
    upper_link_axle: Place
    """The upper link keeps the axle from turning about itself."""
    panhard_chassis: Place
    panhard_axle: Place
    spring_chassis: Place
    spring_axle: Place
    """Foot of spring and damper, on the axle."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for rods without length, or that allow more than heave and roll."""
        yield from super().check()
        yield from _check_length(self.spring_chassis, self.spring_axle, "spring_chassis", "spring_axle")
        short = [
            wrong
            for rod, (start, end) in self._rods().items()
            for wrong in _check_length(start, end, f"{rod}_chassis", f"{rod}_axle")
        ]
        if short:
            yield from short
            return
        u, strength, _ = np.linalg.svd(self.calc_constraints())
        if strength[-1] < _SMALL:
            link, _, upper, panhard = np.abs(u[:4, -1])  # their parts in the redundant constraint
            parts = {"link": link, "upper_link": upper, "panhard": panhard}
            rod = max(parts, key=parts.__getitem__)
            yield f"{rod}_axle", "the rods do not hold the axle: it can move with both wheels where they are"

    def _rods(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Both ends of each rod, on the chassis first; by the prefix of its points' names."""
        return {
            rod: (np.array(getattr(self, f"{rod}_chassis")), np.array(getattr(self, f"{rod}_axle")))
            for rod in ("link", "upper_link", "panhard")
        }

    def calc_constraints(self) -> np.ndarray:
        """(6, 6) rates of rod lengths and of the heights of left and right wheel centre, per motion of the axle.

        Columns: velocity of the point midway between the wheels (m) and angular velocity (rad). Rods: left
        and right trailing link, upper link, Panhard rod.
        """
        x, y, z = self.wheel_center
        mirror, middle, up = np.array([1.0, -1.0, 1.0]), np.array([x, 0.0, z]), np.array([0.0, 0.0, 1.0])
        link, upper, panhard = self._rods().values()
        rods = (link, (mirror * link[0], mirror * link[1]), upper, panhard)
        pulls = [(end, (end - start) / _length(end - start)) for start, end in rods]
        pulls += [(np.array([x, side * y, z]), up) for side in (1.0, -1.0)]
        return np.array([np.append(along, np.cross(at - middle, along)) for at, along in pulls])

    def places(self, side: float) -> dict[str, Point]:
        """Points by name of the model's parameter.

        The trailing link takes the place of the lower wishbone, and each corner has one of the other two rods
        of the axle: the left one the Panhard rod, the right one the upper link.
        """
        inner, outer = (
            (self.panhard_chassis, self.panhard_axle)
            if side > 0.0
            else (self.upper_link_chassis, self.upper_link_axle)
        )
        x, y, z = self.link_axle
        return {
            "lower.hinge": self.link_chassis,
            "lower.joint": self.link_axle,
            "upper.joint": (x, y, z + _ABOVE),
            "tie.inner": (inner[0], side * inner[1], inner[2]),
            "tie.outer": (outer[0], side * outer[1], outer[2]),
            "spring.chassis": self.spring_chassis,
            "spring.axle": self.spring_axle,
        }

    def directions(self) -> dict[str, Point]:
        """Directions by name of the model's parameter, of any length."""
        return {"lower.axis": (0.0, 1.0, 0.0)}


AnyPoints = HardPoints | MacphersonPoints | SwingArmPoints | LiveAxlePoints


def calc_spin_axis(points: WheelPlace) -> np.ndarray:
    """(3,) spin axis of the left wheel, pointing left, from toe-in and camber in design position."""
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


def _check_length(
    start: Point | np.ndarray, end: Point | np.ndarray, start_key: str, end_key: str
) -> Iterable[tuple[str, str]]:
    if _length(np.subtract(end, start)) < _SMALL:
        yield end_key, f"expected at least {1e3 * _SMALL:g} mm from {start_key}"


def _length(v: np.ndarray) -> float:
    return float(np.linalg.norm(v))
