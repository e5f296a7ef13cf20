"""A multibody system in the making: coordinates, mass, constraints and forces as atoms.

Coordinates have two ranks. Those of rank 0 belong to the root of the system (a car's chassis); those of
rank 1 belong to branches that repeat (its corners): they are written down once and computed for all
branches side by side. Branches touch each other only through the root.
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
    """A stiff or strongly damped force's share in the tangent matrix: `weight`·J Jᵀ, J by coordinate."""

    jacobian: dict[Coordinate, Atom]
    weight: Atom
    """∂force/∂rate · h/2 + ∂force/∂displacement · h²/4."""


@dataclass
class System:
    """Collects what the model is made of; a formulation turns it into kernels."""

    graph: Graph
    branches: int = 1
    coordinates: list[Coordinate] = field(default_factory=list)
    design: list[Atom] = field(default_factory=list)
    """Value of each coordinate in the design configuration."""
    basics: list[Basic] = field(default_factory=list)
    mass_entries: dict[tuple[Coordinate, Coordinate, int], Atom] = field(default_factory=dict)
    """By rank of the entry: what branches put on the root stays apart from its own, to be summed once."""
    constraints: list[tuple[str, Atom]] = field(default_factory=list)
    forces: list[tuple[Coordinate, Atom]] = field(default_factory=list)
    soft: list[Soft] = field(default_factory=list)
    bodies: list[tuple[str, int]] = field(default_factory=list)
    """Name and rank; one of rank 1 stands for a body in every branch."""
    rates: dict[Atom, Atom] = field(default_factory=dict)
    """Time derivative of each prescribed input symbol (itself a symbol)."""
    _by_rank: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    _of: dict[Basic, list[Coordinate]] = field(default_factory=dict)

    def coordinate(self, name: str, rank: int, design: Atom) -> Coordinate:
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

    def vector(self, name: str, design: Vector, *, point: bool, rank: int = 0) -> Combination:
        """A new basic vector (three coordinates), as a combination of itself."""
        cs = [self.coordinate(f"{name}.{a}", rank, d) for a, d in zip("xyz", design, strict=True)]
        basic = Basic(
            name,
            rank,
            point,
            Vector.of([c.q for c in cs]),
            Vector.of([c.qd for c in cs]),
            Vector.of([c.qdd for c in cs]),
            design,
        )
        self.basics.append(basic)
        self._of[basic] = cs
        return Combination(self.graph, {basic: self.graph.one})

    def of(self, basic: Basic) -> list[Coordinate]:
        """The three coordinates of a basic vector."""
        return self._of[basic]

    def body(self, name: str, frame: Frame, inertia: Inertia) -> None:
        rank = max((b.rank for d in (frame.origin, *frame.directions) for b in d.terms), default=0)
        self.bodies.append((name, rank))
        for (a, b), m in mass_terms(frame, inertia).items():
            self.add_mass(a, b, m)

    def add_mass(self, a: Basic, b: Basic, m: Atom) -> None:
        for x, y in zip(self.of(a), self.of(b), strict=True):
            self.add_scalar_mass(x, y, m)

    def add_scalar_mass(self, x: Coordinate, y: Coordinate, m: Atom) -> None:
        key = (x, y, m.rank)
        self.mass_entries[key] = self.mass_entries[key] + m if key in self.mass_entries else m

    def constraint(self, name: str, expression: Atom) -> None:
        """Require expression(q, prescribed inputs) = 0."""
        self.constraints.append((name, expression))

    def force(self, point: Combination, force: Vector) -> None:
        """Apply a force (world axes, N) at a point of a body."""
        for basic, c in point.terms.items():
            for x, f in zip(self.of(basic), force, strict=True):
                self.forces.append((x, f * c))

    def generalised_force(self, coordinate: Coordinate, force: Atom) -> None:
        self.forces.append((coordinate, force))

    def gravity(self, g: Vector) -> None:
        """Uniform acceleration g (world axes, m/s²) on every mass: M times g on each point."""
        points = {c: k for b in self.basics if b.point for k, c in enumerate(self.of(b))}
        pull = list(g)
        for x, y, m in self.mass:
            if y in points:
                self.forces.append((x, m * pull[points[y]]))

    # -- quantities that formulations need -------------------------------------------------------------

    @property
    def mass(self) -> list[tuple[Coordinate, Coordinate, Atom]]:
        """Non-zero entries (row, column, value), both of each symmetric pair."""
        return [(x, y, m) for (x, y, _), m in self.mass_entries.items() if m is not self.graph.zero]

    @property
    def root(self) -> list[Coordinate]:
        return [c for c in self.coordinates if c.rank == 0]

    @property
    def branch(self) -> list[Coordinate]:
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
