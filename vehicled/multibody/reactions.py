"""Reactions of joints on bodies, as forces and torques in world axes.

A joint made by constraints exerts −Φ_qᵀ λ; force and torque on the second body follow from the derivatives of its
constraints by a translation and a rotation of that body alone. Bodies that share a point or a direction have no
constraint there: the reactions between them follow from Newton's and Euler's equations of each body with the known
forces from loads and λ (García de Jalón and Bayo, *Kinematic and Dynamic Simulation of Multibody Systems*, section
6.2). Reactions that redundant constraints leave undetermined are those of least squares, in which coordinates and
units count: `find_undetermined` names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vehicled.multibody import problems
from vehicled.multibody.body_operators import Forces, calc_point_map, calc_twist_map
from vehicled.multibody.elements import (
    Actuator,
    CoordinateForce,
    DifferenceSpring,
    Equation,
    Force,
    PointMass,
    Rigid,
    Segment,
    Spring,
    Torque,
)
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import JointSide
from vehicled.multibody.switches import find_constraints
from vehicled.multibody.topology import GROUND, TreeJoint

_CUT = 1e-10
"""Singular values of the equilibrium equations below this share of the largest count as zero."""
_IDLE = 1e-6
"""Share of the largest reaction of a combination above which a reaction takes part in it."""
_NOTHING = 1e-9
"""J, for force times the mechanism's size, with multipliers scaled to 1 J: below it a combination within
bodies has no reaction at a joint, except for rounding."""
_AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Reaction:
    """Force and torque on one side of a joint."""

    joint: str
    """A joint of the description, or the point or direction that bodies share."""
    body: str | None
    """The body on which the joint acts, that of its second point. None if that point is shared by bodies:
    then the force acts on the point, and the torque on the body of the joint's second axis."""
    point: str | None
    """Point at which the force acts; None for a direction that bodies share, which transmits torques only."""
    force: np.ndarray
    """(3,) N"""
    torque: np.ndarray
    """(3,) N·m"""


def calc_generalised_reaction(mechanism: Mechanism, name: str) -> np.ndarray:
    """(n,) −Φ_qᵀ λ of a constraint, or of all those of a joint, with the present q̈.

    Raises UsageError if there is none of that name.
    """
    declared = find_constraints(mechanism, name)
    places = np.cumsum(mechanism.enabled) - 1
    rows = places[declared[mechanism.enabled[declared]]]
    multipliers = problems.calc_multipliers(mechanism)
    forces: np.ndarray = -mechanism.calc_jacobian()[rows].T @ multipliers[rows]
    return forces


def calc_reactions(mechanism: Mechanism, forces: Forces | None = None) -> list[Reaction]:
    """Reactions at every joint, with q̈ of `solve_dynamics` or a step.

    One per joint of the description (except equations, which have no place), then one per body at each point
    and direction that bodies share.

    The opposite acts on the first body of a joint, at the same place. `forces`: those in `Mechanism.applied`,
    so that they are assigned to bodies; the rest of `applied` acts on coordinates. Loads at a shared point
    act on the point, not on one of its bodies.
    """
    balance = _Balance(mechanism)
    _act_loads(mechanism, balance)
    on_coordinates = mechanism.applied.copy()
    if forces is not None:
        on_coordinates += forces.on_coordinates - forces.generalised
        for body, wrench in forces.on_bodies.items():
            balance.wrench(body, wrench[:3], wrench[3:])
        for point, force in forces.on_points.items():
            balance.force(point, force)
    balance.generalised(on_coordinates)
    at_joints, shared = _react(mechanism, balance)
    order = {name: k for k, name in enumerate(mechanism.description.joints)}
    return [*sorted(at_joints, key=lambda r: order[r.joint]), *shared]


def find_undetermined(mechanism: Mechanism) -> list[str]:
    """Joints, and points and directions that bodies share, whose reactions are not unique at the present position.

    Some of their forces and torques balance each other for any loads and motion, as those of a bar clamped
    between two walls. For these, `calc_reactions` returns one of many solutions; for others, the only one.
    """
    return list(find_undetermined_components(mechanism))


