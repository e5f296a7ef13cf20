"""Forces on a corner in addition to the model's, for example of a rough road, or of an unmeasured drive."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Program
from vehicled.symbolic.vector import Vector
from vehicled.vehicle.arrays import ADDED_FORCES
from vehicled.vehicle.corner import CornerParts
from vehicled.vehicle.outputs import Parts


@dataclass(frozen=True)
class Loaded:
    """A corner with added forces, and their effect on the wheel carrier."""

    corner: CornerParts
    force: Vector
    """Added force of road, spring, damper and anti-roll bar together on wheel carrier and wheel, N."""
    moment: Vector
    """Moment of these forces about the wheel's centre, N·m."""


def load_corner(program: Program, parts: Parts) -> Loaded:
    """The corner with the forces in the array `added_forces`, in the order of ADDED_FORCES, per corner."""
    g, corner = program.graph, parts.corner
    spring, damper, bar, load, along = program.array("added_forces", len(ADDED_FORCES), 1)
    strut, tyre, spin_axis = corner.strut, corner.tyre, parts.spin_axis.position
    ahead = spin_axis.cross(tyre.up).unit()
    of_road, of_strut = tyre.up * load + ahead * along, strut.direction * -(spring + damper)
    of_bar = parts.directions[2].position * -bar
    changed = replace(
        corner,
        strut=replace(
            strut,
            force=strut.force + spring + damper,
            spring=strut.spring + spring,
            damper=strut.damper - damper,
        ),
        tyre=replace(tyre, force=tyre.force + of_road),
        bar_force=corner.bar_force + bar,
        brake_torque=corner.brake_torque
        + _calc_brake_torque(g.where_less(along, 0.0, along, 0.0), ahead, parts),
    )
    to_foot, to_bar = ((p - corner.centre).position for p in (strut.foot, parts.linkage.lower.joint))
    moment = tyre.arm.cross(of_road) + to_foot.cross(of_strut) + to_bar.cross(of_bar)
    return Loaded(changed, of_road + of_strut + of_bar, moment)


def _calc_brake_torque(along: Atom, ahead: Vector, parts: Parts) -> Atom:
    """Torque with which the brake holds a wheel against a force of the road, N·m."""
    return along * ahead.dot(parts.spin_axis.position.cross(parts.corner.tyre.arm))
