"""Places of points, directions and bodies: linear maps of the coordinates, and moments of mass.

Any point or direction of a body is x = A q + a with A and a that are constant in natural coordinates; in relative
ones they are those of the tangent at the present position. A body is a handful of such vectors,
its elements, with the matrix of their second moments of mass μ: T = ½ Σ μ_ij ẋ_i·ẋ_j (García de Jalón and
Bayo, *Kinematic and Dynamic Simulation of Multibody Systems*, section 4.2; as a "pseudo-inertia" Wensing, Kim
and Slotine, "Linear Matrix Inequalities for Physically-Consistent Inertial Parameter Identification", 2018,
section III). Momentum, inertia and angular velocity all follow from these two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.multibody.elements import PointMass
from vehicled.multibody.model import Model, Part
from vehicled.multibody.natural import Combination
from vehicled.multibody.system import Coordinate
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.symbolic.vector import Vector


def add_kernel(program: Program, model: Model) -> KernelHandle:
    """Kernel `placement`, which in natural coordinates depends on parameters only.

    It writes the arrays `map` (3 rows of n per vector), `offset`, `map_rate` and `moments`, in the order of
    points, vectors and elements. In relative coordinates the map is that of the rates, ∂x/∂q; A q + a is the
    place at the present q, and `map_rate` is Ȧ q̇.
    """
    graph, coordinates = model.graph, model.system.coordinates
    n = len(coordinates)
    at_zero = {c.q: graph.zero for c in coordinates}
    rows = [x for c in _placed(model) for x in c.position]
    entries = {i * n + k: x for (i, k), x in graph.jacobian(rows, [c.q for c in coordinates]).items()}
    moments = [x for part in model.parts.values() for line in _moments(model, part) for x in line]
    offset, still = graph.substitute(rows, at_zero), {c.qdd: graph.zero for c in coordinates}
    drifts: dict[int, Atom] = {}
    if model.varies:
        offset = [row - _carried(graph, entries, i * n, coordinates) for i, row in enumerate(rows)]
        rates = graph.substitute([x for c in _placed(model) for x in c.acceleration], still)
        drifts = {i: x for i, x in enumerate(rates) if x is not graph.zero}
    stores = list(
        zip(program.sparse_array("map", len(rows) * n, list(entries)), entries.values(), strict=True)
    )
    stores += zip(program.sparse_array("map_rate", len(rows), list(drifts)), drifts.values(), strict=True)
    stores += zip(program.array("offset", len(rows)), offset, strict=True)
    stores += zip(program.array("moments", len(moments)), moments, strict=True)
    return program.kernel("placement", stores)


def _carried(
    graph: Graph, entries: Mapping[int, Atom], start: int, coordinates: Sequence[Coordinate]
) -> Atom:
    """One row of A q."""
    total = graph.zero
    for k, c in enumerate(coordinates):
        if start + k in entries:
            total = total + entries[start + k] * c.q
    return total


def _placed(model: Model) -> list[Combination]:
    elements = [e for part in model.parts.values() for e in _elements(model, part)]
    return [*model.points.values(), *model.vectors.values(), *elements]


def _elements(model: Model, part: Part) -> list[Combination]:
    """Elements that define the place of a body.

    With orientation: origin of its axes, and these; a bar in space: its start, and the vector from there to
    its end; a point mass: its place.
    """
    if part.frame is None:
        body = model.description.bodies[part.name]
        if isinstance(body, PointMass):
            return [part.centre]
        start, end = (model.points[p] for p in body.points)
        return [start, end - start]
    zero, one = model.graph.zero, model.graph.one
    axes = (Vector(one, zero, zero), Vector(zero, one, zero), Vector(zero, zero, one))
    return [part.frame.point(Vector(zero, zero, zero)), *(part.frame.direction(a) for a in axes)]


def _moments(model: Model, part: Part) -> list[list[Atom]]:
    """μ: mass, first and second moments ∫ρ s sᵀ about the first element, along the others."""
    mass = part.mass
    if part.inertia is None:
        if isinstance(model.description.bodies[part.name], PointMass):
            return [[mass]]
        return [[mass, mass / 2.0], [mass / 2.0, mass / 3.0]]
    centre = list(part.inertia.centre)
    first = [mass * c for c in centre]
    second = part.inertia.second_moments(model.graph)
    about_origin = [[second[i][k] + first[i] * centre[k] for k in range(3)] for i in range(3)]
    return [[mass, *first], *([f, *row] for f, row in zip(first, about_origin, strict=True))]


@dataclass(frozen=True)
class PlacedBody:
    """A body's elements x = A q + a, world axes (m, or unit vectors), the first a point; their moments of mass."""

    name: str
    map: np.ndarray
    """(k, 3, n) A."""
    offset: np.ndarray
    """(k, 3) a."""
    map_rate: np.ndarray
    """(k, 3) Ȧ q̇ for the present q̇: zero in natural coordinates, where A is constant."""
    moments: np.ndarray
    """(k, k) μ: kg, kg·m, kg·m² (with a bar's vector from end to end: kg)."""

    @property
    def has_orientation(self) -> bool:
        """Whether the body has an orientation: a point mass and a slender bar in space have none."""
        return len(self.moments) == 4

    def place(self, q: np.ndarray) -> np.ndarray:
        """(k, 3) elements at the present q."""
        position: np.ndarray = self.map @ q + self.offset
        return position

    def move(self, rates: np.ndarray) -> np.ndarray:
        """(k, 3) velocities of the elements, from q̇."""
        velocity: np.ndarray = self.map @ rates
        return velocity

    def accelerate(self, qdd: np.ndarray) -> np.ndarray:
        """(k, 3) accelerations of the elements, from q̈."""
        acceleration: np.ndarray = self.map @ qdd + self.map_rate
        return acceleration


class Placement:
    """The maps of one mechanism, as views into its workspace: they follow its parameters."""

    def __init__(self, model: Model, view: Callable[[str], np.ndarray]) -> None:
        """`view` returns an array of the workspace by its name."""
        n = len(model.system.coordinates)
        maps = view("map").reshape(-1, 3, n)
        offsets, map_rates = (view(name).reshape(-1, 3) for name in ("offset", "map_rate"))
        names = [*model.points, *model.vectors]
        points = len(model.points)
        self.points = dict(zip(names[:points], maps[:points], strict=True))
        """(3, n) map for each point and marker."""
        self.vectors = dict(zip(names[points:], maps[points : len(names)], strict=True))
        """(3, n) map for each direction."""
        self._vector_offsets = dict(zip(names[points:], offsets[points : len(names)], strict=True))
        self.bodies: dict[str, PlacedBody] = {}
        row, moment, flat = len(names), 0, view("moments")
        for part in model.parts.values():
            k = len(_elements(model, part))
            moments = flat[moment : moment + k * k].reshape(k, k)
            rows = slice(row, row + k)
            self.bodies[part.name] = PlacedBody(
                part.name, maps[rows], offsets[rows], map_rates[rows], moments
            )
            row, moment = row + k, moment + k * k

    def vector(self, name: str, q: np.ndarray) -> np.ndarray:
        """(3,) a direction in world axes."""
        vector: np.ndarray = self.vectors[name] @ q + self._vector_offsets[name]
        return vector
