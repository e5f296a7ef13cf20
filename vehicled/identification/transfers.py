"""Base parameters in symbols, by transfer of inertial properties between neighbouring bodies.

What two bodies have in common moves alike with either, so that mass may be shifted from one to the other without
any motion showing it. In moments of mass (`parameters`) a monopole at a common point p is p pᵀ, a dipole along a
common direction u is p uᵀ + u pᵀ, a quadrupole u uᵀ, with p and u in homogeneous coordinates of either body: all
products of what is common may be transferred. Hence the rules per joint (Ros, Iriarte and Mata, "3D inertia
transfer concept and symbolic determination of the base inertial parameters", 2012; Mejía Calderón 2016, table
4.1): a revolute joint transfers a monopole, a dipole and a quadrupole along its axis, a prismatic one six
quadrupoles, a cylindrical one a quadrupole, a universal or spherical one a monopole. The ground takes what it is
given: besides the same transfers, the products of a fixed direction with anything of the body; about an axis of
fixed direction only the sum of the quadrupoles across it shows.

Each transfer is a column of parameter changes, exact in the symbols of the geometry. Eliminating a parameter with
each leaves the base parameters.

The rules know of joints alone. Where drives or a special geometry (as of mechanisms that move although they are
counted out) tie more, numbers tell (`extended`); what transfers say holds there too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from vehicled.identification import parameters
from vehicled.identification.base import BaseSet
from vehicled.multibody.body_operators import calc_pose, get_body
from vehicled.multibody.description import (
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
from vehicled.symbolic.evaluate import FLOAT, Arithmetic, evaluate
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.vector import Vector

GROUND = "ground"
_INDEPENDENT = 1e-6
"""Share of a direction that others must leave over for it to be another one."""
_ZERO = 1e-11
"""Of coefficients (lengths squared) at most."""
_SAMPLES = 3
"""Geometries at which coefficients are looked at: the mechanism's own, and random ones."""


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


@dataclass(frozen=True)
class Transfer:
    """A change of parameters that no motion shows."""

    kind: str
    """`monopole`, `dipole` or `quadrupole`."""
    source: str
    target: str
    """Bodies; the target may be the ground, which has no parameters."""
    change: Mapping[int, Atom]
    """By parameter: per unit transferred."""


class Geometry:
    """Symbols of the geometry that the bodies' axes are given in. Coordinates that the description has as zero are no
    symbols, and are to stay zero."""

    def __init__(self, mechanism: Mechanism):
        self.mechanism = mechanism
        self.graph = Graph()
        self.symbols: dict[str, Atom] = {}
        """By the parameter's name in the mechanism."""
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
        """Points and directions of a body, or of the ground, by the name that joined ones have in common."""
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
        """Joined axes are parallel, one way or the other."""
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

    def evaluate(self, atoms: Sequence[Atom], arithmetic: Arithmetic = FLOAT) -> list:
        """At the mechanism's geometry, in numbers of any kind."""
        own = {name: self.mechanism.get_parameter(name) for name in self.symbols}
        return self._evaluate(atoms, own, arithmetic)

    def _evaluate(self, atoms: Sequence[Atom], values: Mapping[str, float], arithmetic: Arithmetic) -> list:
        known = {self.symbols[name].id: arithmetic["const"](float(v)) for name, v in values.items()}
        return evaluate(atoms, known, arithmetic)

    # -- what belongs to a body ------------------------------------------------------------------------------

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
        if np.count_nonzero(raw) == 1:  # an axis of the body, of whatever length
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
    """The common name of points and directions that joints make one."""
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
            # What is the ground's keeps its name.
            keep, drop = (b, a) if b in AXES else (a, b)
            common[drop] = keep
    return {name: root(name) for name in common}


# -- what may be transferred --------------------------------------------------------------------------------------


def find_transfers(mechanism: Mechanism, geometry: Geometry | None = None) -> list[Transfer]:
    """All transfers by the rules, those to the ground first; they may repeat each other."""
    geometry = geometry or Geometry(mechanism)
    finder = _Finder(mechanism, geometry)
    bodies = list(mechanism.placement.bodies)
    found = [t for body in bodies for t in finder.to_ground(body)]
    return found + [t for a, b in combinations(bodies, 2) for t in finder.between(a, b)]


Common = list[tuple[Element, Element]]
"""What two bodies have in common, in the axes of each: a point at most, which is the first, and directions."""


