"""A mechanism in relative coordinates being built: bodies give points and vectors (`relative_bodies`)."""

from __future__ import annotations

import numpy as np

from vehicled.multibody.description import Description
from vehicled.multibody.model import MechanismError, Model
from vehicled.multibody.relative_system import TreeSystem
from vehicled.symbolic.graph import Graph


class RelativeModel(Model):
    """A mechanism in relative coordinates; `relative_bodies.add_tree` adds the bodies."""

    system: TreeSystem

    def __init__(self, description: Description, width: int = 1) -> None:
        super().__init__(description, width)
        self.varies = True

    def _make_system(self, graph: Graph) -> TreeSystem:
        return TreeSystem(graph)

    def _declare_moving(self) -> None:
        """Record places at the start; bodies give the points and vectors themselves."""
        for name, numbers in self.description.points.items():
            self.places[name] = np.array([*numbers, 0.0][:3])
        for name, numbers in self.description.vectors.items():
            self.places[name] = np.array([*numbers, 0.0][:3]) / np.linalg.norm(numbers)
        points = self.description.ground.points.keys() | self.description.points.keys()
        self.reach = float(sum(self.places[p] @ self.places[p] for p in points))
        self.directions = len(self.places) - len(points)

    def complete(self) -> None:
        """Add mass matrix and generalised forces. Raises MechanismError if a coordinate moves no mass."""
        try:
            self.system.complete()
        except ValueError as error:
            raise MechanismError(str(error)) from None
