"""Transfer of inertial properties between neighbouring bodies, which has no effect on any motion.

A common point or direction of two bodies moves with either of them, so that mass there can be transferred
from one body to the other without effect on any motion. In moments of mass (`parameters`) a monopole at a
common point p is p pᵀ, a dipole along a common direction u is p uᵀ + u pᵀ, a quadrupole u uᵀ, with p and u in
homogeneous coordinates of either body: all products of common elements may be transferred. Hence the rules
per joint (Ros, Iriarte and Mata, "3D inertia transfer concept and symbolic determination of the base inertial
parameters", 2012; Mejía Calderón 2016, table 4.1): a revolute joint transfers a monopole, a dipole and a
quadrupole along its axis, a prismatic one six quadrupoles, a cylindrical one a quadrupole, a universal or
spherical one a monopole. To the ground there are further transfers: the products of a fixed direction with
any element of the body; and about an axis of fixed direction only the sum of the quadrupoles across it has an
effect.

Each transfer is a column of parameter changes, exact in the symbols of the geometry.

The rules take only joints into account. Where drives or a special geometry (as of mechanisms that move
although they have no degree of freedom by the count of their constraints) restrict the motion further, the
rank has to be found numerically (`extended`); the transfers remain valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from vehicled.identification import parameters
from vehicled.identification.body_geometry import Element, Geometry
from vehicled.multibody.body_operators import calc_pose, get_body
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.topology import GROUND
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector

_INDEPENDENT = 1e-6
"""Least share of a direction outside the span of others, above which it counts as independent."""
_PARALLEL = 1e-11
"""Sine of the largest angle from the vertical at which an axis counts as vertical."""


@dataclass(frozen=True)
class Transfer:
    """A change of parameters without effect on any motion."""

    kind: str
    """`monopole`, `dipole` or `quadrupole`."""
    source: str
    target: str
    """Bodies; the target may be the ground, which has no parameters."""
    change: Mapping[int, Atom]
    """Change by parameter, per unit transferred."""


def find_transfers(mechanism: Mechanism, geometry: Geometry | None = None) -> list[Transfer]:
    """All transfers by the rules, those to the ground first; they may be linearly dependent."""
    geometry = geometry or Geometry(mechanism)
    finder = _Finder(mechanism, geometry)
    bodies = list(mechanism.placement.bodies)
    found = [t for body in bodies for t in finder.to_ground(body)]
    return found + [t for a, b in combinations(bodies, 2) for t in finder.between(a, b)]


Common = list[tuple[Element, Element]]
"""Common elements of two bodies in the axes of each: at most one point, which comes first, and directions."""


class _Finder:
    def __init__(self, mechanism: Mechanism, geometry: Geometry) -> None:
        self.mechanism, self.geometry = mechanism, geometry
        zero, one = geometry.graph.zero, geometry.graph.one
        self.origin = Element(True, Vector(zero, zero, zero))
        self.axes = [Element(False, Vector.of([one if k == i else zero for k in range(3)])) for i in range(3)]
        self.starts: dict[str, int] = {}
        """Index of each body's first parameter."""
        count = 0
        for name, body in mechanism.placement.bodies.items():
            self.starts[name] = count
            count += len(parameters.get_kinds(len(body.moments)))

    def between(self, a: str, b: str) -> Iterator[Transfer]:
        names = self.geometry.get_elements(a).keys() & self.geometry.get_elements(b).keys()
        if names <= self.geometry.get_elements(GROUND).keys():  # each body transfers these to the ground
            return
        common = self.find_common(a, b)
        for i, (here, there) in enumerate(common):
            for here2, there2 in common[i:]:
                change = self.change(b, there, there2)
                change |= {k: -x for k, x in self.change(a, here, here2).items()}
                yield Transfer(_kind(here, here2), a, b, change)

    def to_ground(self, body: str) -> Iterator[Transfer]:
        common = [here for here, _ in self.find_common(body, GROUND)]
        fixed = [e for e in common if not e.is_point]
        pairs = [(here, here2) for i, here in enumerate(common) for here2 in common[i:]]
        if get_body(self.mechanism, body).has_orientation:
            pairs += [(direction, other) for direction in fixed for other in (self.origin, *self.axes)]
            pairs += self._level_dipoles(body, common)
            if len(fixed) == 1:
                first, second = self._across(fixed[0])
                pairs.append((first, second))
                yield self._give(body, "quadrupole", [(1.0, first, first), (-1.0, second, second)])
        for first, second in pairs:
            yield self._give(body, _kind(first, second), [(1.0, first, second)])

    def _level_dipoles(self, body: str, common: Sequence[Element]) -> list[tuple[Element, Element]]:
        """Pairs of a point that stays on a line, and a direction whose turn affects no weight and no motion."""
        gravity = self.mechanism.description.gravity
        weight = np.zeros(3) if gravity is None else np.array([*gravity, 0.0][:3])
        fixed = [e for e in common if not e.is_point]
        points = [e for e in common if e.is_point]
        if points and not np.any(weight):
            return [(points[0], axis) for axis in self.axes]
        if len(fixed) != 1:
            return []
        axis = calc_pose(self.mechanism, body).R_world_body @ self._numbers(fixed[0])
        if np.linalg.norm(np.cross(axis, weight)) > _PARALLEL * np.linalg.norm(axis) * np.linalg.norm(weight):
            return []
        for name, element in self.geometry.get_elements(body).items():
            if element is fixed[0]:
                elements = self.geometry.get_elements(body)
                points += [elements[p] for p in self.geometry.find_guided(name) if p in elements]
        return [(point, across) for point in points for across in self._across(fixed[0])]

    def _across(self, axis: Element) -> list[Element]:
        """Two directions at right angles to an axis and to each other."""
        numbers = self._numbers(axis)
        helper = self.axes[int(np.argmin(np.abs(numbers)))].place
        first = axis.place.cross(helper).unit()
        return [Element(False, first), Element(False, axis.place.cross(first))]

    def _give(self, body: str, kind: str, products: Sequence[tuple[float, Element, Element]]) -> Transfer:
        change: dict[int, Atom] = {}
        for factor, first, second in products:
            for k, x in self.change(body, first, second).items():
                change[k] = change.get(k, self.geometry.graph.zero) - factor * x
        return Transfer(kind, body, GROUND, change)

    def find_common(self, a: str, b: str) -> Common:
        """A point, and independent directions, that two bodies share.

        Each further point gives a direction from the first one, and two directions give a third one.
        """
        here, there = (self.geometry.get_elements(name) for name in (a, b))
        pairs = [(here[n], there[n]) for n in here if n in there]
        points = [pair for pair in pairs if pair[0].is_point]
        directions = [pair for pair in pairs if not pair[0].is_point]
        for end in points[1:]:
            apart = [Element(False, p.place - start.place) for start, p in zip(points[0], end, strict=True)]
            directions.append((apart[0], apart[1]))
        chosen: Common = []
        span = np.zeros((0, 3))
        for pair in directions:
            numbers = self._numbers(pair[0])
            left = numbers - span.T @ (span @ numbers)
            if np.linalg.norm(left) > _INDEPENDENT * np.linalg.norm(numbers):
                span = np.vstack([span, left / np.linalg.norm(left)])
                chosen.append(pair)
        if len(chosen) == 2:
            crossed = [Element(False, chosen[0][k].place.cross(chosen[1][k].place)) for k in range(2)]
            chosen.append((crossed[0], crossed[1]))
        return points[:1] + chosen

    def change(self, body: str, first: Element, second: Element) -> dict[int, Atom]:
        """Change by parameter for one unit of a aᵀ, or of a bᵀ + b aᵀ."""
        a, b = first.homogeneous, second.homogeneous
        k = len(get_body(self.mechanism, body).moments)
        if first is second:
            moments = [[a[i] * a[j] for j in range(k)] for i in range(k)]
        else:
            moments = [[a[i] * b[j] + a[j] * b[i] for j in range(k)] for i in range(k)]
        zero = self.geometry.graph.zero
        if k == 4:
            (xx, xy, xz), (_, yy, yz), (_, _, zz) = (row[1:] for row in moments[1:])
            values = [*moments[0], yy + zz, -xy, -xz, zz + xx, -yz, xx + yy]
        else:
            values = [*moments[0], *(moments[i][i] for i in range(1, k))]
        start = self.starts[body]
        return {start + i: x for i, x in enumerate(values) if x is not zero}

    def _numbers(self, element: Element) -> np.ndarray:
        return np.array(self.geometry.evaluate(list(element.place)))


def _kind(first: Element, second: Element) -> str:
    return ("quadrupole", "dipole", "monopole")[first.is_point + second.is_point]
