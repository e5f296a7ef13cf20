"""The tree of a mechanism's bodies: the joint by which each hangs on one before it, from the ground outwards.

Bodies are visited breadth first, so that chains are short. Joints that are not part of the tree close loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
)

GROUND = "ground"


@dataclass(frozen=True)
class TreeJoint:
    """How a body hangs on its parent: by no more than one angle about an axis and one displacement along it."""

    body: str
    parent: str
    points: tuple[str, str]
    """On the parent and on the body: the same one where they share it."""
    turns: bool = True
    slides: bool = False
    axes: tuple[str, str] | None = None
    """On the parent and on the body; None for a revolute joint of the plane."""
    normals: tuple[str, str] | None = None
    """Directions at right angles to the axes that stay parallel where a spatial body does not turn."""
    name: str | None = None
    """In the description; None where the bodies share a point."""


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
    """Joints from the ground outwards, and the bodies of which none leads to the ground, in their order.

    A body of the latter is reached by the joints from the first one of its part of the mechanism.
    """
    edges = [*_joints(description), *_shared(description)]
    edges.sort(key=lambda e: e.turns + e.slides)
    bodies = [name for name, body in description.bodies.items() if not isinstance(body, PointMass)]
    visited, tree, free = {GROUND}, [], []
    queue = [GROUND]
    for root in [None, *bodies]:
        if root is not None:
            if root in visited:
                continue
            visited.add(root)
            free.append(root)
            queue.append(root)
        while queue:
            here = queue.pop(0)
            for edge in edges:
                outward = edge if edge.parent == here else _turned(edge)
                if outward.parent == here and outward.body not in visited:
                    visited.add(outward.body)
                    tree.append(outward)
                    queue.append(outward.body)
    return tree, free


def _turned(edge: TreeJoint) -> TreeJoint:
    """The same joint from its other body."""
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
    """Joints of the description that a tree can have, in the order of the description."""
    planar = description.space == "planar"
    points, vectors = list_points(description), list_vectors(description)

    def owner(point: str, *directions: str | None) -> str | None:
        for body, own in points.items():
            if point in own and all(d in vectors[body] for d in directions if d):
                return body
        return None

    for name, joint in description.joints.items():
        if not isinstance(joint, (Spherical, Revolute, Cylindrical, Prismatic, Fixed)):
            continue
        if isinstance(joint, Spherical) and not planar:
            continue
        axes = (
            None if isinstance(joint, Spherical) or (isinstance(joint, Revolute) and planar) else joint.axes
        )
        normals = joint.normals if isinstance(joint, (Prismatic, Fixed)) and not planar else None
        needed = [[p[k] for p in (axes, normals) if p is not None] for k in (0, 1)]
        first, second = (owner(p, *d) for p, d in zip(joint.points, needed, strict=True))
        if first is None or second is None or first == second:
            continue
        turns = not isinstance(joint, (Prismatic, Fixed))
        slides = isinstance(joint, (Prismatic, Cylindrical))
        yield TreeJoint(second, first, joint.points, turns, slides, axes, normals, name)


def _shared(description: Description) -> Iterator[TreeJoint]:
    """Revolute joints where bodies share a point and, in space, a unit vector."""
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
                for vector in vectors[second]:
                    if vector in vectors[first]:
                        yield TreeJoint(second, first, (point, point), axes=(vector, vector))