class _Finder:
    def __init__(self, mechanism: Mechanism, geometry: Geometry):
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
        if names <= self.geometry.get_elements(GROUND).keys():  # each gives that to the ground
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
        """Points that stay on a line, with directions whose turning neither gravity nor the motion along it feel."""
        gravity = self.mechanism.description.gravity
        weight = np.zeros(3) if gravity is None else np.array([*gravity, 0.0][:3])
        fixed = [e for e in common if not e.is_point]
        points = [e for e in common if e.is_point]
        if points and not np.any(weight):
            return [(points[0], axis) for axis in self.axes]
        if len(fixed) != 1:
            return []
        axis = calc_pose(self.mechanism, body).R_world_body @ self._numbers(fixed[0])
        if np.linalg.norm(np.cross(axis, weight)) > _ZERO * np.linalg.norm(axis) * np.linalg.norm(weight):
            return []
        for name, element in self.geometry.get_elements(body).items():
            if element is fixed[0]:
                elements = self.geometry.get_elements(body)
                points += [elements[p] for p in self.geometry.find_guided(name) if p in elements]
        return [(point, across) for point in points for across in self._across(fixed[0])]

    def _across(self, axis: Element) -> list[Element]:
        """Two directions at right angles to one and to each other."""
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
        """A point, and independent directions; points beside the first one make directions, and two directions a
        third one."""
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
        """By parameter, of a unit of a aᵀ, or of a bᵀ + b aᵀ."""
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


# -- base parameters ----------------------------------------------------------------------------------------------


@dataclass
class _Entry:
    """A coefficient: in symbols, and at some geometries, the mechanism's own first."""

    atom: Atom
    samples: np.ndarray

    def __sub__(self, other: _Entry) -> _Entry:
        return _Entry(self.atom - other.atom, self.samples - other.samples)

    def __mul__(self, other: _Entry) -> _Entry:
        return _Entry(_multiply(self.atom, other.atom), self.samples * other.samples)

    def __truediv__(self, other: _Entry) -> _Entry:
        return _Entry(_divide(self.atom, other.atom), self.samples / other.samples)

    @property
    def is_zero(self) -> bool:
        """At all geometries."""
        return bool(np.all(np.abs(self.samples) < _ZERO))

    @property
    def is_zero_here(self) -> bool:
        return bool(abs(self.samples[0]) < _ZERO)


def _multiply(a: Atom, b: Atom) -> Atom:
    """Without the quotients of one that make an expression hard to read."""
    for factor, other in ((a, b), (b, a)):
        if factor.op == "neg":
            return -_multiply(factor.args[0], other)
        if factor.op == "div" and factor.args[0].is_constant(1.0):
            return _divide(other, factor.args[1])
    return a * b


def _divide(a: Atom, b: Atom) -> Atom:
    """With what stands in both left out."""
    if a.op == "neg" or (a.op == "const" and a.value < 0.0):
        return -_divide(-a, b)
    if b.op == "neg":
        return -_divide(a, b.args[0])
    if a.op == "mul" and b in a.args:
        return a.args[a.args[0] is b]
    if b.op == "mul" and a in b.args:
        return 1.0 / b.args[b.args[0] is a]
    return a / b


_Row = dict[int, _Entry]


@dataclass(frozen=True)
class SymbolicBase:
    """A set of base parameters whose β are expressions of the geometry."""

    geometry: Geometry
    base: BaseSet
    """With the numbers of the mechanism's geometry."""
    beta: Mapping[tuple[int, int], Atom]
    """By independent and dependent parameter; what is not there is zero."""

    def calc_beta(self, arithmetic: Arithmetic = FLOAT) -> list[list]:
        """(r, d) β in numbers of any kind, of the mechanism's parameters as they are now."""
        values = dict(
            zip(self.beta, self.geometry.evaluate(list(self.beta.values()), arithmetic), strict=True)
        )
        zero = arithmetic["const"](0.0)
        return [
            [values.get((int(i), int(k)), zero) for k in self.base.dependent] for i in self.base.independent
        ]

    def describe(self, names: Sequence[str]) -> list[str]:
        """(r,) each as text, with the geometry's symbols."""
        lines = []
        for i in self.base.independent:
            text = names[i]
            for k in self.base.dependent:
                atom = self.beta.get((int(i), int(k)))
                if atom is not None:
                    text += _term(atom, names[k])
            lines.append(text)
        return lines


def find_symbolic_base(mechanism: Mechanism, convergence: Sequence[str] | None = None) -> SymbolicBase:
    """Base parameters by transfers: to the ground and at the joints that are cut to open all loops first, then from
    the tips of the tree that is left to the convergence bodies, which keep what others give. With each transfer that
    says something new, a parameter of the giving body becomes a dependent one, of those that other transfers ask for
    least.

    `convergence`: bodies; left out, those with the most neighbours. Raises UsageError for bodies that there are not.
    """
    geometry = Geometry(mechanism)
    ordered = _in_order(mechanism, find_transfers(mechanism, geometry), convergence)
    count = sum(len(parameters.get_kinds(len(b.moments))) for b in mechanism.placement.bodies.values())
    owner = [
        name
        for name, body in mechanism.placement.bodies.items()
        for _ in parameters.get_kinds(len(body.moments))
    ]
    atoms = [x for t in ordered for x in t.change.values()]
    samples = iter(geometry.sample(atoms).T)
    uses = Counter(k for t in ordered for k in t.change)
    reduced: dict[int, _Row] = {}
    """By dependent parameter, the other parameters of its change."""
    for transfer in ordered:
        row: _Row = {k: _Entry(x, next(samples)) for k, x in transfer.change.items()}
        for k in [k for k in row if k in reduced]:
            _subtract(row, row.pop(k), reduced[k])
        own = [k for k, e in row.items() if not e.is_zero_here]
        if not own:
            continue
        # What others ask for least leaves the expressions small (Markowitz's rule).
        pivot = max(own, key=lambda k: (owner[k] == transfer.source, -uses[k], abs(row[k].samples[0]), -k))
        divisor = row.pop(pivot)
        row = {k: e / divisor for k, e in row.items() if not e.is_zero}
        for other in reduced.values():
            if pivot in other:
                _subtract(other, other.pop(pivot), row)
        reduced[pivot] = row
    return _collect(geometry, count, reduced)


