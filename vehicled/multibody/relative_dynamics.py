"""Mass matrix and generalised forces of a mechanism in relative coordinates: M q̈ = δ(q, q̇).

Motion is computed from the roots of the trees to the leaves, loads the other way: a force at a point is added to
that at its parent point, and its moment about that to the base of the offset; a base adds its moment to its
parent's. The component along an angle's axis or a sliding axis is the coordinate's generalised force (virtual
power). The mass matrix is found likewise, from the forces that a unit acceleration of one coordinate requires, with
all that moves with it as one rigid composite (Walker and Orin 1982, method 3; here on separate trees).
"""

from __future__ import annotations

from dataclasses import dataclass

from vehicled.multibody.relative import (
    Base,
    Point,
    RelativeBody,
    RelativeSpring,
    RelativeSystem,
    descends,
    label,
    transform,
)
from vehicled.multibody.system import Coordinate
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector


@dataclass(frozen=True)
class Composite:
    """First moment, kg·m, and inertia about a point, kg·m², of all that rotates with a base beyond that point."""

    first: Vector
    moments: Vector
    products: Vector
    """Ixy, Iyz, Izx."""

    def __add__(self, other: Composite) -> Composite:
        return Composite(
            self.first + other.first, self.moments + other.moments, self.products + other.products
        )

    def column(self, axis: int) -> Vector:
        """The inertia matrix times the unit vector of an axis."""
        moments, products = list(self.moments), list(self.products)
        column = list(self.products)
        column[axis] = moments[axis]
        column[(axis + 1) % 3] = products[axis]
        column[(axis + 2) % 3] = products[axis - 1]
        return Vector.of(column)

    def shifted(self, mass: Atom, offset: Vector) -> Composite:
        """About the point from which `offset` leads to the present one, with which `mass` moves."""
        first = self.first + offset * mass
        x, y, z = (r * (a + b) for r, a, b in zip(offset, self.first, first, strict=True))
        r, s, t = offset, self.first, first
        mixed = Vector(r.x * t.y + r.y * s.x, r.y * t.z + r.z * s.y, r.z * t.x + r.x * s.z)
        return Composite(first, self.moments + Vector(y + z, z + x, x + y), self.products - mixed)

    def to_parent(self, system: RelativeSystem, base: Base) -> Composite:
        """The same composite in the axes of the parent of `base`."""
        graph = system.graph
        s, c = graph.sin(base.angle), graph.cos(base.angle)
        k, i, j = base.axis, (base.axis + 1) % 3, (base.axis + 2) % 3
        m, p = list(self.moments), list(self.products)
        # products[i] belongs to axes i and i + 1: p[i] is that of the plane of rotation.
        u = s * (m[i] - m[j]) + 2.0 * (c * p[i])
        m[i], m[j], p[i] = m[i] - s * u, m[j] + s * u, c * u - p[i]
        p[k], p[j] = c * p[k] - s * p[j], s * p[k] + c * p[j]
        return Composite(system.to_parent(self.first, base), Vector.of(m), Vector.of(p))


