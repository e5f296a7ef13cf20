"""Joints, relative coordinates and drives as constraints."""

from __future__ import annotations

import numpy as np

from vehicled.multibody.elements import (
    Angle,
    ConstantDistance,
    Cylindrical,
    Distance,
    Equation,
    Fixed,
    Joint,
    PointOnLine,
    Prismatic,
    Revolute,
    Segment,
    Universal,
)
from vehicled.multibody.model import MechanismError, Model
from vehicled.symbolic.vector import Vector

SQUARE = 1e-6
"""Cosine up to which directions count as being at right angles."""


def add_angle(model: Model, name: str, angle: Angle) -> None:
    """θ from direction a to b: (a×b)·n cos θ − a·b sin θ = 0.

    This is |a||b| times the sine of the error, and regular at every angle.
    """
    g = model.graph
    axis, guess = add_sides(model, name, angle)
    theta = model.scalar(name, guess if angle.start is None else angle.start).q
    sine, cosine = model.sines[name]
    (a, _), (b, _) = (model.segment(s) for s in angle.between)
    # If a direction is oblique to the axis, rotations about other axes also change the angle.
    forwards = axis * cosine - a.position * b.position.dot(axis)
    if angle.about is not None and _share_body(model, angle.about, angle.between[1]):
        # The axis rotates with the second direction.
        forwards += axis.cross(a.position.cross(b.position))
    turn = forwards * g.cos(theta) + a.position.cross(b.position) * g.sin(theta)
    model.constraint(f"angle {name}", sine * g.cos(theta) - cosine * g.sin(theta), turn=turn)


def _share_body(model: Model, *segments: Segment) -> bool:
    """Whether one body, or the ground, has all of these directions."""
    return any(
        all(s in g.vectors if isinstance(s, str) else g.points.keys() >= set(s) for s in segments)
        for g in model.geometry.values()
    )


def add_sides(model: Model, name: str, angle: Angle) -> tuple[Vector, float]:
    """Sides of an angle (`Model.sines`), its axis, and its value from the places at the start, rad."""
    (a, a_start), (b, b_start) = (model.segment(s) for s in angle.between)
    if angle.about is None:
        sine, about = model.cross(a.position, b.position), np.array([0.0, 0.0, 1.0])
        axis = model.vectors["z"].position
    else:
        n, about = model.segment(angle.about)
        axis = n.position
        sine = a.position.cross(b.position).dot(axis)
    model.sines[name] = sine, a.position.dot(b.position)
    return axis, float(np.arctan2(np.cross(a_start, b_start) @ about, a_start @ b_start))


def add_distance(model: Model, name: str, distance: Distance) -> None:
    """Displacement s along a direction, linear; or the distance, by its square, which is regular except at zero."""
    a, b = distance.points
    apart = model.points[b] - model.points[a]
    there = model.place(b) - model.place(a)
    if distance.along is None:
        guess = float(np.linalg.norm(there))
        s = model.scalar(name, guess if distance.start is None else distance.start).q
        value = apart.position.dot(apart.position) - s * s
        shift = 2.0 * apart.position
    else:
        along, direction = model.segment(distance.along)
        guess = float(there @ direction)
        s = model.scalar(name, guess if distance.start is None else distance.start).q
        value = apart.position.dot(along.position) - s
        shift = along.position
    model.constraint(f"distance {name}", value, shift)


def add_drive(model: Model, name: str, expression: str | float) -> None:
    """Add a coordinate that follows an expression of time."""
    value = model.expression(f"drives.{name}", expression, of="time")
    model.constraint(f"drive {name}", model.coordinate(name).q - value)


