"""Points and directions of each body in its own axes, as expressions of the mechanism's geometry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vehicled.multibody.elements import (
    AXES,
    Bar,
    Cylindrical,
    Fixed,
    PointMass,
    PointOnLine,
    Prismatic,
    Revolute,
    Rigid,
    Spherical,
    Universal,
)
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.topology import GROUND
from vehicled.symbolic.evaluate import FLOAT, Arithmetic, evaluate
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.vector import Vector

_SAMPLES = 3
"""Number of geometries at which expressions are evaluated: the mechanism's own, and random ones."""


@dataclass(frozen=True)
class Element:
    """A point or a direction in a body's axes."""

    is_point: bool
    place: Vector

    @property
    def homogeneous(self) -> list[Atom]:
        """(1, place) of a point, (0, direction)."""
        graph = self.place.x.graph
        return [graph.one if self.is_point else graph.zero, *self.place]


class Geometry:
    """Symbols of the geometry that the bodies' axes are given in.

    Coordinates that are zero in the description are not symbols and stay zero.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.graph = Graph()
        self.symbols: dict[str, Atom] = {}
        """Symbols by the parameter's name in the mechanism."""
        bodies = {GROUND: self._ground()}
        for name, body in mechanism.description.bodies.items():
            bodies[name] = self._elements(name, body)
        if mechanism.description.space == "planar":
            normal = Element(False, self._vector([0.0, 0.0, 1.0]))
            for elements in bodies.values():
                elements["z"] = normal
        self._joined = _join(mechanism)
        self._common = {name: self._rename(elements) for name, elements in bodies.items()}

    def get_elements(self, body: str) -> dict[str, Element]:
        """Points and directions of a body or of the ground by name; those that joints unite share a name."""
        return self._common[body]

    def _rename(self, elements: Mapping[str, Element]) -> dict[str, Element]:
        renamed: dict[str, Element] = {}
        for name, element in elements.items():
            common = self._joined.get(name, name)
            if common in renamed:
                continue
            if not element.is_point and common != name and self._points_against(name, common):
                element = Element(False, -element.place)
            renamed[common] = element
        return renamed

    def find_guided(self, direction: str) -> list[str]:
        """Points that a joint keeps on a line of the ground along one of its directions."""
        ground, found = self.get_elements(GROUND), []
        for joint in self.mechanism.description.joints.values():
            if isinstance(joint, (PointOnLine, Cylindrical)):
                axis = joint.axis if isinstance(joint, PointOnLine) else joint.axes[0]
                start, end = (self._joined.get(p, p) for p in joint.points)
                if self._joined.get(axis, axis) == direction and start in ground:
                    found.append(end)
        return found

    def _points_against(self, name: str, common: str) -> bool:
        """Whether two joined axes, which are parallel, have opposite directions."""
        placement, q = self.mechanism.placement, self.mechanism.q
        return bool(placement.vector(name, q) @ placement.vector(common, q) < 0.0)

    def sample(self, atoms: Sequence[Atom]) -> np.ndarray:
        """(samples, len(atoms)) values: at the mechanism's geometry, and at others near it."""
        own = np.array([self.mechanism.get_parameter(name) for name in self.symbols])
        scatter = np.random.default_rng(1).uniform(0.7, 1.3, (_SAMPLES - 1, len(own)))
        return np.array(
            [
                self._evaluate(atoms, dict(zip(self.symbols, g, strict=True)), FLOAT)
                for g in (own, *own * scatter)
            ]
        )

    def evaluate(self, atoms: Sequence[Atom], arithmetic: Arithmetic = FLOAT) -> list[Any]:
        """The atoms at the mechanism's geometry, in numbers of any kind."""
        own = {name: self.mechanism.get_parameter(name) for name in self.symbols}
        return self._evaluate(atoms, own, arithmetic)

    def _evaluate(
        self, atoms: Sequence[Atom], values: Mapping[str, float], arithmetic: Arithmetic
    ) -> list[Any]:
        known = {self.symbols[name].id: arithmetic["const"](float(v)) for name, v in values.items()}
        return evaluate(atoms, known, arithmetic)

    # -- points and directions of a body
    # ------------------------------------------------------------------------------

    def _ground(self) -> dict[str, Element]:
        ground = self.mechanism.description.ground
        elements = {a: Element(False, self._vector(e)) for a, e in zip(AXES, np.eye(3), strict=True)}
        elements |= {n: Element(True, self._place(f"ground.{n}", at)) for n, at in ground.points.items()}
        return elements | {n: self._direction(f"ground.{n}", d) for n, d in ground.vectors.items()}

    def _elements(self, name: str, body: Bar | PointMass | Rigid) -> dict[str, Element]:
        if isinstance(body, PointMass):
            return {body.point: Element(True, self._vector([0.0, 0.0, 0.0]))}
        if isinstance(body, Bar):
            start, end = body.points
            if body.length is None:
                apart = self._named_place(end) - self._named_place(start)
                length = apart.norm()
            else:
                length = self._symbol(f"{name}.length", body.length)
            zero = self.graph.zero
            return {
                start: Element(True, self._vector([0.0, 0.0, 0.0])),
                end: Element(True, Vector(length, zero, zero)),
            }
        if isinstance(body.points, dict):
            points = {p: self._place(f"{name}.{p}", at) for p, at in body.points.items()}
        else:
            points = {p: self._named_place(p) for p in body.points}
        points |= {p: self._place(f"{name}.{p}", at) for p, at in body.markers.items()}
        elements = {p: Element(True, at) for p, at in points.items()}
        if isinstance(body.vectors, dict):
            elements |= {v: self._direction(f"{name}.{v}", d) for v, d in body.vectors.items()}
        else:
            elements |= {v: self._named_direction(v) for v in body.vectors}
        return elements | {v: self._direction(f"{name}.{v}", d) for v, d in body.directions.items()}

    def _named_place(self, name: str) -> Vector:
        ground, points = self.mechanism.description.ground.points, self.mechanism.description.points
        where, at = (f"ground.{name}", ground[name]) if name in ground else (f"design.{name}", points[name])
        return self._place(where, at)

    def _named_direction(self, name: str) -> Element:
        description = self.mechanism.description
        if name in AXES:
            return Element(False, self._vector(np.eye(3)[AXES.index(name)]))
        given = description.ground.vectors
        if name in given:
            return self._direction(f"ground.{name}", given[name])
        return self._direction(f"design.{name}", description.vectors[name])

    def _place(self, name: str, numbers: Sequence[float]) -> Vector:
        components = [self._symbol(f"{name}.{a}", v) for a, v in zip("xyz", numbers, strict=False)]
        return Vector.of(components + [self.graph.zero] * (3 - len(components)))

    def _direction(self, name: str, numbers: Sequence[float]) -> Element:
        raw = np.array([*numbers, 0.0][:3], dtype=float)
        if np.count_nonzero(raw) == 1:  # an axis of the body, of any length
            return Element(False, self._vector(np.sign(raw)))
        return Element(False, self._place(name, numbers).unit())

    def _vector(self, numbers: Sequence[float] | np.ndarray) -> Vector:
        return Vector.of([self.graph.constant(v) for v in numbers])

    def _symbol(self, name: str, value: float) -> Atom:
        if value == 0.0:
            return self.graph.zero
        if name not in self.symbols:
            self.symbols[name] = self.graph.symbol(name)
        return self.symbols[name]


def _join(mechanism: Mechanism) -> dict[str, str]:
    """The common name of points and directions that joints make coincide."""
    common: dict[str, str] = {}

    def root(name: str) -> str:
        while name in common:
            name = common[name]
        return name

    pairs: list[tuple[str, str]] = []
    for joint in mechanism.description.joints.values():
        if isinstance(joint, (Spherical, Revolute, Universal, Fixed)):
            pairs.append(joint.points)
        if isinstance(joint, (Revolute, Cylindrical, Prismatic, Fixed)) and joint.axes is not None:
            pairs.append(joint.axes)
        if isinstance(joint, (Prismatic, Fixed)) and joint.normals is not None:
            pairs.append(joint.normals)
    for first, second in pairs:
        a, b = root(first), root(second)
        if a != b:
            # Elements of the ground keep their names.
            keep, drop = (b, a) if b in AXES else (a, b)
            common[drop] = keep
    return {name: root(name) for name in common}
