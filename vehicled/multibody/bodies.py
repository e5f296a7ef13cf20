"""Rigid bodies from points and unit vectors, in any combination that determines the body's pose.

García de Jalón and Bayo, *Kinematic and Dynamic Simulation of Multibody Systems*, chapters 2 and 4: a body's
frame is made of a point and three independent directions (one, in the plane); the constraints of rigid body
keep their lengths and angles; all other points and directions of the body are linear combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.multibody.elements import Bar, PointMass, Rigid
from vehicled.multibody.model import LocalGeometry, MechanismError, Model, Part, Value
from vehicled.multibody.natural import Combination, Frame, Inertia
from vehicled.symbolic.vector import Vector

_INDEPENDENT = 1e-3
"""Least sine of the angle between the directions of a frame."""
_EQUAL = 1e-9
"""Relative difference of such sines due to rounding."""


def add_bodies(model: Model) -> None:
    """All bodies of the description, with their constraints, masses and weights."""
    for name, body in model.description.bodies.items():
        if isinstance(body, PointMass):
            _add_point_mass(model, name, body)
        elif isinstance(body, Bar):
            _add_bar(model, name, body)
        else:
            _add_rigid(model, name, body)
    add_gravity(model)


def add_gravity(model: Model) -> None:
    """The weight of all bodies, and its potential."""
    gravity = model.description.gravity
    if gravity is None:
        return
    pull = model.value("gravity", gravity, "m/s²").atoms
    model.system.gravity(pull)
    for part in model.parts.values():
        model.potential = model.potential - part.mass * pull.dot(part.centre.position)


def _add_point_mass(model: Model, name: str, body: PointMass) -> None:
    mass, point = model.parameter(f"{name}.mass", body.mass, "kg"), model.points[body.point]
    for a, ca in point.terms.items():
        for b, cb in point.terms.items():
            model.system.add_mass(a, b, mass * ca * cb)
    model.system.bodies.append((name, 0))
    model.parts[name] = Part(name, mass, point)


def _add_bar(model: Model, name: str, body: Bar) -> None:
    geometry, inertia = describe_bar(model, name, body)
    if model.planar:
        _add(model, name, geometry, inertia)
        return
    p, q = body.points
    mass = inertia.mass
    _constrain(model, name, geometry, [_Direction(p, q, geometry.points[q])])
    first, second = model.points[p], model.points[q]
    shares = ((first, first, 1 / 3), (second, second, 1 / 3), (first, second, 1 / 6), (second, first, 1 / 6))
    for one, other, share in shares:
        (a_basic,), (b_basic,) = one.terms, other.terms
        model.system.add_mass(a_basic, b_basic, mass * share)
    model.system.bodies.append((name, 0))
    model.geometry[name] = geometry
    model.parts[name] = Part(name, mass, (first + second) * 0.5)


def describe_bar(model: Model, name: str, body: Bar) -> tuple[LocalGeometry, Inertia]:
    """Places of a bar's points on its axis x, and its inertia. Raises MechanismError if it has no length."""
    g, (p, q) = model.graph, body.points
    if body.length is None:
        a, b = model.design(p), model.design(q)
        length, number = (b.atoms - a.atoms).norm(), float(np.linalg.norm(b.numbers - a.numbers))
        if number == 0.0:
            raise MechanismError(f"{name}: {p} and {q} lie at one place, so that the bar has no length")
    else:
        length, number = model.parameter(f"{name}.length", body.length, "m"), body.length
    mass = model.parameter(f"{name}.mass", body.mass, "kg")
    zero = g.zero
    start = Value(Vector(zero, zero, zero), np.zeros(3))
    end = Value(Vector(length, zero, zero), np.array([number, 0.0, 0.0]))
    centre = Vector(0.5 * length, zero, zero)
    transverse = mass * length * length / 12.0
    along = 0.5 * transverse if model.planar else zero
    moments = Vector(along, along if model.planar else transverse, transverse)
    return LocalGeometry({p: start, q: end}), Inertia(mass, centre, moments)


def _add_rigid(model: Model, name: str, body: Rigid) -> None:
    geometry, inertia = describe_rigid(model, name, body)
    frame = _add(model, name, geometry, inertia)
    for marker, at in body.markers.items():
        model.points[marker] = frame.point(model.value(f"{name}.{marker}", at).atoms)
    for direction, value in body.directions.items():
        local = geometry.vectors[direction] = model.direction(f"{name}.{direction}", value)
        model.vectors[direction] = frame.direction(local.atoms)


