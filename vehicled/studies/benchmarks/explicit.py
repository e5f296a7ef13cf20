"""Mass matrix and generalised forces written out body by body, without operators on the topology.

The derivation of textbooks, for comparison: position of every centre of mass in world axes, its Jacobian and its
acceleration by differentiation, M = Σ m JᵀJ + EᵀIE. It is written for any algebra of expressions, so that
other packages can be given the same function to derive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from vehicled.multibody.relative import Base, Point, RelativeBody, RelativeSpring, RelativeSystem
from vehicled.multibody.system import Coordinate
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector

Row = list[Any]


class Algebra(Protocol):
    """Interface of expressions with + − × and these functions. Terms that are zero should be dropped at once."""

    def take(self, atom: Atom) -> Any:
        """A given expression (symbol, constant or short formula) in this algebra."""

    def sin(self, x: Any) -> Any:
        """Sine of x (rad)."""

    def cos(self, x: Any) -> Any:
        """Cosine of x (rad)."""

    def sqrt(self, x: Any) -> Any:
        """√x."""

    def gradient(self, values: Row, coordinates: Sequence[Coordinate]) -> list[Row]:
        """∂values/∂q, a row per coordinate."""

    def rate(self, values: Row, coordinates: Sequence[Coordinate]) -> Row:
        """Rates of functions of q and q̇ in a motion with q̈ = 0."""


def explicit(system: RelativeSystem, gravity: Vector, algebra: Algebra) -> tuple[list[Row], Row]:
    """M(q), (n, n), and δ(q, q̇), (n,), of M q̈ = δ; `gravity` in world axes, m/s²."""
    derivation = _Derivation(system, algebra)
    for body in system.bodies:
        derivation.add_body(body, derivation.take(gravity))
    derivation.add_loads()
    return derivation.matrix, derivation.forces


class _Derivation:
    def __init__(self, system: RelativeSystem, algebra: Algebra) -> None:
        self.system = system
        self.algebra = algebra
        self.zero = algebra.take(system.graph.zero)
        self.one = algebra.take(system.graph.one)
        n = len(system.coordinates)
        self.matrix = [[self.zero] * n for _ in range(n)]
        self.forces = [self.zero] * n
        self._rotations: dict[Base, list[Row]] = {}
        self._positions: dict[Point, Row] = {}

    def take(self, vector: Vector) -> Row:
        return [self.algebra.take(x) for x in vector]

    # -- kinematics, world axes -------------------------------------------------------------------------

    def rotation(self, base: Base) -> list[Row]:
        """Matrix from `base` to the world, (3, 3)."""
        if base not in self._rotations:
            matrix = [[self.one if i == j else self.zero for j in range(3)] for i in range(3)]
            if base.parent is not None:
                angle = self.algebra.take(base.angle)
                s, c = self.algebra.sin(angle), self.algebra.cos(angle)
                i, j = (base.axis + 1) % 3, (base.axis + 2) % 3
                matrix[i][i], matrix[i][j], matrix[j][i], matrix[j][j] = c, -s, s, c
                matrix = product(self.rotation(base.parent), matrix)
            self._rotations[base] = matrix
        return self._rotations[base]

    def position(self, point: Point) -> Row:
        """Position from the ground."""
        if point.parent is None:
            return [self.zero] * 3
        if point not in self._positions:
            offset = apply(self.rotation(point.base), self.take(point.offset))
            self._positions[point] = add(self.position(point.parent), offset)
        return self._positions[point]

    def axes(self, base: Base) -> dict[Coordinate, Row]:
        """Axes of the angles that turn a base: ω = Σ axis q̇."""
        found: dict[Coordinate, Row] = {}
        b = base
        while b.parent is not None:
            if b.coordinate:
                found[b.coordinate] = [row[b.axis] for row in self.rotation(b.parent)]
            b = b.parent
        return found

    def movers(self, point: Point, base: Base) -> list[Coordinate]:
        """Coordinates that move a body at a point that rotates with a base."""
        found = dict.fromkeys(self.axes(base))
        p: Point | None = point
        while p is not None:
            found |= dict.fromkeys(c for c in (*p.slides, *self.axes(p.base)) if c)
            p = p.parent
        return list(found)

    def gradient(self, values: Row, coordinates: list[Coordinate]) -> dict[Coordinate, Row]:
        return dict(zip(coordinates, self.algebra.gradient(values, coordinates), strict=True))

    # -- mass and forces --------------------------------------------------------------------------------

    def add_body(self, body: RelativeBody, gravity: Row) -> None:
        algebra, mass = self.algebra, self.algebra.take(body.mass)
        rotation = self.rotation(body.base)
        position = add(self.position(body.point), apply(rotation, self.take(body.centre)))
        transposed = [list(column) for column in zip(*rotation, strict=True)]
        inertia = product(product(rotation, self.central_inertia(body)), transposed)

        movers = self.movers(body.point, body.base)
        jacobian, axes = self.gradient(position, movers), self.axes(body.base)
        momenta = {c: [mass * x for x in j] for c, j in jacobian.items()}
        turned = {c: apply(inertia, e) for c, e in axes.items()}
        for a in movers:
            for b in movers:
                if a.index <= b.index:
                    value = dot(jacobian[a], momenta[b])
                    if a in axes and b in axes:
                        value = value + dot(axes[a], turned[b])
                    self.matrix[a.index][b.index] = self.matrix[a.index][b.index] + value
                    self.matrix[b.index][a.index] = self.matrix[a.index][b.index]

        acceleration, omega = [self.zero] * 3, [self.zero] * 3
        for c, j in jacobian.items():
            acceleration = add(acceleration, [x * algebra.take(c.qd) for x in algebra.rate(j, movers)])
        for c, e in axes.items():
            omega = add(omega, [x * algebra.take(c.qd) for x in e])
        free = [g - a for g, a in zip(gravity, acceleration, strict=True)]
        spin = add(apply(inertia, algebra.rate(omega, movers)), cross(omega, apply(inertia, omega)))
        for c, momentum in momenta.items():
            self.forces[c.index] = self.forces[c.index] + dot(momentum, free)
        for c, e in axes.items():
            self.forces[c.index] = self.forces[c.index] - dot(e, spin)

    def central_inertia(self, body: RelativeBody) -> list[Row]:
        """Inertia about the centre of mass, in body axes."""
        mass, (x, y, z) = self.algebra.take(body.mass), self.take(body.centre)
        (xx, yy, zz), (xy, yz, zx) = self.take(body.moments), self.take(body.products)
        xx, yy, zz = xx - mass * (y * y + z * z), yy - mass * (z * z + x * x), zz - mass * (x * x + y * y)
        xy, yz, zx = xy + mass * (x * y), yz + mass * (y * z), zx + mass * (z * x)
        return [[xx, xy, zx], [xy, yy, yz], [zx, yz, zz]]

    def add_loads(self) -> None:
        system, forces = self.system, self.forces
        for point, base, force in system.forces:
            world = apply(self.rotation(base), self.take(force))
            movers = self.movers(point, system.world)
            for c, j in self.gradient(self.position(point), movers).items():
                forces[c.index] = forces[c.index] + dot(j, world)
        for base, moment in system.moments:
            world = apply(self.rotation(base), self.take(moment))
            for c, e in self.axes(base).items():
                forces[c.index] = forces[c.index] + dot(e, world)
        for c, along in system.generalised:
            forces[c.index] = forces[c.index] + self.algebra.take(along)
        for spring in system.springs:
            self.add_spring(spring)

    def add_spring(self, spring: RelativeSpring) -> None:
        """Add a spring's force times the derivatives of its distance."""
        a, b = (self.position(p) for p in spring.points)
        apart = [y - x for x, y in zip(a, b, strict=True)]
        distance = self.algebra.sqrt(dot(apart, apart))
        movers = list(dict.fromkeys(c for p in spring.points for c in self.movers(p, self.system.world)))
        (rate,) = self.algebra.rate([distance], movers)
        stiffness, damping, length = map(self.algebra.take, (spring.stiffness, spring.damping, spring.length))
        pull = stiffness * (distance - length) + damping * rate
        for c, (slope,) in self.gradient([distance], movers).items():
            self.forces[c.index] = self.forces[c.index] - pull * slope


