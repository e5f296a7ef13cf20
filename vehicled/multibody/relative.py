"""Mechanisms in relative coordinates: a tree of points, a tree of bases, and the operators along them.

The usual tree of bodies is split in two (Plaza et al., recursive operators and atomised symbolic expressions,
section 3.4): *bases* give orientations, each by one angle about one axis of its parent; *points* give
positions, each by an offset from its parent in the axes of a base. Each coordinate is one such angle or
a term of one component of one such offset. An operator computes its result from the result for the parent, always
by the same operations, so that equal quantities are equal atoms.

A body is a point and a base: bodies that turn together share a base, and its rotation is computed once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from vehicled.multibody.system import Coordinate
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.vector import Vector

AXES = "xyz"


@dataclass(frozen=True, eq=False)
class Base:
    """Three axes: those of `parent`, rotated by `angle` (rad) about axis number `axis` (0, 1, 2)."""

    name: str
    parent: Base | None
    axis: int
    angle: Atom
    coordinate: Coordinate | None
    """The coordinate that is the angle, or None."""
    depth: int


@dataclass(frozen=True, eq=False)
class Point:
    """The parent point plus `offset`, m, in the axes of `base`."""

    name: str
    parent: Point | None
    base: Base
    offset: Vector
    slides: tuple[Coordinate | None, ...]
    """For each axis, the coordinate that is a term of that component of the offset, or None."""
    depth: int


@dataclass(frozen=True, eq=False)
class RelativeBody:
    """A rigid body that rotates with `base` and has its origin at `point`; all in the axes of `base`."""

    name: str
    point: Point
    base: Base
    mass: Atom
    centre: Vector
    """Centre of mass from the origin, m."""
    moments: Vector
    """Ixx, Iyy, Izz about the origin, kg·m²."""
    products: Vector
    """Ixy, Iyz, Izx about the origin: elements of the inertia matrix (minus the integrals)."""


@dataclass(frozen=True)
class RelativeSpring:
    """Pulls two points together with stiffness·(distance − length) + damping·rate of the distance, N."""

    points: tuple[Point, Point]
    stiffness: Atom
    damping: Atom
    length: Atom


Node = TypeVar("Node", Base, Point)
Operator = TypeVar("Operator", bound=Callable[..., Vector])


def _operator(name: str) -> Callable[[Operator], Operator]:
    """Decorator: keeps the results of a method, and labels their atoms with its name and its first argument."""

    def keep_results(method: Operator) -> Operator:
        @functools.wraps(method)
        def operator(system: RelativeSystem, node: Base | Point, *others: object, **named: object) -> Vector:
            key = (name, node, *others, *named.items())
            known = system._known.get(key)
            if known is None:
                known = system._known[key] = method(system, node, *others, **named)
                label(known, f"{name}_{node.name}")
            return known

        return cast(Operator, operator)

    return keep_results


@dataclass
class RelativeSystem:
    """The two trees, the bodies on them and the loads."""

    graph: Graph
    coordinates: list[Coordinate] = field(default_factory=list)
    bases: list[Base] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    bodies: list[RelativeBody] = field(default_factory=list)
    forces: list[tuple[Point, Base, Vector]] = field(default_factory=list)
    """Forces at points, components in a base, N."""
    moments: list[tuple[Base, Vector]] = field(default_factory=list)
    """Moments on all that rotates with a base, components in this base, N·m."""
    generalised: list[tuple[Coordinate, Atom]] = field(default_factory=list)
    """Forces along coordinates, N or N·m."""
    springs: list[RelativeSpring] = field(default_factory=list)
    _used: set[Coordinate] = field(default_factory=set)
    _known: dict[tuple[object, ...], Vector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        zero = self.graph.zero
        self.none = Vector(zero, zero, zero)
        self.world = Base("world", None, 0, zero, None, 0)
        self.ground = Point("ground", None, self.world, self.none, (None, None, None), 0)
        self.bases.append(self.world)
        self.points.append(self.ground)

    # -- description ----------------------------------------------------------------------------------

    def coordinate(self, name: str) -> Coordinate:
        """A new coordinate, with its rates: symbols `name`, `name.d` and `name.dd`."""
        q, qd, qdd = (self.graph.symbol(name + suffix) for suffix in ("", ".d", ".dd"))
        coordinate = Coordinate(name, len(self.coordinates), 0, q, qd, qdd)
        self.coordinates.append(coordinate)
        return coordinate

    def base(
        self, name: str, parent: Base, axis: str, angle: Coordinate | Atom, offset: Atom | None = None
    ) -> Base:
        """The base `parent` rotated about its axis "x", "y" or "z", by a coordinate or a fixed angle.

        `offset`: a fixed angle that is added. Raises ValueError if the coordinate is in use already.
        """
        q, coordinate = (angle.q, angle) if isinstance(angle, Coordinate) else (angle, None)
        self._use(coordinate)
        turned = q if offset is None else q + offset
        base = Base(name, parent, AXES.index(axis), turned, coordinate, parent.depth + 1)
        self.bases.append(base)
        return base

    def point(
        self,
        name: str,
        parent: Point,
        base: Base,
        offset: Vector | None = None,
        slides: Mapping[str, Coordinate] | None = None,
    ) -> Point:
        """The point at `offset` from `parent` in `base`; coordinates `slides` (by axis) add to the offset.

        Raises ValueError if `base` is neither the base of `parent` nor rotated from it. If every coordinate
        is relative to the preceding part of the mechanism, this is always so, and only then do the bodies
        beyond a joint move as one rigid body when only that joint moves. Raises ValueError if a coordinate is
        in use already.
        """
        if not descends(base, parent.base):
            raise ValueError(f"point {name!r}: base {base.name!r} is not turned from {parent.base.name!r}")
        by_axis = tuple((slides or {}).get(a) for a in AXES)
        self._use(*by_axis)
        fixed = offset or self.none
        total = Vector.of([x + s.q if s else x for x, s in zip(fixed, by_axis, strict=True)])
        point = Point(name, parent, base, total, by_axis, parent.depth + 1)
        self.points.append(point)
        return point

    def body(
        self,
        name: str,
        point: Point,
        base: Base,
        mass: Atom,
        moments: Vector,
        centre: Vector | None = None,
        products: Vector | None = None,
    ) -> None:
        """Add a body with its origin at `point`, see `RelativeBody`.

        Raises ValueError if `base` is neither the base of the point nor rotated from it.
        """
        if not descends(base, point.base):
            raise ValueError(f"body {name!r}: base {base.name!r} is not turned from {point.base.name!r}")
        self.bodies.append(
            RelativeBody(name, point, base, mass, centre or self.none, moments, products or self.none)
        )

    def _use(self, *coordinates: Coordinate | None) -> None:
        for c in coordinates:
            if c in self._used:
                raise ValueError(f"coordinate {c.name!r} is in use already")
            if c:
                self._used.add(c)

    # -- operators ------------------------------------------------------------------------------------

    def unit(self, axis: int) -> Vector:
        """Unit vector along an axis (0, 1, 2)."""
        return Vector.of([self.graph.one if k == axis else self.graph.zero for k in range(3)])

    def express(self, vector: Vector, given: Base, wanted: Base) -> Vector:
        """Components in `wanted` of a vector whose components in `given` are known."""
        common = _common(given, wanted)
        for base in _way(given, common):
            vector = self.to_parent(vector, base)
        for base in reversed(_way(wanted, common)):
            vector = self.from_parent(vector, base)
        return vector

    def to_parent(self, vector: Vector, base: Base) -> Vector:
        """Components in the parent of `base` of a vector given in `base`."""
        return self._turn(vector, base, self.graph.sin(base.angle))

    def from_parent(self, vector: Vector, base: Base) -> Vector:
        """Components in `base` of a vector given in its parent."""
        return self._turn(vector, base, -self.graph.sin(base.angle))

    def _turn(self, vector: Vector, base: Base, s: Atom) -> Vector:
        c = self.graph.cos(base.angle)
        v = list(vector)
        i, j = (base.axis + 1) % 3, (base.axis + 2) % 3
        v[i], v[j] = c * v[i] - s * v[j], s * v[i] + c * v[j]
        return Vector.of(v)

    def rotation(self, given: Base, wanted: Base) -> list[list[Atom]]:
        """Matrix (3, 3) that takes components in `given` to components in `wanted`."""
        columns = [list(self.express(self.unit(k), given, wanted)) for k in range(3)]
        return [list(row) for row in zip(*columns, strict=True)]

    @_operator("omega")
    def angular_velocity(self, base: Base, observer: Base | None = None) -> Vector:
        """ω of `base` as seen from `observer` (default: the world), in axes of `base`, rad/s."""
        observer = observer or self.world
        common = _common(base, observer)
        if common is not observer:
            theirs = self.express(self.angular_velocity(observer, common), observer, base)
            return self.angular_velocity(base, common) - theirs
        if base is observer or base.parent is None:
            return self.none
        before = self.from_parent(self.angular_velocity(base.parent, observer), base)
        return before + self._turning(base, "qd")

    @_operator("alpha")
    def angular_acceleration(self, base: Base) -> Vector:
        """Angular acceleration of `base`, in axes of `base`, rad/s²."""
        if base.parent is None:
            return self.none
        before = self.from_parent(self.angular_acceleration(base.parent), base)
        carried = self.angular_velocity(base).cross(self._turning(base, "qd"))
        return before + carried + self._turning(base, "qdd")

    @_operator("r")
    def position(self, point: Point, origin: Point | None = None) -> Vector:
        """Vector from `origin` (default: the ground) to `point`, in axes of `point.base`, m."""
        origin = origin or self.ground
        common = _common(point, origin)
        if common is not origin:
            theirs = self.express(self.position(origin, common), origin.base, point.base)
            return self.position(point, common) - theirs
        if point is origin or point.parent is None:
            return self.none
        before = self.express(self.position(point.parent, origin), point.parent.base, point.base)
        return before + point.offset

    @_operator("v")
    def velocity(self, point: Point, origin: Point | None = None, observer: Base | None = None) -> Vector:
        """Rate of `position(point, origin)` as seen from `observer`, in axes of `point.base`, m/s.

        Default: rate of the absolute position as seen from the world.
        """
        origin, observer = origin or self.ground, observer or self.world
        common = _common(point, origin)
        if common is not origin:
            theirs = self.express(self.velocity(origin, common, observer), origin.base, point.base)
            return self.velocity(point, common, observer) - theirs
        if point is origin or point.parent is None:
            return self.none
        base = point.base
        before = self.express(self.velocity(point.parent, origin, observer), point.parent.base, base)
        carried = self.angular_velocity(base, observer).cross(point.offset)
        return before + carried + self._sliding(point, "qd")

    @_operator("a")
    def acceleration(self, point: Point, ground: Vector | None = None) -> Vector:
        """Absolute acceleration, in axes of `point.base`, m/s²; `ground`: that of the ground, in world axes."""
        if point.parent is None:
            return ground or self.none
        base = point.base
        before = self.express(self.acceleration(point.parent, ground), point.parent.base, base)
        carried = self.angular_velocity(base).cross(2.0 * self._sliding(point, "qd"))
        own = transform(self.rigid(base), point.offset) + self._sliding(point, "qdd")
        return before + own + carried

    def rigid(self, base: Base) -> list[list[Atom]]:
        """Matrix W (3, 3), 1/s², with W r = α × r + ω × (ω × r): acceleration over an offset r in `base`."""
        w, a = list(self.angular_velocity(base)), list(self.angular_acceleration(base))
        matrix = [[x * y for y in w] for x in w]
        square = [matrix[i][i] for i in range(3)]
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            matrix[i][i] = -(square[j] + square[k])
            matrix[j][i], matrix[i][j] = matrix[j][i] + a[k], matrix[i][j] - a[k]
        return matrix

    # -- operators in world axes ----------------------------------------------------------------------

    @_operator("e")
    def world_axis(self, base: Base, axis: int) -> Vector:
        """Axis number `axis` of `base` (0, 1, 2), a unit vector in world axes."""
        if base.parent is None:
            return self.unit(axis)
        if axis == base.axis:
            return self.world_axis(base.parent, axis)
        s, c = self.graph.sin(base.angle), self.graph.cos(base.angle)
        first, second = (self.world_axis(base.parent, (base.axis + k) % 3) for k in (1, 2))
        if axis == (base.axis + 1) % 3:
            return first * c + second * s
        return second * c - first * s

    def to_world(self, vector: Vector, base: Base) -> Vector:
        """World components of a vector given in `base`."""
        total = self.none
        for k, component in enumerate(vector):
            total = total + self.world_axis(base, k) * component
        return total

    @_operator("omega_world")
    def world_angular_velocity(self, base: Base) -> Vector:
        """ω of `base` in world axes, rad/s."""
        if base.parent is None:
            return self.none
        return self.world_angular_velocity(base.parent) + self.to_world(self._turning(base, "qd"), base)

    @_operator("alpha_world")
    def world_angular_acceleration(self, base: Base) -> Vector:
        """Angular acceleration of `base` in world axes, rad/s²."""
        if base.parent is None:
            return self.none
        turning = self.to_world(self._turning(base, "qd"), base)
        carried = self.world_angular_velocity(base.parent).cross(turning)
        own = self.to_world(self._turning(base, "qdd"), base)
        return self.world_angular_acceleration(base.parent) + carried + own

    @_operator("r_world")
    def world_position(self, point: Point) -> Vector:
        """Position of `point` relative to the ground in world axes, m."""
        if point.parent is None:
            return self.none
        return self.world_position(point.parent) + self.to_world(point.offset, point.base)

    @_operator("v_world")
    def world_velocity(self, point: Point) -> Vector:
        """Velocity of `point` in world axes, m/s."""
        if point.parent is None:
            return self.none
        carried = self.world_angular_velocity(point.base).cross(self.to_world(point.offset, point.base))
        sliding = self.to_world(self._sliding(point, "qd"), point.base)
        return self.world_velocity(point.parent) + carried + sliding

    @_operator("a_world")
    def world_acceleration(self, point: Point) -> Vector:
        """Acceleration of `point` in world axes, m/s²."""
        if point.parent is None:
            return self.none
        omega, alpha = self.world_angular_velocity(point.base), self.world_angular_acceleration(point.base)
        offset = self.to_world(point.offset, point.base)
        sliding = self.to_world(self._sliding(point, "qd"), point.base)
        own = alpha.cross(offset) + omega.cross(omega.cross(offset) + 2.0 * sliding)
        return (
            self.world_acceleration(point.parent)
            + own
            + self.to_world(self._sliding(point, "qdd"), point.base)
        )

    def _turning(self, base: Base, rate: str) -> Vector:
        """Angular rate ("qd") or acceleration ("qdd") of a base's own coordinate."""
        return self.unit(base.axis) * getattr(base.coordinate, rate) if base.coordinate else self.none

    def _sliding(self, point: Point, rate: str) -> Vector:
        """Rate ("qd") or acceleration ("qdd") of the components of a point's offset."""
        return Vector.of([getattr(s, rate) if s else self.graph.zero for s in point.slides])


def transform(matrix: list[list[Atom]], vector: Vector) -> Vector:
    """Matrix (3, 3) times vector."""
    return Vector.of([Vector.of(row).dot(vector) for row in matrix])


def label(vector: Vector, name: str) -> None:
    """Name the components for readers of generated code."""
    for a, x in zip(AXES, vector, strict=True):
        x.label(f"{name}_{a}")


def descends(base: Base, ancestor: Base) -> bool:
    """Whether `base` is `ancestor` or rotated from it."""
    return _common(base, ancestor) is ancestor


def _common(a: Node, b: Node) -> Node:
    """Deepest common ancestor in their tree."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        assert a.parent is not None  # only roots have none, and there is only one root
        a = a.parent
    return a


def _way(base: Base, ancestor: Base) -> list[Base]:
    """Bases from `base` inwards to `ancestor`, excluding the latter."""
    way: list[Base] = []
    b: Base | None = base
    while b is not None and b is not ancestor:
        way.append(b)
        b = b.parent
    return way