def describe_rigid(model: Model, name: str, body: Rigid) -> tuple[LocalGeometry, Inertia]:
    """Places of a body's points and unit vectors, without markers and further directions, and its inertia."""
    geometry = LocalGeometry()
    if isinstance(body.points, dict):
        geometry.points = {p: model.value(f"{name}.{p}", at) for p, at in body.points.items()}
    else:
        geometry.points = {p: model.design(p) for p in body.points}
    if isinstance(body.vectors, dict):
        geometry.vectors = {v: model.direction(f"{name}.{v}", d) for v, d in body.vectors.items()}
    else:
        geometry.vectors = {v: model.design(v) for v in body.vectors}
    mass = model.parameter(f"{name}.mass", body.mass, "kg")
    centre = model.value(f"{name}.center_of_mass", body.center_of_mass).atoms
    if model.planar:
        izz = model.parameter(f"{name}.izz", body.inertia[0], "kg·m²")
        return geometry, Inertia(mass, centre, Vector(0.5 * izz, 0.5 * izz, izz))
    names = ("ixx", "iyy", "izz"), ("ixy", "iyz", "izx")
    moments, products = (
        Vector.of([model.parameter(f"{name}.{n}", v, "kg·m²") for n, v in zip(ns, values, strict=True)])
        for ns, values in zip(names, (body.inertia, body.products), strict=True)
    )
    return geometry, Inertia(mass, centre, moments, products if any(body.products) else None)


@dataclass(frozen=True)
class _Direction:
    """One direction of a frame: from one point to another, or a unit vector (`start` None)."""

    start: str | None
    end: str
    value: Value

    @property
    def names(self) -> set[str]:
        return {self.end} if self.start is None else {self.start, self.end}

    def combination(self, model: Model) -> Combination:
        if self.start is None:
            return model.vectors[self.end]
        return model.points[self.end] - model.points[self.start]

    def __str__(self) -> str:
        return self.end if self.start is None else f"{self.start}–{self.end}"


def _add(model: Model, name: str, geometry: LocalGeometry, inertia: Inertia) -> Frame:
    """A body with its frame, constraints and mass."""
    origin, at_origin = next(iter(geometry.points.items()))
    directions = _choose(model, name, geometry)
    _constrain(model, name, geometry, directions)
    combinations = [d.combination(model) for d in directions]
    local = [d.value.atoms for d in directions]
    if model.planar:
        (d,) = local
        zero, one = model.graph.zero, model.graph.one
        combinations += [model.system.turned(combinations[0]), model.vectors["z"]]
        local += [Vector(-d.y, d.x, zero), Vector(zero, zero, one)]
    frame = geometry.frame = Frame(model.points[origin], combinations, (at_origin.atoms, local))
    basis = {origin}.union(*(d.names for d in directions))
    _constrain_others(model, name, geometry, basis)
    model.geometry[name] = geometry
    model.system.body(name, frame, inertia)
    model.parts[name] = Part(name, inertia.mass, frame.point(inertia.centre), frame, inertia)
    return frame


def _choose(model: Model, name: str, geometry: LocalGeometry) -> list[_Direction]:
    """Independent directions that the body has, and unit vectors added for those that are missing."""
    (origin, at_origin), *others = geometry.points.items()
    candidates = [_Direction(None, v, value) for v, value in geometry.vectors.items()]
    for p, at in others:
        apart = Value(at.atoms - at_origin.atoms, at.numbers - at_origin.numbers)
        if not np.any(apart.numbers):
            raise MechanismError(f"{name}: {origin} and {p} lie at one place of the body")
        candidates.append(_Direction(origin, p, apart))
    wanted = 1 if model.planar else 3
    chosen: list[_Direction] = []
    span = np.zeros((0, 3))
    while len(chosen) < wanted and candidates:
        units = [c.value.numbers / np.linalg.norm(c.value.numbers) for c in candidates]
        left = [u - span.T @ (span @ u) for u in units]
        sizes = [float(np.linalg.norm(u)) for u in left]
        # The first of equal ones: which of them is largest by rounding would depend on the units.
        best = int(np.argmax(np.array(sizes) >= (1.0 - _EQUAL) * max(sizes)))
        if sizes[best] < _INDEPENDENT:
            break
        chosen.append(candidates.pop(best))
        span = np.vstack([span, left[best] / sizes[best]])
    rotation = find_rotation(model, geometry)
    for value in _missing(model, [c.value for c in chosen], wanted):
        aux = f"{name}.v{len(chosen) + 1}"
        model.vectors[aux] = model.basic(aux, (rotation @ value.numbers)[: model.dimension], point=False)
        geometry.vectors[aux] = value
        chosen.append(_Direction(None, aux, value))
    return chosen