def _subtract(row: _Row, factor: _Entry, other: _Row) -> None:
    """row −= factor · other."""
    for k, e in other.items():
        product = factor * e
        zero = _Entry(factor.atom.graph.zero, np.zeros(len(factor.samples)))
        row[k] = row.get(k, zero) - product
        if row[k].is_zero:
            del row[k]


def _collect(geometry: Geometry, count: int, reduced: Mapping[int, _Row]) -> SymbolicBase:
    # Bodies give their geometry each for itself: where they agree, as they must, more may vanish than anywhere else.
    reduced = {k: {i: e for i, e in row.items() if not e.is_zero_here} for k, row in reduced.items()}
    null = np.array(sorted(k for k, row in reduced.items() if not row), dtype=int)
    dependent = np.array(sorted(k for k, row in reduced.items() if row), dtype=int)
    independent = np.setdiff1d(np.arange(count), list(reduced))
    place = {int(i): n for n, i in enumerate(independent)}
    beta = np.zeros((len(independent), len(dependent)))
    symbolic = {}
    for n, k in enumerate(dependent):
        for i, e in reduced[int(k)].items():
            beta[place[i], n] = -e.samples[0]
            symbolic[i, int(k)] = -e.atom
    return SymbolicBase(geometry, BaseSet(independent, dependent, null, beta), symbolic)


def _in_order(
    mechanism: Mechanism, transfers: Sequence[Transfer], convergence: Sequence[str] | None
) -> list[Transfer]:
    """Of which each is given by the body further from the convergence bodies."""
    bodies = list(mechanism.placement.bodies)
    neighbours: dict[str, set[str]] = {b: set() for b in bodies}
    for t in transfers:
        if t.target != GROUND:
            neighbours[t.source].add(t.target)
            neighbours[t.target].add(t.source)
    if convergence is None:
        most = max(map(len, neighbours.values()))
        convergence = [b for b in bodies if len(neighbours[b]) == most]
    for name in convergence:
        get_body(mechanism, name)
    distance = dict.fromkeys(convergence, 0)
    tree: set[tuple[str, str]] = set()
    queue = list(convergence)
    for root in [*convergence, *bodies]:  # a mechanism may fall into parts, held together by the ground alone
        if root not in distance:
            distance[root] = 0
            queue.append(root)
        while queue:
            body = queue.pop(0)
            for other in sorted(neighbours[body], key=bodies.index):
                if other not in distance:
                    distance[other] = distance[body] + 1
                    tree.add((other, body))
                    queue.append(other)

    def rank(t: Transfer) -> tuple[int, int]:
        if t.target == GROUND:
            return 0, 0
        if (t.source, t.target) not in tree:
            return 1, 0
        return 2, -distance[t.source]

    turned = [
        t if t.target == GROUND or distance[t.source] >= distance[t.target] else _turned(t) for t in transfers
    ]
    return sorted(turned, key=rank)


def _turned(t: Transfer) -> Transfer:
    return Transfer(t.kind, t.target, t.source, {k: -x for k, x in t.change.items()})


# -- text ---------------------------------------------------------------------------------------------------------

_SIGNS = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}


def _term(atom: Atom, name: str) -> str:
    sign = "+"
    if atom.op == "neg":
        sign, atom = "-", atom.args[0]
    elif atom.op == "const" and atom.value < 0.0:
        sign, atom = "-", atom.graph.constant(-atom.value)
    factor = "" if atom.is_constant(1.0) else f"{_text(atom, 2)} * "
    return f" {sign} {factor}{name}"


def _text(atom: Atom, binding: int) -> str:
    """In brackets where it binds less than its place asks for."""
    if atom.op == "symbol":
        return atom.name
    if atom.op == "const":
        return f"{atom.value:g}"
    if atom.op in _SIGNS:
        sign, own = _SIGNS[atom.op]
        left, right = atom.args
        closer = own + (atom.op in ("sub", "div"))
        text = f"{_text(left, own)} {sign} {_text(right, closer)}"
    elif atom.op == "neg":
        text, own = f"-{_text(atom.args[0], 3)}", 1
    else:
        text, own = f"{atom.op}({', '.join(_text(a, 0) for a in atom.args)})", 4
    return text if own >= binding else f"({text})"
