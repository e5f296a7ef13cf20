"""Natural coordinates: points and unit vectors of bodies, shared between the bodies they belong to.

García de Jalón and Bayo, *Kinematic and Dynamic Simulation of Multibody Systems*. Any point or direction of
a body is a constant linear combination of the body's basic vectors, so that its velocity is the same
combination of theirs, and the mass matrix is constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vehicled.symbolic.graph import Atom, Graph, Number
from vehicled.symbolic.vector import Vector


@dataclass(frozen=True, eq=False)
class Basic:
    """A basic vector: three coordinates that are a point or a direction of one or several bodies."""

    name: str
    rank: int
    point: bool
    """Uniform acceleration (gravity) acts on points, not on directions."""
    position: Vector
    velocity: Vector
    acceleration: Vector
    design: Vector
    """Its value in the design configuration (atoms of parameters)."""
    turned: bool = False
    """Whether it is another basic vector of the plane turned by a right angle, on the same coordinates."""


class Combination:
    """Linear combination of basic vectors with coefficients that depend on parameters only."""

    def __init__(self, graph: Graph, terms: Mapping[Basic, Atom]) -> None:
        self.graph = graph
        self.terms = {b: c for b, c in terms.items() if c is not graph.zero}

    def _sum(self, part: str) -> Vector:
        zero = self.graph.zero
        total = Vector(zero, zero, zero)
        for b, c in self.terms.items():
            total = total + getattr(b, part) * c
        return total

    @property
    def position(self) -> Vector:
        """Its value for the present q, in world axes."""
        return self._sum("position")

    @property
    def velocity(self) -> Vector:
        """Its rate, in world axes."""
        return self._sum("velocity")

    @property
    def acceleration(self) -> Vector:
        """Its second derivative, in world axes."""
        return self._sum("acceleration")

    @property
    def design(self) -> Vector:
        """Its value in the design configuration (atoms of parameters)."""
        return self._sum("design")

    def __add__(self, other: Combination) -> Combination:
        terms = dict(self.terms)
        for b, c in other.terms.items():
            terms[b] = terms[b] + c if b in terms else c
        return Combination(self.graph, terms)

    def __sub__(self, other: Combination) -> Combination:
        return self + other * -1.0

    def __mul__(self, factor: Atom | Number) -> Combination:
        return Combination(self.graph, {b: c * factor for b, c in self.terms.items()})


class Frame:
    """Origin and three directions in which every point of a body has constant coordinates."""

    def __init__(
        self,
        origin: Combination,
        directions: Sequence[Combination],
        local: tuple[Vector, Sequence[Vector]] | None = None,
    ) -> None:
        """`local`: origin and directions in the body's own axes.

        By default, the body's axes are those of the design configuration. Places and directions given to the
        methods are in the body's axes.
        """
        self.origin = origin
        self.directions = tuple(directions)
        self.place, axes = local or (origin.design, [d.design for d in directions])
        """Place of the origin, in the body's axes."""
        d1, d2, d3 = axes
        normals = (d2.cross(d3), d3.cross(d1), d1.cross(d2))
        volume = d1.dot(normals[0])
        self.inverse = tuple(n / volume for n in normals)
        """Rows of the inverse of [d1 d2 d3] in the body's axes."""

    def coordinates(self, direction: Vector) -> list[Atom]:
        """Coordinates of a direction given in the body's axes."""
        return [row.dot(direction) for row in self.inverse]

    def point(self, place: Vector) -> Combination:
        """The body's point at a place in the body's axes."""
        total = self.origin
        for d, c in zip(self.directions, self.coordinates(place - self.place), strict=True):
            total = total + d * c
        return total

    def direction(self, value: Vector) -> Combination:
        """The body's direction with a value in the body's axes."""
        c = self.coordinates(value)
        return self.directions[0] * c[0] + self.directions[1] * c[1] + self.directions[2] * c[2]

    def reciprocal(self) -> list[Combination]:
        """dⁱ with dⁱ·d_k = 1 for i = k, else 0; the body's angular velocity is ½ Σ dⁱ × ḋ_i."""
        return [self.direction(row) for row in self.inverse]


@dataclass(frozen=True)
class Inertia:
    """Mass, centre of mass (m) and central inertia matrix (kg·m²), in the axes of the body's frame."""

    mass: Atom
    centre: Vector
    moments: Vector
    """Ixx, Iyy, Izz."""
    products: Vector | None = None
    """Ixy, Iyz, Izx: elements of the matrix (minus the integrals of the products)."""

    def second_moments(self, graph: Graph) -> list[list[Atom]]:
        """∫ρ r rᵀ about the centre of mass: ½ tr(I) 1 − I."""
        ixx, iyy, izz = self.moments
        half = 0.5 * (ixx + iyy + izz)
        zero = graph.zero
        ixy, iyz, izx = self.products if self.products else (zero, zero, zero)
        return [[half - ixx, -ixy, -izx], [-ixy, half - iyy, -iyz], [-izx, -iyz, half - izz]]


def mass_terms(frame: Frame, inertia: Inertia) -> dict[tuple[Basic, Basic], Atom]:
    """Coefficients m(a, b) of the constant mass matrix: its block for basic vectors a and b is m(a, b)·1₃.

    Both (a, b) and (b, a) are given.
    """
    graph = inertia.mass.graph
    m = inertia.mass
    mean = frame.coordinates(inertia.centre - frame.place)
    central = inertia.second_moments(graph)
    rows = [list(r) for r in frame.inverse]
    elements = (frame.origin, *frame.directions)
    # Affine second moments in the frame: mass, first moments, B⁻¹ J B⁻ᵀ + m c cᵀ.
    moment: list[list[Atom]] = [[m] + [m * c for c in mean]]
    for i in range(3):
        projected = [sum((rows[i][k] * central[k][n] for k in range(3)), graph.zero) for n in range(3)]
        row = [m * mean[i]]
        for j in range(3):
            if j < i:
                row.append(moment[1 + j][1 + i])
            else:
                central_ij = sum((projected[n] * rows[j][n] for n in range(3)), graph.zero)
                row.append(central_ij + m * mean[i] * mean[j])
        moment.append(row)
    terms: dict[tuple[Basic, Basic], Atom] = {}
    for i, x in enumerate(elements):
        for j, y in enumerate(elements):
            for a, ca in x.terms.items():
                for b, cb in y.terms.items():
                    value = moment[i][j] * ca * cb
                    terms[a, b] = terms[a, b] + value if (a, b) in terms else value
    return terms


def calc_required_wrench(
    terms: Mapping[tuple[Basic, Basic], Atom], about: Combination, gravity: Vector
) -> tuple[Vector, Vector]:
    """Force, and moment about a point, needed for a body's motion in addition to gravity (m/s²).

    M (ẍ − g) for each basic vector: those for points add up to the force, as a translation moves points only;
    a rotation moves points and directions, which gives the moment (Newton and Euler). `terms`: as by
    `mass_terms`.
    """
    shares: dict[Basic, Vector] = {}
    for (a, b), m in terms.items():
        share = (b.acceleration - gravity if b.point else b.acceleration) * m
        shares[a] = shares[a] + share if a in shares else share
    zero = gravity.x.graph.zero
    force = moment = Vector(zero, zero, zero)
    place = about.position
    for basic, share in shares.items():
        if basic.point:
            force = force + share
            moment = moment + (basic.position - place).cross(share)
        else:
            moment = moment + basic.position.cross(share)
    return force, moment
