"""Symbols of a car's parameters, by name."""

from __future__ import annotations

from vehicled.multibody.natural import Inertia
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.vector import Vector


class ParameterSymbols:
    """Symbols of one rank, made on first use."""

    def __init__(self, graph: Graph, prefix: str, rank: int) -> None:
        self.graph, self.prefix, self.rank = graph, prefix, rank
        self.symbols: dict[str, Atom] = {}

    def __call__(self, name: str) -> Atom:
        """The symbol of that name."""
        if name not in self.symbols:
            self.symbols[name] = self.graph.symbol(f"{self.prefix}{name}", self.rank)
        return self.symbols[name]

    def vector(self, name: str) -> Vector:
        """Three components of a place or direction."""
        return Vector(self(f"{name}.x"), self(f"{name}.y"), self(f"{name}.z"))

    def inertia(self, body: str) -> Inertia:
        """Mass, centre of mass and central moments of a body."""
        moments = Vector(self(f"{body}.ixx"), self(f"{body}.iyy"), self(f"{body}.izz"))
        return Inertia(self(f"{body}.mass"), self.vector(f"{body}.com"), moments)