def dot(a: Row, b: Row) -> Any:
    """Scalar product of rows of three."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def add(a: Row, b: Row) -> Row:
    """Sum of rows of equal length."""
    return [x + y for x, y in zip(a, b, strict=True)]


def cross(a: Row, b: Row) -> Row:
    """Vector product a × b of rows of three."""
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def apply(matrix: list[Row], vector: Row) -> Row:
    """Matrix (rows of three) times vector."""
    return [dot(row, vector) for row in matrix]


def product(a: list[Row], b: list[Row]) -> list[Row]:
    """a · b of matrices by rows."""
    columns = list(zip(*b, strict=True))
    return [[dot(row, list(column)) for column in columns] for row in a]


class Atoms:
    """Atomisation only: the algebra is the graph of the system itself."""

    def __init__(self, system: RelativeSystem) -> None:
        self.graph = system.graph
        self.sin, self.cos, self.sqrt = self.graph.sin, self.graph.cos, self.graph.sqrt

    def take(self, atom: Atom) -> Atom:
        """The atom itself."""
        return atom

    def gradient(self, values: Row, coordinates: Sequence[Coordinate]) -> list[Row]:
        """∂values/∂q, a row per coordinate, each in forward mode."""
        return [self.graph.directional(values, {c.q: 1.0}) for c in coordinates]

    def rate(self, values: Row, coordinates: Sequence[Coordinate]) -> Row:
        """Σ ∂values/∂q · q̇ in one pass of forward mode."""
        return self.graph.directional(values, {c.q: c.qd for c in coordinates})
