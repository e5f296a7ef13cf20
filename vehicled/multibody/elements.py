"""Elements of a mechanism's file: ground, bodies, coordinates, joints and forces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np

from vehicled.maths.inertia import find_impossible
from vehicled.units import (
    Kilograms,
    Metres,
    MetresPerSecond,
    NewtonMetres,
    NewtonMetreSecondsPerRadian,
    NewtonMetresPerRadian,
    Newtons,
    NewtonSecondsPerMetre,
    NewtonsPerMetre,
    NonNegative,
    Positive,
    Radians,
    RadiansPerSecond,
    Range,
    Unit,
)

Place = Annotated[tuple[float, ...], Unit("m"), Range(-1e9, 1e9)]
"""Limits within which products of lengths are finite, and which are larger than any machine."""
Length = Annotated[Metres, Range(0.0, 1e9, above=True)]
Mass = Annotated[Kilograms, Range(0.0, 1e15)]
Moment = Annotated[tuple[float, ...], Unit("kg·m²"), Range(-1e33, 1e33)]
"""Moments of inertia."""
Direction = Annotated[tuple[float, ...], Unit("1")]
"""A direction, of any length."""
Expression = str | float
AXES = ("x", "y", "z")
"""Names of the ground's directions."""

Segment = str | tuple[str, str]
"""A direction: the name of a vector, or from one point to another, `[A, P]`."""


@dataclass(frozen=True, kw_only=True)
class GroundBody:
    """The ground, which does not move."""

    points: dict[str, Place] = field(default_factory=dict)
    vectors: dict[str, Direction] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A slender uniform bar between two points."""

    kind: Literal["bar"]
    points: tuple[str, str]
    length: Length | None = None
    """Default: the distance of the points as given."""
    mass: Mass


@dataclass(frozen=True, kw_only=True)
class PointMass:
    """A mass without extent."""

    kind: Literal["point_mass"]
    point: str
    mass: Mass


@dataclass(frozen=True, kw_only=True)
class Rigid:
    """A rigid body by the points and unit vectors that belong to it.

    Their places are given in the body's own axes, or as a list of names: then the body's axes are the ground's in
    the position as given. Where points and vectors do not span the space, unit vectors are added.
    """

    kind: Literal["rigid"]
    points: list[str] | dict[str, Place]
    vectors: list[str] | dict[str, Direction] = field(default_factory=list)
    markers: dict[str, Place] = field(default_factory=dict)
    """Further points of the body, without coordinates."""
    directions: dict[str, Direction] = field(default_factory=dict)
    """Further unit vectors of the body, without coordinates."""
    mass: Mass
    center_of_mass: Place
    inertia: Moment
    """About the centre of mass: Izz of a planar body; Ixx, Iyy, Izz of a spatial one."""
    products: Annotated[tuple[float, float, float], Unit("kg·m²")] = (0.0, 0.0, 0.0)
    """Ixy, Iyz, Izx as they stand in the inertia matrix (spatial)."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, fault) for an inertia matrix that no body can have."""
        if len(self.inertia) == 3:
            (xx, yy, zz), (xy, yz, zx) = self.inertia, self.products
            moments = np.linalg.eigvalsh([[xx, xy, zx], [xy, yy, yz], [zx, yz, zz]]).tolist()
        else:
            moments = self.inertia
        if moments and (wrong := find_impossible(moments)) is not None:
            yield "inertia", wrong


@dataclass(frozen=True, kw_only=True)
class Angle:
    """A relative angle as a coordinate, from one direction to another."""

    between: tuple[Segment, Segment]
    about: Segment | None = None
    """Direction at right angles to both, or to one of them: then the other is projected (spatial)."""
    start: Radians | None = None
    """Default: computed from the places of the points."""
    rate: RadiansPerSecond = 0.0


@dataclass(frozen=True, kw_only=True)
class Distance:
    """A distance as a coordinate; with `along` the displacement in that direction, which has a sign."""

    points: tuple[str, str]
    along: Segment | None = None
    start: Metres | None = None
    rate: MetresPerSecond = 0.0