def _missing(model: Model, chosen: Sequence[Value], wanted: int) -> list[Value]:
    """Unit vectors, in the body's axes, that complete the chosen directions."""
    if len(chosen) == wanted:
        return []
    if not chosen:
        return [model.constant(axis) for axis in np.eye(3)[:wanted]]
    if len(chosen) == 2:
        return [_unit_cross(*chosen)]
    (along,) = chosen
    first = _unit_cross(along, model.constant(np.eye(3)[np.argmin(np.abs(along.numbers))]))
    return [first, _unit_cross(along, first)]


def _unit_cross(a: Value, b: Value) -> Value:
    numbers = np.cross(a.numbers, b.numbers)
    return Value(a.atoms.cross(b.atoms).unit(), numbers / np.linalg.norm(numbers))


def find_rotation(model: Model, geometry: LocalGeometry) -> np.ndarray:
    """(3, 3) rotation from the body's axes to the ground's, by the description of the start.

    Kabsch's fit of directions; the least rotation if they leave it undetermined.
    """
    (origin, at_origin), *others = geometry.points.items()
    pairs = [(model.place(v), value.numbers) for v, value in geometry.vectors.items()]
    pairs += [(model.place(p) - model.place(origin), at.numbers - at_origin.numbers) for p, at in others]
    moment = 1e-6 * np.eye(3)
    for there, here in pairs:
        size = np.linalg.norm(there) * np.linalg.norm(here)
        if size > 0:
            moment += np.outer(there, here) / size
    u, _, vt = np.linalg.svd(moment)
    rotation: np.ndarray = u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt
    return rotation


def _constrain(model: Model, name: str, geometry: LocalGeometry, directions: Sequence[_Direction]) -> None:
    """Constraints of the directions' lengths and angles, unless another body has the same ones."""
    for i, a in enumerate(directions):
        for b in directions[i:]:
            if _is_kept(model, name, geometry, a, b):
                continue
            product = a.combination(model).position.dot(b.combination(model).position)
            if a is b and a.start is None:
                if a.end not in model.unit_vectors:
                    model.unit_vectors.add(a.end)
                    model.constraint(f"{name}: {a} is a unit vector", product - 1.0)
            else:
                label = f"length of {a}" if a is b else f"angle of {a} and {b}"
                model.constraint(f"{name}: {label}", product - a.value.atoms.dot(b.value.atoms))


def _is_kept(model: Model, name: str, geometry: LocalGeometry, a: _Direction, b: _Direction) -> bool:
    """Whether an earlier body keeps this angle or length constant. Raises MechanismError if its value differs."""
    names = a.names | b.names
    for other_name, other in model.geometry.items():
        held = {**other.points, **other.vectors}
        if not names <= set(held):
            continue

        def there(d: _Direction, held: dict[str, Value] = held) -> np.ndarray:
            at = held[d.end].numbers
            return at if d.start is None else at - held[d.start].numbers

        mine, theirs = float(a.value.numbers @ b.value.numbers), float(there(a) @ there(b))
        scale = np.linalg.norm(a.value.numbers) * np.linalg.norm(b.value.numbers)
        if abs(mine - theirs) > 1e-9 * scale:
            what = f"the length of {a}" if a is b else f"the angle of {a} and {b}"
            raise MechanismError(f"{name}: {what} differs from that in {other_name}, which also has them")
        return True
    return False


def _constrain_others(model: Model, name: str, geometry: LocalGeometry, basis: set[str]) -> None:
    """Constrain the points and vectors outside the frame to move with it."""
    assert geometry.frame is not None
    followers = [(p, model.points[p], geometry.frame.point(v.atoms)) for p, v in geometry.points.items()]
    followers += [
        (v, model.vectors[v], geometry.frame.direction(d.atoms)) for v, d in geometry.vectors.items()
    ]
    for label, is_there, should_be in followers:
        if label in basis:
            continue
        difference = is_there.position - should_be.position
        for axis, component in zip("xyz"[: model.dimension], difference, strict=False):
            model.constraint(f"{name}: {label} along {axis}", component)
