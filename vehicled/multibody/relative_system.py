"""A system whose coordinates are those of a tree of joints, for the formulations that take any `System`.

Points and unit vectors are functions of the coordinates by the recursive operators in world axes; mass matrix
and generalised forces are those of the recursive dynamics. Constraints and forces are added as in natural
coordinates.
"""

from __future__ import annotations

from vehicled.multibody.natural import Basic, Combination, Frame
from vehicled.multibody.relative import Base, Point, RelativeSystem
from vehicled.multibody.relative_dynamics import Dynamics
from vehicled.multibody.system import Coordinate, System
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.vector import Vector


class TreeSystem(System):
    """Coordinates of joints first; further coordinates, without mass, are related to them by constraints."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.tree = RelativeSystem(graph)
        self._points: dict[Basic, Point] = {}
        self._directions: dict[Basic, Base] = {}
        self._gravity = self.tree.none

    def joint_coordinate(self, name: str, start: Atom) -> Coordinate:
        """A new coordinate of the tree, to be created before other coordinates."""
        c = self.coordinate(name, 0, start)
        self.tree.coordinates.append(c)
        return c

    def placed(self, point: Point) -> Combination:
        """A point of the tree, for constraints, forces and sensors."""
        t = self.tree
        of = (t.world_position(point), t.world_velocity(point), t.world_acceleration(point))
        basic = Basic(point.name, 0, True, *of, self.tree.none)
        self._points[basic] = point
        return Combination(self.graph, {basic: self.graph.one})

    def directed(self, base: Base, axis: int) -> Combination:
        """A base's axis number `axis` (0, 1, 2), as a unit vector for constraints, forces and sensors."""
        t = self.tree
        along, spin = t.world_axis(base, axis), t.world_angular_velocity(base)
        rate = spin.cross(along)
        second = t.world_angular_acceleration(base).cross(along) + spin.cross(rate)
        basic = Basic(f"{base.name}.{'xyz'[axis]}", 0, False, along, rate, second, self.tree.none)
        self._directions[basic] = base
        return Combination(self.graph, {basic: self.graph.one})

    def jacobian(self, along: Vector, vector: Combination) -> dict[Coordinate, Atom]:
        """∂(along · vector)/∂q with constant `along`."""
        row: dict[Coordinate, Atom] = {}
        position = vector.position
        for c in self.coordinates:
            if any(x.depends & c.q.depends for x in position):
                row[c] = Vector.of([self.graph.derivative(x, c.q) for x in position]).dot(along)
        return row

    def force(self, point: Combination, force: Vector) -> None:
        """Apply a force (world axes, N) at a point of a body."""
        for basic, c in point.terms.items():
            if basic in self._points:
                self.tree.forces.append((self._points[basic], self.tree.world, force * c))

    def torque(self, frame: Frame, torque: Vector) -> None:
        """Apply a torque (world axes, N·m) to a body."""
        (axis,) = frame.directions[0].terms
        base = self._directions[axis]
        self.tree.moments.append((base, self.tree.express(torque, self.tree.world, base)))

    def gravity(self, g: Vector) -> None:
        """Uniform acceleration g (world axes, m/s²) on every mass."""
        self._gravity = g

    def complete(self) -> None:
        """Add the mass matrix and the generalised forces, after all bodies and forces were added.

        Raises ValueError if a coordinate of the tree moves no mass.
        """
        dynamics = Dynamics(self.tree, self._gravity)
        matrix, coordinates = dynamics.mass_matrix(), self.tree.coordinates
        for a, row in zip(coordinates, matrix, strict=True):
            for b, m in zip(coordinates, row, strict=True):
                self.add_scalar_mass(a, b, m)
        self.forces += zip(coordinates, dynamics.generalised_forces(), strict=True)