@dataclass(frozen=True, kw_only=True)
class Spherical:
    """Two points coincide; in the plane, a revolute joint."""

    kind: Literal["spherical"]
    points: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Revolute:
    """Two points coincide and, in space, two axes are parallel."""

    kind: Literal["revolute"]
    points: tuple[str, str]
    axes: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Universal:
    """Two points coincide and two axes are at right angles (spatial)."""

    kind: Literal["universal"]
    points: tuple[str, str]
    axes: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Cylindrical:
    """The second point lies on the first one's axis, and the axes are parallel (spatial)."""

    kind: Literal["cylindrical"]
    points: tuple[str, str]
    axes: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Prismatic:
    """The second point lies on the first one's axis, and the bodies do not turn against each other."""

    kind: Literal["prismatic"]
    points: tuple[str, str]
    axes: tuple[str, str]
    normals: tuple[str, str] | None = None
    """Directions at right angles to the axes that stay parallel (spatial)."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Two bodies are one: points coincide, axes and normals are parallel."""

    kind: Literal["rigid"]
    points: tuple[str, str]
    axes: tuple[str, str]
    normals: tuple[str, str] | None = None
    """As for `prismatic` (spatial)."""


@dataclass(frozen=True, kw_only=True)
class PointOnLine:
    """The second point lies on the line through the first one along an axis: a pin in a slot."""

    kind: Literal["point_on_line"]
    points: tuple[str, str]
    axis: str


@dataclass(frozen=True, kw_only=True)
class ConstantDistance:
    """Two points stay at a distance: a massless rod."""

    kind: Literal["distance"]
    points: tuple[str, str]
    length: Length | None = None
    """Default: the distance of the points as given."""


@dataclass(frozen=True, kw_only=True)
class Equation:
    """An expression that stays zero, such as a gear pair's `theta1 + 2*theta2`."""

    kind: Literal["equation"]
    expression: str


Body = Bar | PointMass | Rigid
Joint = (
    Spherical
    | Revolute
    | Universal
    | Cylindrical
    | Prismatic
    | Fixed
    | PointOnLine
    | ConstantDistance
    | Equation
)


@dataclass(frozen=True, kw_only=True)
class Spring:
    """Spring, damper and dry friction between two points."""

    kind: Literal["spring"]
    points: tuple[str, str]
    stiffness: Annotated[NewtonsPerMetre, NonNegative] = 0.0
    damping: Annotated[NewtonSecondsPerMetre, NonNegative] = 0.0
    free_length: Annotated[Metres, NonNegative] = 0.0
    friction: Annotated[Newtons, NonNegative] = 0.0
    """Dry friction against changes of the distance."""
    friction_rate: Annotated[MetresPerSecond, Positive] = 0.01
    """The friction force is `friction`·tanh(rate/`friction_rate`): at lower rates it creeps. Steps converge
    if `friction_rate` exceeds the change of the rate by friction in half a step."""


@dataclass(frozen=True, kw_only=True)
class TorsionSpring:
    """Spring, damper and dry friction about an angle that is a coordinate."""

    kind: Literal["torsion_spring"]
    angle: str
    stiffness: Annotated[NewtonMetresPerRadian, NonNegative] = 0.0
    damping: Annotated[NewtonMetreSecondsPerRadian, NonNegative] = 0.0
    free_angle: Radians = 0.0
    friction: Annotated[NewtonMetres, NonNegative] = 0.0
    """Dry friction, as for `Spring`."""
    friction_rate: Annotated[RadiansPerSecond, Positive] = 0.01


@dataclass(frozen=True, kw_only=True)
class DifferenceSpring:
    """A spring against the difference of two distances that are coordinates, such as an anti-roll bar."""

    kind: Literal["difference_spring"]
    distances: tuple[str, str]
    stiffness: Annotated[NewtonsPerMetre, NonNegative]


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """A force that drives two points apart; in its expression, `length` is their distance."""

    kind: Literal["actuator"]
    points: tuple[str, str]
    force: Expression
    """N."""


@dataclass(frozen=True, kw_only=True)
class CoordinateForce:
    """A force or torque on a coordinate."""

    kind: Literal["on_coordinate"]
    coordinate: str
    force: Expression
    """N, or N·m on an angle."""


@dataclass(frozen=True, kw_only=True)
class Torque:
    """A torque on a body, in the ground's axes."""

    kind: Literal["torque"]
    body: str
    torque: list[Expression]
    """N·m; one component in the plane, three in space."""


@dataclass(frozen=True, kw_only=True)
class Force:
    """A force at a point, in the ground's axes."""

    kind: Literal["force"]
    point: str
    force: list[Expression]
    """N."""


Load = Spring | TorsionSpring | DifferenceSpring | Actuator | CoordinateForce | Torque | Force