def find_undetermined_components(mechanism: Mechanism) -> dict[str, list[str]]:
    """For each result of `find_undetermined`, the components that are not unique: `force.x` … `torque.z`.

    In ground axes at the present position. A component that is not listed is unique. If the forces that
    balance each other are oblique to the axes, all their components are listed.
    """
    balance = _Balance(mechanism)
    size = mechanism.size
    scaled = problems.calc_scaled_jacobian(mechanism)
    ways = balance.find_idle()
    for multipliers in scipy.linalg.null_space(scaled.T, rcond=problems.RANK_TOLERANCE).T:
        balance.unload(multipliers / mechanism.constraint_units)
        at_joints, shared = _react(mechanism, balance)
        ways.append(at_joints + shared)
    names = [*mechanism.description.joints, *balance.on_points, *balance.on_vectors]
    found: dict[str, np.ndarray] = {}
    for way in ways:
        sizes = {r.joint: np.zeros(6) for r in way}
        for r in way:
            work = np.abs(np.concatenate([size * r.force, r.torque]))
            sizes[r.joint] = np.maximum(sizes[r.joint], work)
        most = max((float(work.max()) for work in sizes.values()), default=0.0)
        for name, work in sizes.items():
            found[name] = found.get(name, np.zeros(6, dtype=bool)) | (work > max(_IDLE * most, _NOTHING))
    labels = [f"{kind}.{axis}" for kind in ("force", "torque") for axis in _AXES]
    return {
        name: [label for label, on in zip(labels, found[name], strict=True) if on]
        for name in names
        if name in found and found[name].any()
    }


def _react(mechanism: Mechanism, balance: _Balance) -> tuple[list[Reaction], list[Reaction]]:
    """Reactions at joints, and at shared points and directions, from multipliers and known forces."""
    reactions = list(_act_joints(mechanism, balance))
    _act_relative_coordinates(mechanism, balance)
    balance.generalised(_calc_generic(mechanism, balance.multipliers))
    met, shared = balance.solve()
    return reactions + met, shared


@dataclass(frozen=True)
class _Unknown:
    """A reaction of unknown size: a combination of forces at a point and of torques, on a body."""

    name: str
    body: str
    parent: str | None
    """Body on which the opposite acts; None if that is a point or direction that bodies share."""
    point: str | None
    forces: np.ndarray
    """(3, k) directions of unknown forces"""
    torques: np.ndarray
    """(3, l) directions of unknown torques"""

    @property
    def size(self) -> int:
        """Number of unknowns, k + l."""
        return int(self.forces.shape[1] + self.torques.shape[1])


