"""Mass matrix and generalised forces written out body by body, without operators on the topology.

The textbook's way, for comparison: position of every centre of mass in world axes, its Jacobian and its
acceleration by differentiation, M = Σ m JᵀJ + EᵀIE. It is written for any algebra of expressions, so that
other packages can be given the same function to derive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from vehicled.multibody.relative import Base, Point, RelativeSystem, Spring
from vehicled.multibody.system import Coordinate
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector

Row = list[Any]


class Algebra(Protocol):
    """Expressions with + − × and what is asked here. Zeros are expected to vanish as they come."""

    def take(self, atom: Atom) -> Any:
        """A given expression (symbol, constant or short formula) in this algebra."""

    def sin(self, x: Any) -> Any: ...

    def cos(self, x: Any) -> Any: ...

    def sqrt(self, x: Any) -> Any: ...

    def gradient(self, values: Row, coordinates: Sequence[Coordinate]) -> list[Row]:
        """∂values/∂q, a row per coordinate."""

    def rate(self, values: Row, coordinates: Sequence[Coordinate]) -> Row:
        """Rates of functions of q and q̇ in a motion with q̈ = 0."""


def explicit(system: RelativeSystem, gravity: Vector, algebra: Algebra) -> tuple[list[Row], Row]:
    """M(q), (n, n), and δ(q, q̇), (n,), of M q̈ = δ."""
    return _Explicit(system, algebra).derive([algebra.take(x) for x in gravity])


class _Explicit:
    def __init__(self, system: RelativeSystem, algebra: Algebra):
        self.system = system
        self.algebra = algebra
        self.zero = algebra.take(system.graph.zero)
        self.one = algebra.take(system.graph.one)
        self._rotations: dict[Base, list[Row]] = {}
        self._positions: dict[Point, Row] = {}

    def take(self, vector: Vector) -> Row:
        return [self.algebra.take(x) for x in vector]

    def rotation(self, base: Base) -> list[Row]:
        """From `base` to the world, (3, 3)."""
        if base not in self._rotations:
            one = [[self.one if i == j else self.zero for j in range(3)] for i in range(3)]
            if base.parent is not None:
                angle = self.algebra.take(base.angle)
                s, c = self.algebra.sin(angle), self.algebra.cos(angle)
                i, j = (base.axis + 1) % 3, (base.axis + 2) % 3
                one[i][i], one[i][j], one[j][i], one[j][j] = c, -s, s, c
                one = product(self.rotation(base.parent), one)
            self._rotations[base] = one
        return self._rotations[base]

    def position(self, point: Point) -> Row:
        """From the ground, world axes."""
        if point not in self._positions:
            if point.parent is None:
                self._positions[point] = [self.zero] * 3
            else:
                offset = apply(self.rotation(point.base), self.take(point.offset))
                self._positions[point] = add(self.position(point.parent), offset)
        return self._positions[point]

    def axes(self, base: Base) -> dict[Coordinate, Row]:
        """World axes of the angles that turn a base: ω = Σ axis q̇."""
        found: dict[Coordinate, Row] = {}
        b = base
        while b.parent is not None:
            if b.coordinate:
                found[b.coordinate] = [row[b.axis] for row in self.rotation(b.parent)]
            b = b.parent
        return found

    def jacobian(self, point: Point, position: Row, turned: dict[Coordinate, Row]) -> dict[Coordinate, Row]:
        """∂position/∂q of what is fixed to a point and bases turned by some coordinates."""
        concerned = list(turned)
        p: Point | None = point
        while p is not None:
            concerned += [s for s in p.slides if s]
            concerned += [c for c in self.axes(p.base) if c not in concerned]
            p = p.parent
        return dict(zip(concerned, self.algebra.gradient(position, concerned), strict=True))

    def derive(self, gravity: Row) -> tuple[list[Row], Row]:
        system, algebra = self.system, self.algebra
        n = len(system.coordinates)
        matrix = [[self.zero] * n for _ in range(n)]
        forces = [self.zero] * n
        for body in system.bodies:
            mass, centre = algebra.take(body.mass), self.take(body.centre)
            rotation = self.rotation(body.base)
            position = add(self.position(body.point), apply(rotation, centre))
            axes = self.axes(body.base)
            jacobian = self.jacobian(body.point, position, axes)
            (xx, yy, zz), (xy, yz, zx) = self.take(body.moments), self.take(body.products)
            x, y, z = centre
            central = [
                [xx - mass * (y * y + z * z), xy + mass * (x * y), zx + mass * (z * x)],
                [xy + mass * (x * y), yy - mass * (z * z + x * x), yz + mass * (y * z)],
                [zx + mass * (z * x), yz + mass * (y * z), zz - mass * (x * x + y * y)],
            ]
            inertia = product(product(rotation, central), [list(r) for r in zip(*rotation, strict=True)])

            weighted = {c: [mass * x for x in j] for c, j in jacobian.items()}
            turned = {c: apply(inertia, e) for c, e in axes.items()}
            for a in jacobian:
                for b in jacobian:
                    if a.index <= b.index:
                        value = dot(jacobian[a], weighted[b])
                        if a in axes and b in axes:
                            value = value + dot(axes[a], turned[b])
                        matrix[a.index][b.index] = matrix[a.index][b.index] + value

            concerned = list(jacobian)
            omega = [self.zero] * 3
            for c, e in axes.items():
                omega = add(omega, [x * algebra.take(c.qd) for x in e])
            acceleration = [self.zero] * 3
            for c, j in jacobian.items():
                acceleration = add(acceleration, [x * algebra.take(c.qd) for x in algebra.rate(j, concerned)])
            pull = [g - a for g, a in zip(gravity, acceleration, strict=True)]
            spin = add(
                apply(inertia, algebra.rate(omega, concerned)), cross(omega, apply(inertia, omega))
            )
            for c, j in weighted.items():
                forces[c.index] = forces[c.index] + dot(j, pull)
            for c, e in axes.items():
                forces[c.index] = forces[c.index] - dot(e, spin)
        for point, base, force in system.forces:
            world = apply(self.rotation(base), self.take(force))
            for c, j in self.jacobian(point, self.position(point), {}).items():
                forces[c.index] = forces[c.index] + dot(j, world)
        for spring in system.springs:
            self.pull(spring, forces)
        for base, moment in system.moments:
            world = apply(self.rotation(base), self.take(moment))
            for c, e in self.axes(base).items():
                forces[c.index] = forces[c.index] + dot(e, world)
        for c, force in system.generalised:
            forces[c.index] = forces[c.index] + algebra.take(force)
        for i in range(n):
            for j in range(i):
                matrix[i][j] = matrix[j][i]
        return matrix, forces

    def pull(self, spring: Spring, forces: Row) -> None:
        """Add a spring's generalised forces: its pull times the derivatives of the distance."""
        a, b = (self.position(p) for p in spring.points)
        way = [y - x for x, y in zip(a, b, strict=True)]
        distance = self.algebra.sqrt(dot(way, way))
        concerned = list({c: None for p in spring.points for c in self.jacobian(p, [], {})})
        (rate,) = self.algebra.rate([distance], concerned)
        stiffness, damping, length = map(self.algebra.take, (spring.stiffness, spring.damping, spring.length))
        tension = stiffness * (distance - length) + damping * rate
        for c, (slope,) in zip(concerned, self.algebra.gradient([distance], concerned), strict=True):
            forces[c.index] = forces[c.index] - tension * slope


def dot(a: Row, b: Row) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def add(a: Row, b: Row) -> Row:
    return [x + y for x, y in zip(a, b, strict=True)]


def cross(a: Row, b: Row) -> Row:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def apply(matrix: list[Row], vector: Row) -> Row:
    return [dot(row, vector) for row in matrix]


def product(a: list[Row], b: list[Row]) -> list[Row]:
    columns = list(zip(*b, strict=True))
    return [[dot(row, list(column)) for column in columns] for row in a]


class Atoms:
    """Atomisation alone: the algebra is the graph of the system itself."""

    def __init__(self, system: RelativeSystem):
        self.graph = system.graph
        self.sin, self.cos, self.sqrt = self.graph.sin, self.graph.cos, self.graph.sqrt

    def take(self, atom: Atom) -> Atom:
        return atom

    def gradient(self, values: Row, coordinates: Sequence[Coordinate]) -> list[Row]:
        return [self.graph.directional(values, {c.q: 1.0}) for c in coordinates]

    def rate(self, values: Row, coordinates: Sequence[Coordinate]) -> Row:
        return self.graph.directional(values, {c.q: c.qd for c in coordinates})