class Dynamics:
    """Quantities of a finished system, summed from the leaves of its trees."""

    def __init__(self, system: RelativeSystem, gravity: Vector) -> None:
        """`gravity`: gravitational acceleration in world axes, m/s²."""
        self.system = system
        self._ground = -gravity  # gravity as an upward acceleration of the ground
        self._beyond: dict[Point, list[Point]] = {p: [] for p in system.points}
        self._turned: dict[Base, list[Base]] = {b: [] for b in system.bases}
        for p in system.points:
            if p.parent:
                self._beyond[p.parent].append(p)
        for b in system.bases:
            if b.parent:
                self._turned[b.parent].append(b)
        self._bodies: dict[tuple[Point, Base], list[RelativeBody]] = {}
        for body in system.bodies:
            self._bodies.setdefault((body.point, body.base), []).append(body)
        self._applied: dict[tuple[Point, Base], Vector] = {}
        for p, base, force in system.forces:
            self._apply(p, base, force)
        for spring in system.springs:
            self._stretch(spring)
        self._masses: dict[Point, Atom] = {}
        self._composites: dict[tuple[Point, Base], Composite] = {}
        self._loads: dict[tuple[Point, Base], Vector] = {}
        self._moments: dict[Base, Vector] = {}

    def _apply(self, point: Point, base: Base, force: Vector) -> None:
        if not descends(base, point.base):
            base, force = point.base, self.system.express(force, base, point.base)
        self._applied[point, base] = self._applied.get((point, base), self.system.none) + force

    def _stretch(self, spring: RelativeSpring) -> None:
        a, b = spring.points
        apart = self.system.position(b, a)
        distance = apart.norm()
        rate = apart.dot(self.system.velocity(b, a, a.base)) / distance
        pull = spring.stiffness * (distance - spring.length) + spring.damping * rate
        force = apart * (pull / distance)
        self._apply(a, b.base, force)
        self._apply(b, b.base, -force)

    # -- mass matrix ----------------------------------------------------------------------------------

    def mass(self, point: Point) -> Atom:
        """Total mass that moves with a point, kg."""
        if point not in self._masses:
            own = [body.mass for body in self.system.bodies if body.point is point]
            total = sum([*own, *(self.mass(p) for p in self._beyond[point])], self.system.graph.zero)
            total.label(f"m_{point.name}")
            self._masses[point] = total
        return self._masses[point]

    def composite(self, point: Point, base: Base) -> Composite:
        """All beyond `point` (itself fixed) that rotates with `base`, about the point, in axes of the base."""
        known = self._composites.get((point, base))
        if known is None:
            none = self.system.none
            known = Composite(none, none, none)
            for body in self._bodies.get((point, base), ()):
                known += Composite(body.centre * body.mass, body.moments, body.products)
            for p in self._beyond[point]:
                if p.base is base:
                    known += self.composite(p, base).shifted(self.mass(p), p.offset)
            for b in self._turned[base]:
                known += self.composite(point, b).to_parent(self.system, b)
            name = _name(point, base)
            label(known.first, f"S_{name}")
            label(known.moments, f"I_{name}")
            label(known.products, f"J_{name}")
            self._composites[point, base] = known
        return known

    def mass_matrix(self) -> list[list[Atom]]:
        """M(q), symmetric, (n, n) in the order of the coordinates.

        Raises ValueError if a coordinate moves no mass.
        """
        system = self.system
        n = len(system.coordinates)
        matrix = [[system.graph.zero] * n for _ in range(n)]
        columns: list[tuple[Coordinate, dict[Coordinate, Atom]]] = []
        for base in system.bases:
            if base.coordinate:
                columns.append((base.coordinate, self._angle_column(base)))
        for point in system.points:
            for axis, slide in enumerate(point.slides):
                if slide:
                    columns.append((slide, self._slide_column(point, axis)))
        for c, column in columns:
            for other, value in column.items():
                matrix[other.index][c.index] = matrix[c.index][other.index] = value
        for c in system.coordinates:
            if matrix[c.index][c.index] is system.graph.zero:
                raise ValueError(f"coordinate {c.name!r} moves no mass")
        return matrix

    def _angle_column(self, base: Base) -> dict[Coordinate, Atom]:
        system = self.system
        moment, forces = system.none, {}
        axis = system.unit(base.axis)
        for p in system.points:
            if not descends(p.base, base):
                there = self.composite(p, base)
                moment = moment + there.column(base.axis)
                forces[p] = axis.cross(there.first)
        return self._collect(base, moment, forces)

    def _slide_column(self, point: Point, axis: int) -> dict[Coordinate, Atom]:
        direction = self.system.unit(axis)
        moment = self.composite(point, point.base).first.cross(direction)
        return self._collect(point.base, moment, {point: direction * self.mass(point)})

    def _collect(self, base: Base, moment: Vector, forces: dict[Point, Vector]) -> dict[Coordinate, Atom]:
        """Generalised forces, on the inner coordinates, of a moment on a base and forces at points, in its axes."""
        system = self.system
        zero = system.graph.zero
        found: dict[Coordinate, Atom] = {}

        def collect(coordinate: Coordinate | None, value: Atom) -> None:
            if coordinate and value is not zero:
                found[coordinate] = value

        way: Base | None = base
        while way is not None:
            while here := [p for p in forces if p.base is way and p.parent]:
                p = max(here, key=lambda p: p.depth)
                force = forces.pop(p)
                for slide, f in zip(p.slides, force, strict=True):
                    collect(slide, f)
                moment = moment + p.offset.cross(force)
                if p.parent:
                    forces[p.parent] = forces.get(p.parent, system.none) + force
            collect(way.coordinate, list(moment)[way.axis])
            if way.parent:
                moment = system.to_parent(moment, way)
                forces = {p: system.to_parent(f, way) for p, f in forces.items()}
            way = way.parent
        return found

    # -- forces ---------------------------------------------------------------------------------------

    def generalised_forces(self) -> list[Atom]:
        """δ(q, q̇), (n,): loads, gravity and velocity-dependent terms; M q̈ = δ."""
        system = self.system
        still = {c.qdd: system.graph.zero for c in system.coordinates}
        return [-f for f in system.graph.substitute(self.inverse_dynamics(), still)]

    def inverse_dynamics(self) -> list[Atom]:
        """M q̈ − δ(q, q̇), (n,): the generalised forces that a motion requires in addition to the given loads."""
        system = self.system
        wanted: dict[Coordinate, Atom] = dict.fromkeys(system.coordinates, system.graph.zero)
        for p in system.points:
            for slide, f in zip(p.slides, self._load(p, p.base), strict=True):
                if slide:
                    wanted[slide] = f
        for b in system.bases:
            if b.coordinate:
                wanted[b.coordinate] = list(self._moment(b))[b.axis]
        for c, given in system.generalised:
            wanted[c] = wanted[c] - given
        return list(wanted.values())

    def _load(self, point: Point, base: Base) -> Vector:
        """Force required at `point` by all beyond it that rotates with `base`, less the applied forces, N."""
        known = self._loads.get((point, base))
        if known is None:
            system = self.system
            known = system.none
            for body in self._bodies.get((point, base), ()):
                known = known + self._acceleration(body.point, base) * body.mass
                known = known + transform(system.rigid(base), body.centre * body.mass)
            for p in self._beyond[point]:
                if p.base is base:
                    known = known + self._load(p, base)
            for b in self._turned[base]:
                known = known + system.to_parent(self._load(point, b), b)
            known = known - self._applied.get((point, base), system.none)
            label(known, f"F_{_name(point, base)}")
            self._loads[point, base] = known
        return known

    def _moment(self, base: Base) -> Vector:
        """Moment required by all that rotates with `base`, less the applied moments, N·m in axes of the base."""
        known = self._moments.get(base)
        if known is None:
            system = self.system
            known = system.none
            for body in system.bodies:
                if body.base is base:
                    known = known + self._spin(body)
            for p in system.points:
                if p.base is base:
                    known = known + p.offset.cross(self._load(p, base))
            for b in self._turned[base]:
                known = known + system.to_parent(self._moment(b), b)
            for b, moment in system.moments:
                if b is base:
                    known = known - moment
            label(known, f"N_{base.name}")
            self._moments[base] = known
        return known

    def _spin(self, body: RelativeBody) -> Vector:
        """Moment about its origin that the motion of a body requires: m c × a + I α + ω × I ω."""
        base = body.base
        w, alpha = self.system.rigid(base), list(self.system.angular_acceleration(base))
        omega = list(self.system.angular_velocity(base))
        moments, products = list(body.moments), list(body.products)
        spin = []
        for x in range(3):
            y, z = (x + 1) % 3, (x + 2) % 3
            # W contains the needed sums of products of ω and components of α.
            spin.append(
                moments[x] * alpha[x]
                + (moments[z] - moments[y]) * (omega[y] * omega[z])
                + products[z] * w[y][x]
                - products[x] * w[z][x]
                + products[y] * (w[y][y] - w[z][z])
            )
        lever = body.centre * body.mass
        return lever.cross(self._acceleration(body.point, base)) + Vector.of(spin)

    def _acceleration(self, point: Point, base: Base) -> Vector:
        """Acceleration of a point in axes of a base rotated from its own; the ground accelerates with −g."""
        system = self.system
        known = system.express(system.acceleration(point, self._ground), point.base, base)
        label(known, f"a_{_name(point, base)}")
        return known


def _name(point: Point, base: Base) -> str:
    return point.name if point.name == base.name else f"{point.name}_{base.name}"