class _Balance:
    """Newton's and Euler's equations of all bodies, with the known forces on them."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.multipliers = problems.calc_multipliers(mechanism)
        model, bodies = mechanism.compiled.model, mechanism.description.bodies
        self.point_owners: dict[str, list[str]] = {p: [] for p in model.points}
        self.vector_owners: dict[str, list[str]] = {v: [] for v in model.vectors}
        for name, geometry in model.geometry.items():
            for p in geometry.points:
                self.point_owners[p].append(name)
            for v in geometry.vectors:
                self.vector_owners[v].append(name)
        for name, body in bodies.items():
            if isinstance(body, PointMass):
                self.point_owners[body.point].append(name)
            elif isinstance(body, Rigid):
                for marker in body.markers:
                    self.point_owners[marker].append(name)
        self.places = {p: x.copy() for p, x in mechanism.calc_point_positions().items()}
        self.known = {name: np.zeros(6) for name in mechanism.placement.bodies}
        """By body: torque about the world's origin and force, less those required by the motion."""
        self.on_points = {p: np.zeros(3) for p, owners in self.point_owners.items() if len(owners) > 1}
        self.on_vectors = {v: np.zeros(3) for v, owners in self.vector_owners.items() if len(owners) > 1}
        gravity = np.zeros(3)
        if mechanism.description.gravity is not None:
            for k, axis in enumerate("xyz"[: model.dimension]):
                gravity[k] = mechanism.get_parameter(f"gravity.{axis}")
        for name, placed in mechanism.placement.bodies.items():
            x, taken = placed.place(mechanism.q), placed.moments @ placed.accelerate(mechanism.qdd)
            self.wrench(name, -np.cross(x, taken).sum(axis=0), -taken[0])
            self.wrench(name, np.cross(placed.moments[0] @ x, gravity), placed.moments[0, 0] * gravity)

    # -- known forces ------------------------------------------------------------------------------------------

    def wrench(self, body: str, torque: np.ndarray, force: np.ndarray) -> None:
        """Add a force on a body, and a torque about the origin."""
        if body != GROUND:
            self.known[body] += np.concatenate([torque, force])

    def force(self, point: str, force: np.ndarray) -> None:
        """Add a force at a point."""
        owners = self.point_owners[point]
        if len(owners) > 1:
            self.on_points[point] += force
        elif owners:
            self.wrench(owners[0], np.cross(self.places[point], force), force)

    def torque(self, segments: Iterable[Segment], torque: np.ndarray) -> None:
        """Add a torque on the body that has all of these directions."""
        if not np.any(torque):
            return
        owners = self.owners(segments)
        first = next(iter(segments))
        if len(owners) == 1 or (owners and not isinstance(first, str)):
            self.wrench(owners[0], torque, np.zeros(3))
        elif isinstance(first, str):
            self.on_vectors[first] += torque
        else:
            # The points belong to different bodies: a couple.
            start, end = first
            apart = self.places[end] - self.places[start]
            force = np.cross(torque, apart) / (apart @ apart)
            self.force(end, force)
            self.force(start, -force)

    def owners(self, segments: Iterable[Segment]) -> list[str]:
        """The bodies that have all of these directions."""
        having = [
            self.vector_owners[s]
            if isinstance(s, str)
            else [b for b in self.point_owners[s[0]] if b in self.point_owners[s[1]]]
            for s in segments
        ]
        return [b for b in having[0] if all(b in others for others in having)]

    def generalised(self, forces: np.ndarray) -> None:
        """Add forces on the coordinates (n,): at points, and as torques on directions.

        Those at joints act on both bodies. The constraints of other angles and distances transmit their
        forces.
        """
        mechanism = self.mechanism
        model = mechanism.compiled.model
        by_name: dict[str, np.ndarray] = {}
        for name, f in zip(mechanism.coordinate_names, forces, strict=True):
            vector, _, axis = name.rpartition(".")
            if name in model.joint_sides:
                self._act_at_joint(name, model.joint_sides[name], f)
            elif vector and f:
                by_name.setdefault(vector, np.zeros(3))["xyz".index(axis)] = f
        for name, force in by_name.items():
            if name in model.points:
                self.force(name, force)
            else:
                self.torque([name], np.cross(mechanism.placement.vector(name, mechanism.q), force))

    def _act_at_joint(self, coordinate: str, side: JointSide, f: float) -> None:
        """Add a force along the coordinate of a joint: on the body and, with opposite sign, on its parent."""
        mechanism, k = self.mechanism, self.mechanism.index(coordinate)
        if side.turns:
            # The axes of a ball joint are not perpendicular: the torque does no work about the other two.
            sides = mechanism.compiled.model.joint_sides.items()
            others = [mechanism.index(n) for n, s in sides if s.turns and s.body == side.body]
            axes = calc_twist_map(mechanism, side.body)[:3, others]
            torque, force = f * np.linalg.pinv(axes)[others.index(k)], np.zeros(3)
        else:
            force = f * calc_point_map(mechanism, side.point)[:, k]
            torque = np.cross(self.places[side.point], force)
        self.wrench(side.body, torque, force)
        self.wrench(side.parent, -torque, -force)

    def unload(self, multipliers: np.ndarray) -> None:
        """Remove all known forces and the motion, and use other multipliers (m,) of the constraints."""
        self.multipliers = multipliers
        for forces in (self.known, self.on_points, self.on_vectors):
            for force in forces.values():
                force[:] = 0.0

    # -- unknown reactions ---------------------------------------------------------------------------------------

    def solve(self) -> tuple[list[Reaction], list[Reaction]]:
        """Reactions at joints without constraints, and at shared points and directions.

        All bodies, points and directions are in equilibrium.
        """
        unknowns, pins = self._list_unknowns()
        if not unknowns:
            return [], []
        loads = self.on_points | self.on_vectors
        right = np.concatenate([*(-wrench for wrench in self.known.values()), *(loads[p] for p in pins)])
        matrix, rows, columns = self._assemble(unknowns, pins)
        solved = columns * np.linalg.lstsq(matrix, right / rows, rcond=_CUT)[0]
        reactions = self._describe(unknowns, solved)
        joints = len(self.mechanism.compiled.model.met)
        return reactions[:joints], reactions[joints:]

    def find_idle(self) -> list[list[Reaction]]:
        """Combinations of the same reactions that are in equilibrium without any load."""
        unknowns, pins = self._list_unknowns()
        if not unknowns:
            return []
        matrix, _, columns = self._assemble(unknowns, pins)
        idle = scipy.linalg.null_space(matrix, rcond=_CUT)
        # Unknown forces are in J per size of the mechanism, so that a combination has about 1 J.
        return [self._describe(unknowns, columns * way / self.mechanism.size) for way in idle.T]

    def _list_unknowns(self) -> tuple[list[_Unknown], list[str]]:
        """Unknown reactions, those at joints without constraints first; and points and directions in equilibrium."""
        mechanism, planar = self.mechanism, self.mechanism.compiled.model.planar
        unknowns = [self._at_joint(name, joint) for name, joint in mechanism.compiled.model.met.items()]
        none = np.zeros((3, 0))
        for point in self.on_points:
            ways = np.eye(3)[:, : 2 if planar else 3]
            owners = self.point_owners[point]
            unknowns += [_Unknown(point, b, None, point, ways, none) for b in owners if b != GROUND]
        for vector in self.on_vectors:
            along = mechanism.placement.vector(vector, mechanism.q)
            ways = np.eye(3)[:, 2:] if planar else self._across(along)
            owners = self.vector_owners[vector]
            unknowns += [_Unknown(vector, b, None, None, none, ways) for b in owners if b != GROUND]
        pins = [p for p in self.on_points if GROUND not in self.point_owners[p]]
        pins += [v for v in self.on_vectors if GROUND not in self.vector_owners[v]]
        return unknowns, pins

    def _assemble(
        self, unknowns: list[_Unknown], pins: list[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(6 bodies + 3 pins, k) effect of the unknowns on each, and the units of rows and unknowns.

        The unit of a torque is that of a force times the size of the mechanism.
        """
        size, names = self.mechanism.size, list(self.known)
        rows = [size, size, size, 1.0, 1.0, 1.0] * len(names)
        rows += [1.0 if p in self.on_points else size for p in pins for _ in range(3)]
        units = [[1.0] * u.forces.shape[1] + [size] * u.torques.shape[1] for u in unknowns]
        scales, unit = np.array(rows), np.concatenate(units)
        columns = []
        for u in unknowns:
            block = np.zeros((6 * len(names) + 3 * len(pins), u.size))
            for body, sign in ((u.body, 1.0), (u.parent, -1.0)):
                if body in self.known:
                    row = 6 * names.index(body)
                    block[row : row + 6] = sign * self._wrenches(u)
            if u.name in pins:
                row = 6 * len(names) + 3 * pins.index(u.name)
                block[row : row + 3] = np.hstack([u.forces, u.torques])
            columns.append(block)
        return np.hstack(columns) * unit / scales[:, None], scales, unit

    def _describe(self, unknowns: list[_Unknown], solved: np.ndarray) -> list[Reaction]:
        reactions = []
        ends = np.cumsum([u.size for u in unknowns])[:-1]
        for u, values in zip(unknowns, np.split(solved, ends), strict=True):
            k = u.forces.shape[1]
            body = u.body if u.parent is None or len(self.point_owners[u.point or ""]) == 1 else None
            reactions.append(Reaction(u.name, body, u.point, u.forces @ values[:k], u.torques @ values[k:]))
        return reactions

    def _at_joint(self, name: str, tree: TreeJoint) -> _Unknown:
        """Possible reaction of a joint of the tree on the body of its second point."""
        joint = self.mechanism.description.joints[name]
        assert not isinstance(joint, Equation)
        bodies = (tree.body, tree.parent) if joint.points == tree.points else (tree.parent, tree.body)
        places = self.mechanism.placement
        first, second = (places.vector(a, self.mechanism.q) for a in tree.axes or ("x", "y"))
        planar = self.mechanism.compiled.model.planar
        forces, torques = np.eye(3)[:, : 2 if planar else 3], np.eye(3)[:, 2 if planar else 0 :]
        if tree.slides:
            forces = self._across(first)
        if tree.turns and tree.axes is None:
            torques = np.zeros((3, 0))
        elif tree.turns:
            torques = self._across(first) if tree.turns == 1 else np.cross(first, second)[:, None]
        return _Unknown(name, bodies[0], bodies[1], joint.points[1], forces, torques)

    def _across(self, along: np.ndarray) -> np.ndarray:
        """(3, k) directions perpendicular to a unit vector; in a planar mechanism, those in its plane."""
        if self.mechanism.compiled.model.planar:
            return np.array([[-along[1]], [along[0]], [0.0]])
        across: np.ndarray = np.linalg.svd(along[None])[2][1:].T
        return across

    def _wrenches(self, unknown: _Unknown) -> np.ndarray:
        """(6, k) torques about the world's origin and forces, on the body."""
        forces, torques = unknown.forces, unknown.torques
        levers = np.cross(self.places[unknown.point], forces.T).T if unknown.point else np.zeros((3, 0))
        return np.block([[levers, torques], [forces, np.zeros_like(torques)]])


def _act_joints(mechanism: Mechanism, balance: _Balance) -> Iterator[Reaction]:
    rigid = mechanism.compiled.model.rigid_constraints
    for name, joint in mechanism.description.joints.items():
        if isinstance(joint, Equation) or name in mechanism.compiled.model.met:
            continue
        rows = find_constraints(mechanism, name)
        force, torque = _calc_wrench(balance, rows[rows >= rigid])
        pairs = [getattr(joint, "axes", None), getattr(joint, "normals", None)]
        axis = getattr(joint, "axis", None)
        firsts = [p[0] for p in pairs if p] + ([axis] if axis else [])
        seconds = [p[1] for p in pairs if p]
        _act_pair(balance, joint.points, firsts, seconds, force, torque)
        owners = balance.point_owners[joint.points[1]]
        yield Reaction(name, owners[0] if len(owners) == 1 else None, joint.points[1], force, torque)


def _act_relative_coordinates(mechanism: Mechanism, balance: _Balance) -> None:
    at_joints = mechanism.compiled.model.joint_sides
    for name, angle in mechanism.description.angles.items():
        if name in at_joints:
            continue
        _, torque = _calc_wrench(balance, find_constraints(mechanism, f"angle {name}"))
        balance.torque([angle.between[1]], torque)
        balance.torque([angle.between[0]], -torque)
    for name, distance in mechanism.description.distances.items():
        if name in at_joints:
            continue
        force, torque = _calc_wrench(balance, find_constraints(mechanism, f"distance {name}"))
        along = [] if distance.along is None else [distance.along]
        _act_pair(balance, distance.points, along, [], force, torque)


def _act_pair(
    balance: _Balance,
    points: tuple[str, str],
    firsts: list[Segment],
    seconds: list[Segment],
    force: np.ndarray,
    torque: np.ndarray,
) -> None:
    """Add a wrench at the second point on the second side, and its opposite on the first side.

    The first side has the axis along which the second point may be displaced.
    """
    start, end = points
    balance.force(end, force)
    balance.force(start, -force)
    if seconds:
        balance.torque(seconds, torque)
    if firsts:
        balance.torque(firsts, -torque - np.cross(balance.places[end] - balance.places[start], force))


def _calc_wrench(balance: _Balance, declared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Force and torque of constraints of the description on their second side."""
    mechanism = balance.mechanism
    places = np.cumsum(mechanism.enabled) - 1
    rows = places[declared[mechanism.enabled[declared]]]
    wrench = -mechanism.calc_wrenches()[rows].T @ balance.multipliers[rows]
    return wrench[:3], wrench[3:]


def _act_loads(mechanism: Mechanism, balance: _Balance) -> None:
    on_coordinates = np.zeros(len(mechanism.q))
    values = mechanism.calc_loads()
    for (_, load), value in zip(mechanism.description.forces.items(), values, strict=True):
        if isinstance(load, (Spring, Actuator)):
            balance.force(load.points[1], value)
            balance.force(load.points[0], -value)
        elif isinstance(load, Force):
            balance.force(load.point, value)
        elif isinstance(load, Torque):
            balance.wrench(load.body, value, np.zeros(3))
        elif isinstance(load, DifferenceSpring):
            for distance, force in zip(load.distances, (value[0], -value[0]), strict=True):
                on_coordinates[mechanism.index(distance)] += force
        elif isinstance(load, CoordinateForce):
            on_coordinates[mechanism.index(load.coordinate)] += value[0]
        elif load.angle in mechanism.compiled.model.joint_sides:
            on_coordinates[mechanism.index(load.angle)] += value[0]
    balance.generalised(on_coordinates)


def _calc_generic(mechanism: Mechanism, multipliers: np.ndarray) -> np.ndarray:
    """(n,) −Φ_qᵀ λ of constraints without a place: equations, drives, held coordinates."""
    description = mechanism.description
    generic = {f"drive {d}" for d in description.drives}
    generic |= {name for name, joint in description.joints.items() if isinstance(joint, Equation)}
    rows = [
        k
        for k, label in enumerate(mechanism.constraint_names)
        if label in generic or k >= mechanism.enabled.sum()
    ]
    forces: np.ndarray = -mechanism.calc_jacobian()[rows].T @ multipliers[rows]
    return forces