def add_joint(model: Model, name: str, joint: Joint) -> None:
    """Add the constraints of one joint."""
    if isinstance(joint, Equation):
        where = f"joints.{name}.expression"
        model.constraint(name, model.expression(where, joint.expression, of="position"))
        return
    if isinstance(joint, ConstantDistance):
        _keep_distance(model, name, joint)
        return
    if isinstance(joint, PointOnLine):
        _keep_on_line(model, name, joint.points, joint.axis)
        return
    if isinstance(joint, (Cylindrical, Prismatic)):
        _keep_on_line(model, name, joint.points, joint.axes[0])
    else:
        _join(model, name, joint.points)
    if isinstance(joint, Universal):
        u, v = (model.vectors[a] for a in joint.axes)
        label = f"{name}: axes at right angles"
        model.constraint(label, u.position.dot(v.position), turn=v.position.cross(u.position))
    elif isinstance(joint, (Cylindrical, Prismatic, Fixed)) or (
        isinstance(joint, Revolute) and joint.axes is not None and not model.planar
    ):
        assert joint.axes is not None
        _keep_parallel(model, name, joint.axes)
        if isinstance(joint, (Prismatic, Fixed)) and not model.planar:
            assert joint.normals is not None
            _keep_from_turning(model, name, joint.axes, joint.normals)


def _join(model: Model, name: str, points: tuple[str, str]) -> None:
    apart = model.points[points[1]].position - model.points[points[0]].position
    for axis, component in zip("xyz"[: model.dimension], apart, strict=False):
        label = f"{name}: {points[0]} and {points[1]} along {axis}"
        model.constraint(label, component, model.vectors[axis].position)


def _keep_distance(model: Model, name: str, joint: ConstantDistance) -> None:
    a, b = joint.points
    apart = (model.points[b] - model.points[a]).position
    if joint.length is None:
        for point in joint.points:
            if not model.has_design(point):
                raise MechanismError(
                    f"{name}: expected a length, as {point} is a marker, without a place of its own"
                )
        one, other = (model.design(p) for p in joint.points)
        length = (other.atoms - one.atoms).norm()
        if not np.any(other.numbers - one.numbers):
            raise MechanismError(f"{name}: {a} and {b} lie at one place, so that they have no distance")
    else:
        length = model.parameter(f"{name}.length", joint.length, "m")
    model.constraint(f"{name}: length", apart.dot(apart) - length * length, 2.0 * apart)


def _keep_on_line(model: Model, name: str, points: tuple[str, str], axis: str) -> None:
    apart = (model.points[points[1]] - model.points[points[0]]).position
    if model.planar:
        along = model.vectors[axis].position
        model.constraint(f"{name}: {points[1]} on {axis}", model.cross(along, apart), model.flat(along))
        return
    for n, normal in enumerate(model.normals(name, axis), 1):
        across = normal.position
        model.constraint(f"{name}: {points[1]} on {axis}, {n}", across.dot(apart), across)


def _keep_parallel(model: Model, name: str, axes: tuple[str, str]) -> None:
    first, second = axes
    if first == second:
        return
    along = model.vectors[second].position
    if model.planar:
        here = model.vectors[first].position
        turn = along.cross(model.flat(here))
        model.constraint(f"{name}: {second} along {first}", model.cross(here, along), turn=turn)
        return
    for n, normal in enumerate(model.normals(name, first), 1):
        label, across = f"{name}: {second} along {first}, {n}", normal.position
        model.constraint(label, across.dot(along), turn=along.cross(across))


def _keep_from_turning(model: Model, name: str, axes: tuple[str, str], normals: tuple[str, str]) -> None:
    home = model.home(name, axes[0], normals[0])
    axis, normal = home.vectors[axes[0]], home.vectors[normals[0]]
    if abs(axis.numbers @ normal.numbers) > SQUARE:
        raise MechanismError(f"{name}: {normals[0]} is not at right angles to {axes[0]}")
    assert home.frame is not None
    across = home.frame.direction(axis.atoms.cross(normal.atoms))
    second = model.vectors[normals[1]].position
    turn = second.cross(across.position)
    model.constraint(f"{name}: {normals[1]} along {normals[0]}", second.dot(across.position), turn=turn)
