"""Bodies in relative coordinates: the joints of their tree, with constraints that close the loops.

Each body is connected to an earlier one (`topology`) by an angle, a displacement, both or neither. If an
angle or distance of the description is that of such a joint, it is its coordinate; others are related to the
tree by a constraint, as in natural coordinates. Points and vectors that bodies share in addition to the
joints of the tree, and all other joints, become constraints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from vehicled.multibody.bodies import add_gravity, describe_bar, describe_rigid, find_rotation
from vehicled.multibody.description import Description
from vehicled.multibody.elements import Bar, CoordinateForce, PointMass, Rigid, Segment
from vehicled.multibody.joints import SQUARE
from vehicled.multibody.model import JointSide, LocalGeometry, MechanismError, Part, Value
from vehicled.multibody.natural import Combination, Frame, Inertia
from vehicled.multibody.relative import AXES, Base, Point
from vehicled.multibody.relative_model import RelativeModel
from vehicled.multibody.system import Coordinate
from vehicled.multibody.topology import GROUND, TreeJoint, find_tree
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector


@dataclass(frozen=True)
class _Placed:
    """A body in the tree, or the ground."""

    base: Base
    points: dict[str, Point]
    rotation: np.ndarray
    """(3, 3) approximate rotation to the world's axes at the start."""
    places: dict[str, Value]
    """Places of its points and markers, in its axes."""
    directions: dict[str, Value]

    def local(self, segment: Segment) -> Value | None:
        """A direction in the body's axes, if it is fixed in the body; else None."""
        if isinstance(segment, str):
            return self.directions.get(segment)
        a, b = (self.places.get(p) for p in segment)
        return None if a is None or b is None else Value(b.atoms - a.atoms, b.numbers - a.numbers)


@dataclass(frozen=True)
class _Aligned:
    """Fixed rotations of a body's axes, after which the axis of a joint is axis number `axis`."""

    axis: int
    turns: tuple[tuple[int, Atom], ...]
    rotation: np.ndarray
    """(3, 3) product of these rotations, from aligned axes to the body's."""

    def is_across(self, direction: Value) -> bool:
        """Whether a direction of the body is at right angles to the axis."""
        along = float(self.rotation[:, self.axis] @ direction.numbers)
        return abs(along) <= SQUARE * float(np.linalg.norm(direction.numbers))


_ALIGNED = 1e-9
"""Angle, rad, up to which axes count as parallel at the start."""


def add_tree(model: RelativeModel) -> None:
    """Add all bodies of the description, by the tree of their joints.

    Raises MechanismError, naming the part, if it has no relative coordinates.
    """
    _refuse(model.description)
    _Builder(model).build()
    add_gravity(model)


def _refuse(description: Description) -> None:
    for name in description.velocities:
        raise MechanismError(
            f"velocities.{name}: points have no coordinates of their own in relative coordinates; "
            "give the rates of angles and distances"
        )
    scalars = {*description.angles, *description.distances}
    used = [("independent", name) for name in description.independent or ()]
    used += [(f"drives.{name}", name) for name in description.drives]
    for force, load in description.forces.items():
        if isinstance(load, CoordinateForce):
            used.append((f"forces.{force}", load.coordinate))
    for where, name in used:
        if name not in scalars:
            raise MechanismError(
                f"{where}: expected an angle or a distance in relative coordinates, got '{name}'"
            )
    for name in description.bodies:
        if description.space == "spatial" and isinstance(description.bodies[name], Bar):
            raise MechanismError(
                f"{name}: a bar in space has no orientation, which relative coordinates require"
            )


