"""A multibody system being built: coordinates, mass, constraints and forces as atoms.

Coordinates have two ranks. Those of rank 0 belong to the root of the system (a car's chassis); those of rank
1 belong to branches that repeat (its corners): they are declared once and computed for all branches side by
side. Branches are coupled only through the root.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vehicled.multibody.natural import Basic, Combination, Frame, Inertia, mass_terms
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.vector import Vector


@dataclass(frozen=True, eq=False)
class Coordinate:
    """One generalised coordinate with its rates, as symbols."""

    name: str
    index: int
    rank: int
    q: Atom
    qd: Atom
    qdd: Atom


@dataclass(frozen=True)
class Soft:
    """Contribution of a stiff or strongly damped force to the tangent matrix: `weight`·J Jᵀ, J by coordinate."""

    jacobian: dict[Coordinate, Atom]
    weight: Atom
    """∂force/∂rate · h/2 + ∂force/∂displacement · h²/4."""


Axis = tuple[Coordinate, float] | None
"""A component of a basic vector: a coordinate times 1 or −1, or fixed (None)."""


@dataclass
class System:
    """Collects the elements of the model; a formulation turns it into kernels."""

    graph: Graph
    branches: int = 1
    coordinates: list[Coordinate] = field(default_factory=list)
    design: list[Atom] = field(default_factory=list)
    """Value of each coordinate in the design configuration."""
    basics: list[Basic] = field(default_factory=list)
    mass_entries: dict[tuple[Coordinate, Coordinate, int], Atom] = field(default_factory=dict)
    """By rank of the entry: the branches' contributions to the root's entries are stored separately from the
    root's own, to be summed once."""
    constraints: list[tuple[str, Atom]] = field(default_factory=list)
    forces: list[tuple[Coordinate, Atom]] = field(default_factory=list)
    soft: list[Soft] = field(default_factory=list)
    bodies: list[tuple[str, int]] = field(default_factory=list)
    """Name and rank; a body of rank 1 stands for one in every branch."""
    body_masses: dict[str, dict[tuple[Basic, Basic], Atom]] = field(default_factory=dict)
    """By name of the body: its contribution to the mass matrix (see `mass_terms`)."""
    rates: dict[Atom, Atom] = field(default_factory=dict)
    """Time derivative of time and of each prescribed input symbol (a symbol or a constant)."""
    _by_rank: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    _axes: dict[Basic, tuple[Axis, Axis, Axis]] = field(default_factory=dict)
    _twins: dict[Basic, Combination] = field(default_factory=dict)
    _mass_on_fixed: list[tuple[Basic, Basic, Atom]] = field(default_factory=list)

    def coordinate(self, name: str, rank: int, design: Atom) -> Coordinate:
        """Add a scalar coordinate; `design` is its value in the design configuration."""
        graph = self.graph
        index = self._by_rank[rank]
        self._by_rank[rank] += 1
        c = Coordinate(
            name,
            index,
            rank,
            graph.symbol(f"q.{name}", rank),
            graph.symbol(f"qd.{name}", rank),
            graph.symbol(f"qdd.{name}", rank),
        )
        self.coordinates.append(c)
        self.design.append(design)
        return c

    def vector(
        self, name: str, design: Vector, *, point: bool, rank: int = 0, planar: bool = False
    ) -> Combination:
        """A new basic vector, as a combination of itself: three coordinates, or two in the plane z = 0."""
        axes = "xy" if planar else "xyz"
        cs = [self.coordinate(f"{name}.{a}", rank, d) for a, d in zip(axes, design, strict=False)]

        def part(of: str) -> Vector:
            components = [getattr(c, of) for c in cs]
            return Vector.of(components + [self.graph.zero] * (3 - len(cs)))

        basic = Basic(name, rank, point, part("q"), part("qd"), part("qdd"), design)
        self.basics.append(basic)
        x, y, *z = cs
        self._axes[basic] = ((x, 1.0), (y, 1.0), (z[0], 1.0) if z else None)
        return Combination(self.graph, {basic: self.graph.one})

    def fixed(self, name: str, value: Vector, *, point: bool) -> Combination:
        """A basic vector that belongs to the ground: no coordinates."""
        zero = self.graph.zero
        rest = Vector(zero, zero, zero)
        basic = Basic(name, 0, point, value, rest, rest, value)
        self._axes[basic] = (None, None, None)
        return Combination(self.graph, {basic: self.graph.one})

    def turned(self, vector: Combination) -> Combination:
        """A vector of the plane rotated by a right angle, from x to y."""
        total = Combination(self.graph, {})
        for basic, c in vector.terms.items():
            total = total + self._turned(basic) * c
        return total

    def _turned(self, basic: Basic) -> Combination:
        if basic not in self._twins:

            def turn(v: Vector) -> Vector:
                return Vector(-v.y, v.x, v.z)

            twin = Basic(
                f"{basic.name} turned",
                basic.rank,
                basic.point,
                turn(basic.position),
                turn(basic.velocity),
                turn(basic.acceleration),
                turn(basic.design),
                turned=True,
            )
            x, y, z = self._axes[basic]
            self._axes[twin] = ((y[0], -y[1]) if y else None, x, z)
            self._twins[basic] = Combination(self.graph, {twin: self.graph.one})
            self._twins[twin] = Combination(self.graph, {basic: -self.graph.one})
        return self._twins[basic]

    def of(self, basic: Basic) -> list[Coordinate]:
        """The coordinates of a basic vector."""
        return [axis[0] for axis in self._axes[basic] if axis]

    def jacobian(self, along: Vector, vector: Combination) -> dict[Coordinate, Atom]:
        """∂(along · vector)/∂q with constant `along`: the generalised force of a unit force in that direction."""
        row: dict[Coordinate, Atom] = {}
        for basic, c in vector.terms.items():
            for axis, a in zip(self._axes[basic], along, strict=True):
                if axis:
                    x, sign = axis
                    row[x] = row.get(x, self.graph.zero) + a * c * sign
        return row

    def body(self, name: str, frame: Frame, inertia: Inertia) -> None:
        """Add a body's mass matrix; `inertia` is in the axes of the body's frame."""
        rank = max((b.rank for d in (frame.origin, *frame.directions) for b in d.terms), default=0)
        self.bodies.append((name, rank))
        self.body_masses[name] = terms = mass_terms(frame, inertia)
        for (a, b), m in terms.items():
            self.add_mass(a, b, m)

    def add_mass(self, a: Basic, b: Basic, m: Atom) -> None:
        """Add m·1₃ to the block of the mass matrix for two basic vectors; fixed vectors count in the weight only."""
        for x, y in zip(self._axes[a], self._axes[b], strict=True):
            if x and y:
                self.add_scalar_mass(x[0], y[0], m * (x[1] * y[1]))
        if self.of(a) and not self.of(b):
            self._mass_on_fixed.append((a, b, m))

    def add_scalar_mass(self, x: Coordinate, y: Coordinate, m: Atom) -> None:
        """Add m to one element of the mass matrix; the caller adds the symmetric element."""
        key = (x, y, m.rank)
        self.mass_entries[key] = self.mass_entries[key] + m if key in self.mass_entries else m

    def constraint(self, name: str, expression: Atom) -> None:
        """Require expression(q, prescribed inputs) = 0."""
        self.constraints.append((name, expression))

    def force(self, point: Combination, force: Vector) -> None:
        """Apply a force (world axes, N) at a point of a body."""
        for basic, c in point.terms.items():
            for axis, f in zip(self._axes[basic], force, strict=True):
                if axis:
                    self.forces.append((axis[0], f * c * axis[1]))

    def torque(self, frame: Frame, torque: Vector) -> None:
        """Apply a torque T (world axes, N·m) to a body.

        It is ½ T × dⁱ on each direction d_i of its frame, with the power T·ω.
        """
        for direction, reciprocal in zip(frame.directions, frame.reciprocal(), strict=True):
            self.force(direction, (torque * 0.5).cross(reciprocal.position))

    def generalised_force(self, coordinate: Coordinate, force: Atom) -> None:
        """Apply a force along a coordinate, N; for an angle, a moment, N·m."""
        self.forces.append((coordinate, force))

    def gravity(self, g: Vector) -> None:
        """Apply a uniform acceleration g (world axes, m/s²) to every mass: M times g on each point."""
        points = {c: k for b in self.basics if b.point for k, c in enumerate(self.of(b))}
        pull = list(g)
        for x, y, m in self.mass:
            if y in points:
                self.forces.append((x, m * pull[points[y]]))
        for a, b, m in self._mass_on_fixed:
            if b.point:
                weight = (Vector(-g.y, g.x, g.z) if b.turned else g) * m
                for axis, f in zip(self._axes[a], weight, strict=True):
                    if axis:
                        self.forces.append((axis[0], f * axis[1]))

    # -- quantities for formulations -------------------------------------------------------------

    @property
    def mass(self) -> list[tuple[Coordinate, Coordinate, Atom]]:
        """Non-zero entries (row, column, value), both entries of each symmetric pair."""
        return [(x, y, m) for (x, y, _), m in self.mass_entries.items() if m is not self.graph.zero]

    @property
    def root(self) -> list[Coordinate]:
        """Coordinates of rank 0."""
        return [c for c in self.coordinates if c.rank == 0]

    @property
    def branch(self) -> list[Coordinate]:
        """Coordinates of rank 1, those of one branch."""
        return [c for c in self.coordinates if c.rank == 1]

    def constraint_jacobian(self) -> list[dict[Coordinate, Atom]]:
        """Φ_q by rows, without structural zeros."""
        graph = self.graph
        rows = []
        for _, phi in self.constraints:
            row = {}
            for c in self.coordinates:
                if phi.depends & c.q.depends:
                    row[c] = graph.derivative(phi, c.q)
            rows.append(row)
        return rows

    def constraint_rates(self) -> tuple[list[Atom], list[Atom]]:
        """Φ̇(q, q̇, t) and Φ̈(q, q̇, q̈, t)."""
        graph = self.graph
        first: dict[Atom, Atom] = {c.q: c.qd for c in self.coordinates} | self.rates
        second = first | {c.qd: c.qdd for c in self.coordinates}
        velocity = graph.directional([phi for _, phi in self.constraints], first)
        return velocity, graph.directional(velocity, second)
