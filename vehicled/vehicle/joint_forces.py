"""Forces in ball joints, tie rods, hinges and wheel bearings, from the balance of each body of a corner.

Bodies that share points have no constraints between them, so the forces there are no Lagrange multipliers
(those of a live axle's rods are). They follow from Newton's and Euler's equations of wheel, knuckle and
wishbones with the model's accelerations and the forces on them. From outside to inside, no two equations have
to be solved together:

- Moments on knuckle and wheel about the kingpin: only the tie rod balances them.
- Moments about the lower ball joint: give the upper ball joint's force, except its component along the
kingpin. That component follows from the moment on the upper wishbone about its hinge.
- Forces on knuckle and wheel: give the force in the lower ball joint.
- Forces and moments on the wishbones: give those of the hinges.

A corner has 17 unknowns and, because of its one degree of freedom, 18 equations. The remaining equation is
the moment on the lower wishbone about its hinge: the strut's force together with that of the ball joint. It
is satisfied as well as the model's step satisfies the equation of motion; it is not part of the result but
kept as a residual.
"""

from __future__ import annotations

from vehicled.messages import CORNER_LOADS
from vehicled.multibody.natural import calc_required_wrench
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.symbolic.vector import Vector
from vehicled.vehicle.added_forces import Loaded, load_corner
from vehicled.vehicle.corner import CornerParts
from vehicled.vehicle.outputs import Parts
from vehicled.vehicle.suspension_kinds import KnuckleLoad, calc_hinge


def add_joint_forces(program: Program, parts: Parts) -> KernelHandle:
    """Kernel `loads`: arrays `loads` in the order of CORNER_LOADS, and `load_residual`, N·m, per corner.

    It includes the forces of the array `added_forces` (see `added_forces.py`).
    """
    loaded = load_corner(program, parts)
    corner = loaded.corner
    found = _Balance(parts, loaded)
    to_body = parts.chassis.to_body
    strut = corner.strut
    components: dict[str, Atom] = {
        "tie_rod.force": found.tie_rod,
        "spring.force": strut.spring,
        "damper.force": -strut.damper,
        "stops.force": strut.bump - strut.droop,
        "anti_roll_bar.force": -corner.bar_force,
        "brake.torque": corner.brake_torque,
    }
    for joint, (force, moment) in found.joints.items():
        components |= zip((f"{joint}.f{a}" for a in "xyz"), to_body(force), strict=True)
        if moment is not None:
            components |= zip((f"{joint}.m{a}" for a in "xyz"), to_body(moment), strict=True)
    loads = program.array("loads", len(CORNER_LOADS), 1)
    (residual,) = program.array("load_residual", 1, 1)
    stores = [(place, components[name]) for place, name in zip(loads, CORNER_LOADS, strict=True)]
    return program.kernel("loads", [*stores, (residual, found.residual)])


class _Balance:
    """Solves the equations of one corner's bodies."""

    def __init__(self, parts: Parts, loaded: Loaded) -> None:
        corner = loaded.corner
        self._gravity, self._masses = parts.gravity, parts.system.body_masses
        self._spin_axis = parts.spin_axis
        linkage = parts.linkage
        lower, joint = linkage.lower, linkage.lower.joint
        on_hub, hub_moment = self._bearing(corner)
        required, moment = calc_required_wrench(self._masses["knuckle"], joint, self._gravity)
        brake = parts.spin_axis.position * corner.brake_torque
        to_centre = (corner.centre - joint).position
        moment = moment - hub_moment - brake - to_centre.cross(on_hub)

        kingpin = linkage.knuckle.directions[0]
        names = (name for name, _ in parts.system.constraints)
        load = KnuckleLoad(
            moment=moment,
            kingpin=kingpin,
            tie_rod=linkage.tie_rod,
            joint=joint,
            strut=corner.strut,
            masses=self._masses,
            gravity=self._gravity,
            required=required,
            hub=on_hub,
            multipliers=dict(zip(names, parts.step.multipliers, strict=True)),
            added=loaded.force,
            added_moment=loaded.moment + to_centre.cross(loaded.force),
        )
        support = linkage.find_support(load)
        self.tie_rod = support.tension
        """Tension, N."""
        on_bottom = required - on_hub - support.along_rod * self.tie_rod - support.top - support.axle

        bar = linkage.keep_across(parts.directions[2].position * -corner.bar_force)
        lower_hinge, lower_moment = calc_hinge(load, lower, bar - on_bottom)
        lower_hinge = lower_hinge - support.strut
        lower_moment = lower_moment - (corner.strut.foot - lower.hinge).position.cross(support.strut)
        lower_moment = lower_moment + support.clamp
        axis = lower.axis.position
        self.residual = axis.dot(lower_moment)
        """Missing moment about the lower hinge, N·m."""
        self.joints: dict[str, tuple[Vector, Vector | None]] = {
            "lower_ball_joint": (linkage.keep_ball_joint(on_bottom), None),
            "upper_ball_joint": (support.top, None),
            "lower_hinge": (lower_hinge, lower_moment - axis * self.residual),
            "upper_hinge": support.upper_hinge,
            "wheel_bearing": (on_hub, hub_moment),
        }
        """By name: force and, if any, moment."""

    def _bearing(self, corner: CornerParts) -> tuple[Vector, Vector]:
        """Force of the wheel on the knuckle at the wheel's centre, and its moment, square to the spin axis."""
        wheel, tyre, s = corner.wheel, corner.tyre, self._spin_axis
        force = tyre.force - (corner.centre.acceleration - self._gravity) * wheel.mass
        sv, sd, sdd = s.position, s.velocity, s.acceleration
        # d/dt of the angular momentum I s×ṡ + Iₐ φ̇ s, without the component along s, which the bearing does
        # not carry.
        required = sv.cross(sdd) * wheel.transverse + sd * (wheel.axial * corner.spin)
        on_wheel = tyre.arm.cross(tyre.force) + tyre.up * tyre.aligning
        return force, on_wheel - sv * sv.dot(on_wheel) - required