class _Builder:
    """Adds body after body, from the ground outwards."""

    def __init__(self, model: RelativeModel) -> None:
        self.model, self.system, self.tree = model, model.system, model.system.tree
        ground = model.geometry[GROUND]
        points = {
            p: self.tree.point(p, self.tree.ground, self.tree.world, at.atoms)
            for p, at in ground.points.items()
        }
        self.placed = {GROUND: _Placed(self.tree.world, points, np.eye(3), ground.points, ground.vectors)}
        self.points = {name: (GROUND, point) for name, point in points.items()}
        """By name: the first body that has the point, and its place in the tree."""

    def build(self) -> None:
        model, description = self.model, self.model.description
        joints, free = find_tree(description)
        for name in free:
            self._add_free(name)
        for joint in joints:
            self._hang(joint)
        for name, body in description.bodies.items():
            if isinstance(body, PointMass):
                self._add_point_mass(name, body)
        for section, names, known in (
            ("points", description.points, model.points),
            ("vectors", description.vectors, model.vectors),
        ):
            for name in names:
                if name not in known:
                    raise MechanismError(
                        f"{section}.{name}: expected in a body, as relative coordinates are of bodies"
                    )
        if not self.tree.coordinates:
            raise MechanismError("nothing can move: bodies that are fixed have no relative coordinates")
        model.parts = {name: model.parts[name] for name in description.bodies}
        model.points = _in_order(model.points, description.ground.points, description.points)
        model.vectors = _in_order(model.vectors, AXES, description.ground.vectors, description.vectors)

    # -- joints of the tree ---------------------------------------------------------------------------

    def _hang(self, joint: TreeJoint) -> None:
        """Add a body to its parent: rotations to the axis, displacement, angle, rotations to the axes of the body."""
        model, tree, name = self.model, self.tree, joint.body
        parent = self.placed[joint.parent]
        if joint.name is not None:
            model.met[joint.name] = joint
        places, directions, inertia = self._describe(name)
        body = _Placed(parent.base, {}, self._find_rotation(name, places, directions), places, directions)
        inner, outer = self._align(joint, parent, body)
        base, point = parent.base, parent.points[joint.points[0]]
        for axis, angle in inner.turns:
            base = self._turn(name, base, axis, angle)
        rotation = parent.rotation @ inner.rotation
        if joint.slides:
            c = self._slide(joint, body, rotation[:, inner.axis])
            model.joint_sides[c.name] = JointSide(name, joint.parent, joint.points[1], turns=False)
            point = tree.point(f"{name}.slide", point, base, None, {AXES[inner.axis]: c})
        if joint.turns == 3:
            base = self._turn_freely(name, joint.parent, joint.points[1], base, rotation.T @ body.rotation)
            rotation = body.rotation
        elif joint.turns:
            turned = _angle_of(rotation.T @ body.rotation @ outer.rotation, inner.axis)
            c, offset = self._angle(joint, parent, body, inner, outer, turned)
            model.joint_sides[c.name] = JointSide(name, joint.parent, joint.points[1], turns=True)
            base = tree.base(name, base, AXES[inner.axis], c, None if offset.is_constant(0.0) else offset)
            rotation = rotation @ _rotation(inner.axis, model.guess[c.index] + self._number(offset))
        elif joint.normals is not None:
            u, v = (b.directions[n] for b, n in zip((parent, body), joint.normals, strict=True))
            for aligned, normal, k in ((inner, u, 0), (outer, v, 1)):
                if joint.axes is not None and not aligned.is_across(normal):
                    raise MechanismError(
                        f"{joint.name}: {joint.normals[k]} is not at right angles to {joint.axes[k]}"
                    )
            v = _reversed(v) if (parent.rotation @ u.numbers) @ (body.rotation @ v.numbers) < 0.0 else v
            angle = self._phase(inner, u) - self._phase(outer, v)
            base = self._turn(name, base, inner.axis, angle)
            rotation = rotation @ _rotation(inner.axis, self._number(angle))
        for axis, angle in reversed(outer.turns):
            base = self._turn(name, base, axis, -angle)
        self._add(
            replace(body, base=base, rotation=rotation @ outer.rotation.T),
            name,
            joint.points[1],
            point,
            inertia,
            joint,
        )

    def _add_free(self, name: str) -> None:
        """Add a body to which no joint leads: displacements along the ground's directions, and angles."""
        model, tree = self.model, self.tree
        places, directions, inertia = self._describe(name)
        rotation = self._find_rotation(name, places, directions)
        anchor = next(iter(places))
        point = self._slide_freely(name, name, anchor)
        if model.planar:
            turned = self._coordinate(f"{name}.angle", _angle_of(rotation, 2))
            model.joint_sides[turned.name] = JointSide(name, GROUND, anchor, turns=True)
            base = tree.base(name, tree.world, "z", turned)
        else:
            base = self._turn_freely(name, GROUND, anchor, tree.world, rotation)
        self._add(_Placed(base, {}, rotation, places, directions), name, anchor, point, inertia)

    def _slide_freely(self, label: str, body: str, point: str) -> Point:
        """A point of a body, with displacements `LABEL.x` … from the ground's origin."""
        model, tree = self.model, self.tree
        start = model.place(point)[: model.dimension]
        slides = {a: self._coordinate(f"{label}.{a}", float(x)) for a, x in zip(AXES, start, strict=False)}
        for c in slides.values():
            model.joint_sides[c.name] = JointSide(body, GROUND, point, turns=False)
        return tree.point(f"{label}.slide", tree.ground, tree.world, None, slides)

    def _turn_freely(self, name: str, parent: str, point: str, base: Base, turned: np.ndarray) -> Base:
        """Three angles about x, y and z from the body's orientation at the start; singular at 90° about y."""
        z, x = np.arctan2(turned[1, 0], turned[0, 0]), np.arctan2(turned[2, 1], turned[2, 2])
        y = np.arctan2(-turned[2, 0], np.hypot(turned[2, 1], turned[2, 2]))
        for axis, angle in zip("zyx", (z, y, x), strict=True):
            if abs(angle) > _ALIGNED:
                base = self.tree.base(name, base, axis, self.model.graph.constant(float(angle)))
        for axis in AXES:
            c = self._coordinate(f"{name}.angle_{axis}", 0.0)
            self.model.joint_sides[c.name] = JointSide(name, parent, point, turns=True)
            base = self.tree.base(name, base, axis, c)
        return base

    def _coordinate(self, name: str, start: float) -> Coordinate:
        model = self.model
        model.guess.append(start)
        return self.system.joint_coordinate(name, model.graph.constant(start))

    def _slide(self, joint: TreeJoint, body: _Placed, along: np.ndarray) -> Coordinate:
        """The displacement of a joint: a distance of the description, if there is one for it."""
        model, (first, second) = self.model, joint.points
        # A marker has no place of its own in the description.
        near = second if second in model.places else next(p for p in body.places if p in model.places)
        apart = body.places[second].numbers - body.places[near].numbers
        there = model.place(near) + body.rotation @ apart
        start = float((there - model.place(first)) @ along)
        assert joint.axes is not None
        for name, distance in model.description.distances.items():
            is_same = distance.points == joint.points and distance.along == joint.axes[0]
            if is_same and name not in model.joint_sides:
                return self._coordinate(name, start if distance.start is None else distance.start)
        return self._coordinate(f"{joint.body}.slide", start)

    def _angle(
        self,
        joint: TreeJoint,
        parent: _Placed,
        body: _Placed,
        inner: _Aligned,
        outer: _Aligned,
        turned: float,
    ) -> tuple[Coordinate, Atom]:
        """The angle of a joint and its constant offset: an angle of the description, if there is one for it."""
        model = self.model
        axes = (joint.axes[0],) if joint.axes else (None, "z")
        for name, angle in model.description.angles.items():
            u, v = parent.local(angle.between[0]), body.local(angle.between[1])
            if u is None or v is None or angle.about not in axes or name in model.joint_sides:
                continue
            if not (inner.is_across(u) and outer.is_across(v)):
                continue
            offset = self._phase(inner, u) - self._phase(outer, v)
            start = float(np.angle(np.exp(1j * (turned - self._number(offset)))))
            if angle.start is None:
                return self._coordinate(name, start), offset
            if np.cos(angle.start - start) < 0.0:
                raise MechanismError(
                    f"cannot be assembled: angle {name} is {angle.start:.4g} rad at the start, "
                    "but the places of the points lie on the other side"
                )
            return self._coordinate(name, angle.start), offset
        return self._coordinate(f"{joint.body}.angle", turned), model.graph.zero

    # -- axes of joints -------------------------------------------------------------------------------

    def _align(self, joint: TreeJoint, parent: _Placed, body: _Placed) -> tuple[_Aligned, _Aligned]:
        """The axis of a joint in both bodies."""
        if joint.axes is None or joint.turns == 3:
            return (_Aligned(2, (), np.eye(3)),) * 2
        a, b = parent.directions[joint.axes[0]], body.directions[joint.axes[1]]
        if (parent.rotation @ a.numbers) @ (body.rotation @ b.numbers) < 0.0:
            b = _reversed(b)
        for axis in range(3):
            if all(x.is_constant(float(k == axis)) for v in (a, b) for k, x in enumerate(v.atoms)):
                return (_Aligned(axis, (), np.eye(3)),) * 2
        return self._turn_to(a), self._turn_to(b)

    def _turn_to(self, along: Value) -> _Aligned:
        """Rotations that align an axis with a direction: x in the plane, z in space."""
        g, (x, y, z) = self.model.graph, along.atoms
        if self.model.planar:
            turns: tuple[tuple[int, Atom], ...] = ((2, self._atan2(y, x)),)
        else:
            turns = ((2, self._atan2(y, x)), (1, self._atan2(g.sqrt(x * x + y * y), z)))
        rotation = np.eye(3)
        for axis, angle in turns:
            rotation = rotation @ _rotation(axis, self._number(angle))
        return _Aligned(0 if self.model.planar else 2, turns, rotation)

    def _phase(self, aligned: _Aligned, direction: Value) -> Atom:
        """Angle of a body's direction about the axis of a joint."""
        v = list(direction.atoms)
        g = self.model.graph
        for axis, angle in aligned.turns:
            i, j = (axis + 1) % 3, (axis + 2) % 3
            s, c = g.sin(angle), g.cos(angle)
            v[i], v[j] = c * v[i] + s * v[j], c * v[j] - s * v[i]
        return self._atan2(v[(aligned.axis + 2) % 3], v[(aligned.axis + 1) % 3])

    def _atan2(self, y: Atom, x: Atom) -> Atom:
        """atan2(y, x) of atoms that depend on parameters only; a constant if y is zero for any parameters."""
        g = self.model.graph
        if y.is_constant(0.0):
            return g.constant(0.0 if self._number(x) >= 0.0 else np.pi)
        return g.atan2(y, x)

    def _number(self, atom: Atom) -> float:
        """Value of an atom of parameters, with these as described."""
        model = self.model
        values = {s: model.graph.constant(model.values[n]) for n, s in model.symbols.items()}
        return float(model.graph.substitute([atom], values)[0].value)

    def _turn(self, name: str, base: Base, axis: int, angle: Atom) -> Base:
        return base if angle.is_constant(0.0) else self.tree.base(name, base, AXES[axis], angle)

    # -- bodies ---------------------------------------------------------------------------------------

    def _describe(self, name: str) -> tuple[dict[str, Value], dict[str, Value], Inertia]:
        """Places of points and markers, unit vectors, and inertia."""
        model, body = self.model, self.model.description.bodies[name]
        if isinstance(body, Bar):
            geometry, inertia = describe_bar(model, name, body)
            model.geometry[name] = geometry
            return geometry.points, {}, inertia
        assert isinstance(body, Rigid)
        geometry, inertia = describe_rigid(model, name, body)
        (origin, start), *others = geometry.points.items()
        for p, at in others:
            if not np.any(at.numbers - start.numbers):
                raise MechanismError(f"{name}: {origin} and {p} lie at one place of the body")
        for direction, value in body.directions.items():
            geometry.vectors[direction] = model.direction(f"{name}.{direction}", value)
        model.geometry[name] = geometry
        markers = {m: model.value(f"{name}.{m}", at) for m, at in body.markers.items()}
        return geometry.points | markers, geometry.vectors, inertia

    def _find_rotation(self, name: str, places: dict[str, Value], directions: dict[str, Value]) -> np.ndarray:
        """(3, 3) approximate rotation from the body's axes to the ground's, from the given places."""
        model = self.model
        given = LocalGeometry(
            {p: at for p, at in places.items() if p in model.places},
            {v: at for v, at in directions.items() if v in model.places},
        )
        if not given.points:
            return np.eye(3)
        if not model.planar:
            return find_rotation(model, given)
        (origin, start), *others = given.points.items()
        pairs = [(model.place(v), at.numbers) for v, at in given.vectors.items()]
        pairs += [(model.place(p) - model.place(origin), at.numbers - start.numbers) for p, at in others]
        turned = sum(complex(*there[:2]) * complex(*here[:2]).conjugate() for there, here in pairs)
        return _rotation(2, float(np.angle(turned)))

    def _add(
        self,
        body: _Placed,
        name: str,
        anchor: str,
        at: Point,
        inertia: Inertia,
        joint: TreeJoint | None = None,
    ) -> None:
        """Add a body whose point `anchor` is that point of the tree, with constraints for whatever else it shares."""
        model, system, tree = self.model, self.system, self.tree
        start = body.places[anchor]
        for p, place in body.places.items():
            body.points[p] = (
                at if p == anchor else tree.point(f"{name}.{p}", at, body.base, place.atoms - start.atoms)
            )
        self.placed[name] = body
        self._add_mass(name, at, body.base, inertia, inertia.centre - start.atoms)
        directions = [system.directed(body.base, k) for k in range(model.dimension)]
        if model.planar:
            directions.append(model.vectors["z"])
        frame = Frame(system.placed(at), directions, (start.atoms, [tree.unit(k) for k in range(3)]))
        model.geometry[name].frame = frame
        model.parts[name] = Part(name, inertia.mass, frame.point(inertia.centre), frame, inertia)
        for p, point in body.points.items():
            here = system.placed(point)
            if joint is not None and joint.points == (p, p):
                continue  # belongs to the parent, and is already closed
            if p in model.points:
                self._close(name, p, model.points[p].position - here.position)
            else:
                model.points[p], self.points[p] = here, (name, point)
        for v, direction in body.directions.items():
            along = frame.direction(direction.atoms)
            if v not in model.vectors:
                model.vectors[v] = along
            elif joint is None or joint.axes != (v, v):
                self._keep_parallel(name, v, along)

    def _add_mass(self, name: str, at: Point, base: Base, inertia: Inertia, centre: Vector) -> None:
        """Add the mass of a body. `centre`: centre of mass, from the point in axes of the base."""
        m, (x, y, z) = inertia.mass, centre
        moments = inertia.moments + Vector(y * y + z * z, z * z + x * x, x * x + y * y) * m
        products = Vector(x * y, y * z, z * x) * -m
        if inertia.products is not None:
            products = products + inertia.products
        self.tree.body(name, at, base, m, moments, centre, products)

    def _add_point_mass(self, name: str, body: PointMass) -> None:
        model, tree = self.model, self.tree
        mass = model.parameter(f"{name}.mass", body.mass, "kg")
        if body.point not in model.points:
            point = self._slide_freely(body.point, name, body.point)
            model.points[body.point], self.points[body.point] = self.system.placed(point), (GROUND, point)
        owner, at = self.points[body.point]
        if at.parent is not None:
            tree.body(name, at, self.placed[owner].base, mass, tree.none)
        model.parts[name] = Part(name, mass, model.points[body.point])

    def _close(self, name: str, point: str, apart: Vector) -> None:
        """Constraints that keep a shared point together if the tree does not."""
        for axis, component in zip("xyz"[: self.model.dimension], apart, strict=False):
            self.model.constraint(f"{name}: {point} along {axis}", component)

    def _keep_parallel(self, name: str, vector: str, along: Combination) -> None:
        """Constraints that keep a shared unit vector together."""
        model = self.model
        there = model.vectors[vector]
        if model.planar:
            model.constraint(f"{name}: {vector}", model.cross(there.position, along.position))
            return
        for n, normal in enumerate(model.normals(name, vector), 1):
            model.constraint(f"{name}: {vector}, {n}", normal.position.dot(along.position))


def _in_order(items: dict[str, Combination], *groups: Iterable[str]) -> dict[str, Combination]:
    """The items of these groups first, in the order of the groups."""
    first = {name: items[name] for group in groups for name in group}
    return first | items


def _reversed(value: Value) -> Value:
    return Value(-value.atoms, -value.numbers)


def _rotation(axis: int, angle: float) -> np.ndarray:
    """(3, 3) rotation about an axis of number 0, 1 or 2."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    matrix, s, c = np.eye(3), np.sin(angle), np.cos(angle)
    matrix[i, i] = matrix[j, j] = c
    matrix[j, i], matrix[i, j] = s, -s
    return matrix


def _angle_of(rotation: np.ndarray, axis: int) -> float:
    """Angle (rad) of a rotation about that axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    return float(np.arctan2(rotation[j, i], rotation[i, i]))
