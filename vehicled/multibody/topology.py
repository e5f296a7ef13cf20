"""The tree of a mechanism's bodies: the joint by which each is connected to an earlier one, from the ground outwards.

Bodies are visited breadth first, so that chains are short. A ball joint is used only if no other joint leads
to a body, because it takes three coordinates. Joints that are not part of the tree close loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vehicled.multibody.description import Description
from vehicled.multibody.elements import (
    AXES,
    Cylindrical,
    Fixed,
    PointMass,
    Prismatic,
    Revolute,
    Rigid,
    Spherical,
    Universal,
)

GROUND = "ground"


@dataclass(frozen=True)
class TreeJoint:
    """Connection of a body to its parent: an angle about an axis and a displacement along it, or a ball joint."""

    body: str
    parent: str
    points: tuple[str, str]
    """Points on the parent and on the body: the same point if they share it."""
    turns: Literal[0, 1, 3] = 1
    """Number of angles: 3 for a ball joint."""
    slides: bool = False
    axes: tuple[str, str] | None = None
    """On the parent and on the body; None for a revolute joint of the plane and for a ball joint. A universal joint
    is a ball joint whose axes a constraint keeps at right angles."""
    normals: tuple[str, str] | None = None
    """Directions at right angles to the axes that remain parallel if a spatial body does not rotate."""
    name: str | None = None
    """Name in the description; None if the bodies share a point."""


def list_points(description: Description) -> dict[str, list[str]]:
    """Points of the ground and of each body that has an orientation, markers last."""
    found = {GROUND: list(description.ground.points)}
    for name, body in description.bodies.items():
        if not isinstance(body, PointMass):
            found[name] = [*body.points, *(body.markers if isinstance(body, Rigid) else ())]
    return found


def list_vectors(description: Description) -> dict[str, list[str]]:
    """Unit vectors of the ground and of each body that has an orientation."""
    found = {GROUND: [*AXES, *description.ground.vectors]}
    for name, body in description.bodies.items():
        if not isinstance(body, PointMass):
            found[name] = [*body.vectors, *body.directions] if isinstance(body, Rigid) else []
    return found


def find_tree(description: Description) -> tuple[list[TreeJoint], list[str]]:
    """Joints from the ground outwards, and the bodies with no joint to the ground, in order.

    Each of the latter is reached by the joints from the first such body of its part of the mechanism.
    """
    edges = [*_joints(description), *_shared(description)]
    edges.sort(key=lambda e: e.turns + e.slides)
    bodies = [name for name, body in description.bodies.items() if not isinstance(body, PointMass)]
    visited, tree, free = [GROUND], [], []

    def find_next(here: str, most: int) -> TreeJoint | None:
        for edge in edges:
            outward = edge if edge.parent == here else _turned(edge)
            if outward.parent == here and outward.body not in visited and outward.turns <= most:
                return outward
        return None

    while len(visited) <= len(bodies):
        found = next((e for most in (1, 3) for here in visited if (e := find_next(here, most))), None)
        if found is None:
            free.append(next(b for b in bodies if b not in visited))
            visited.append(free[-1])
        else:
            tree.append(found)
            visited.append(found.body)
    return tree, free


def _turned(edge: TreeJoint) -> TreeJoint:
    """The same joint as seen from its other body."""
    (a, b), axes, normals = edge.points, edge.axes, edge.normals
    return TreeJoint(
        edge.parent,
        edge.body,
        (b, a),
        edge.turns,
        edge.slides,
        axes and (axes[1], axes[0]),
        normals and (normals[1], normals[0]),
        edge.name,
    )


def _joints(description: Description) -> Iterator[TreeJoint]:
    """Joints of the description that a tree can contain, in the order of the description."""
    planar = description.space == "planar"
    points, vectors = list_points(description), list_vectors(description)

    def owner(point: str, *directions: str | None) -> str | None:
        for body, own in points.items():
            if point in own and all(d in vectors[body] for d in directions if d):
                return body
        return None

    for name, joint in description.joints.items():
        if not isinstance(joint, (Spherical, Revolute, Universal, Cylindrical, Prismatic, Fixed)):
            continue
        is_ball = not planar and isinstance(joint, (Spherical, Universal))
        has_axes = not isinstance(joint, Spherical) and not (planar and isinstance(joint, Revolute))
        axes = getattr(joint, "axes", None) if has_axes else None
        normals = joint.normals if isinstance(joint, (Prismatic, Fixed)) and not planar else None
        needed = [[p[k] for p in (axes, normals) if p is not None] for k in (0, 1)]
        first, second = (owner(p, *d) for p, d in zip(joint.points, needed, strict=True))
        # If bodies share the point, that is the joint of the tree; the joint on their axes remains a
        # constraint.
        if first is None or second is None or first == second or joint.points[0] == joint.points[1]:
            continue
        turns: Literal[0, 1, 3] = 3 if is_ball else 0 if isinstance(joint, (Prismatic, Fixed)) else 1
        slides = isinstance(joint, (Prismatic, Cylindrical))
        yield TreeJoint(second, first, joint.points, turns, slides, axes, normals, name)


def _shared(description: Description) -> Iterator[TreeJoint]:
    """Revolute joints where bodies share a point and, in space, a unit vector; ball joints without such a vector."""
    planar = description.space == "planar"
    points, vectors = list_points(description), list_vectors(description)
    names = list(points)
    for k, first in enumerate(names):
        for second in names[k + 1 :]:
            for point in points[second]:
                if point not in points[first]:
                    continue
                if planar:
                    yield TreeJoint(second, first, (point, point))
                    continue
                common = [v for v in vectors[second] if v in vectors[first]]
                for vector in common:
                    yield TreeJoint(second, first, (point, point), axes=(vector, vector))
                if not common:
                    yield TreeJoint(second, first, (point, point), turns=3)
