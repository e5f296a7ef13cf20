"""What holds the wheels: a kind of suspension per axle, all from the same parts, so that the lanes share one code.

A corner has a lower wishbone on a hinge of the chassis with a ball joint at its end, and a knuckle that begins there
and has a second point above. A kind gives what guides the knuckle (two constraints), what steers it (one), the foot
of spring and damper, and the forces of these constraints. Where the axles are of two kinds, the parameter `is_rear`
selects in each lane; an upper wishbone that only the other axle has carries nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from vehicled.multibody.natural import Basic, Combination, Frame, calc_required_wrench
from vehicled.multibody.system import System
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector
from vehicled.vehicle.corner import Strut, TieRod, Wishbone
from vehicled.vehicle.hard_points import Suspensions
from vehicled.vehicle.symbols import ParameterSymbols

Constraint = tuple[str, Atom]
"""Name and what is to be zero."""
Masses = Mapping[tuple[Basic, Basic], Atom]


@dataclass(frozen=True)
class _Corner:
    """What corners of all kinds have."""

    system: System
    parameters: ParameterSymbols
    chassis: Frame
    lower: Wishbone
    upper_joint: Combination
    """A point of the knuckle, above the lower ball joint."""


@dataclass(frozen=True)
class _Carrier:
    """The knuckle, and the rod that steers it where there is one."""

    frame: Frame
    forward: Combination
    spin_axis: Combination
    tie_rod: TieRod


@dataclass(frozen=True)
class KnuckleLoad:
    """What knuckle and wheel need of the suspension, world axes."""

    moment: Vector
    """About the lower ball joint, N·m."""
    kingpin: Combination
    """From the lower ball joint to the upper point, m."""
    tie_rod: TieRod
    joint: Combination
    """The lower ball joint."""
    strut: Strut
    masses: Mapping[str, Masses]
    gravity: Vector


@dataclass(frozen=True)
class Support:
    """How a kind of suspension gives it, N and N·m."""

    tension: Atom
    """Of the tie rod."""
    along_rod: Vector
    """Unit vector of its force on the knuckle, zero without a rod."""
    top: Vector
    """Force on the knuckle at the upper point."""
    upper_hinge: tuple[Vector, Vector]
    """Force and moment of the chassis on the upper wishbone."""
    clamp: Vector
    """Moment of the lower wishbone on the knuckle."""
    strut: Vector
    """Force of spring, damper and stops on the lower wishbone."""


class _Kind(Protocol):
    """One kind of suspension; its constructor adds the bodies that only this kind has."""

    names: Mapping[str, str | None]
    """Bodies of the model that have another name in this kind, or that it lacks."""
    has_ball_joints: bool

    def hold(self) -> list[Constraint]:
        """Constraints of the bodies that only this kind has: in all lanes, where there are such bodies too."""

    def guide(self, c: _Carrier) -> list[Constraint]:
        """Two constraints on the knuckle."""

    def steer(self, c: _Carrier) -> Constraint:
        """And the last one."""

    def foot(self, c: _Carrier) -> tuple[Vector, Combination]:
        """Of spring and damper: its place in design position, and the point."""

    def support(self, load: KnuckleLoad) -> Support:
        """The forces of these constraints."""


class _DoubleWishbone:
    """An upper wishbone guides the knuckle, a tie rod steers it; the spring stands on the lower wishbone."""

    names: Mapping[str, str | None] = {}
    has_ball_joints = True

    def __init__(self, corner: _Corner) -> None:
        self._corner = corner
        c, joint = corner, corner.upper_joint
        self._upper = _add_wishbone(c.system, c.parameters, c.chassis, "upper", joint)
        self._arm, self._normal = _constrain_arm(self._upper), _constrain_normal(self._upper)

    def hold(self) -> list[Constraint]:
        return self._normal

    def guide(self, c: _Carrier) -> list[Constraint]:
        return self._arm

    def steer(self, c: _Carrier) -> Constraint:
        return _constrain_rod(c.tie_rod)

    def foot(self, c: _Carrier) -> tuple[Vector, Combination]:
        return _find_foot_on_arm(self._corner)

    def support(self, load: KnuckleLoad) -> Support:
        rod = _Rod(load)
        upper, zero = self._upper, _zero(load.moment)
        _, needed = calc_hinge(load, upper, zero)
        axis = upper.axis.position
        lever = axis.cross(upper.arm.position)
        # The wishbone carries the opposite of the joint's force on the knuckle.
        along = (-axis.dot(needed) - lever.dot(rod.across)) / lever.dot(rod.kingpin)
        top = rod.across + rod.kingpin * along
        return Support(
            rod.tension, rod.along, top, calc_hinge(load, upper, -top), zero, _calc_strut_force(load.strut)
        )


class _Macpherson:
    """A line of the knuckle passes through a point of the chassis, and the spring acts along it; a tie rod steers."""

    names: Mapping[str, str | None] = {"upper wishbone": None}
    has_ball_joints = True

    def __init__(self, corner: _Corner) -> None:
        self._corner = corner

    def hold(self) -> list[Constraint]:
        return []

    def guide(self, c: _Carrier) -> list[Constraint]:
        corner, g = self._corner, self._corner.system.graph
        top, foot = corner.parameters.vector("spring.chassis"), corner.parameters.vector("strut.foot")
        # Two directions of the knuckle square to the line; no strut lies along the car.
        one = (top - foot).cross(Vector(g.one, g.zero, g.zero)).unit()
        other = (top - foot).cross(one).unit()
        off = (corner.chassis.point(top) - corner.upper_joint).position
        return [
            (f"strut: top on its axis, {name}", off.dot(c.frame.direction(d).position))
            for name, d in (("across", one), ("along", other))
        ]

    def steer(self, c: _Carrier) -> Constraint:
        return _constrain_rod(c.tie_rod)

    def foot(self, c: _Carrier) -> tuple[Vector, Combination]:
        design = self._corner.parameters.vector("strut.foot")
        return design, c.frame.point(design)

    def support(self, load: KnuckleLoad) -> Support:
        rod, strut, zero = _Rod(load), load.strut, _zero(load.moment)
        # Without friction, spring, damper and stops are all that acts along the strut.
        along = (-strut.force - rod.across.dot(strut.direction)) / rod.kingpin.dot(strut.direction)
        top = rod.across + rod.kingpin * along
        return Support(rod.tension, rod.along, top, (zero, zero), zero, zero)


class _SwingArm:
    """The knuckle is fixed to the lower wishbone, which is the arm; the spring stands on it."""

    names: Mapping[str, str | None] = {"lower wishbone": "arm", "upper wishbone": None, "knuckle": None}
    has_ball_joints = False

    def __init__(self, corner: _Corner) -> None:
        self._corner = corner

    def _axes(self, c: _Carrier) -> tuple[Vector, Vector, Vector, Vector]:
        """Forward and spin axis of the knuckle, and two of the arm that they are square to in design position."""
        forward, spin = c.forward.design, c.spin_axis.design
        arm = self._corner.lower.frame
        up = arm.direction(forward.cross(spin)).position
        return c.forward.position, c.spin_axis.position, arm.direction(spin).position, up

    def hold(self) -> list[Constraint]:
        return []

    def guide(self, c: _Carrier) -> list[Constraint]:
        forward, spin, _, up = self._axes(c)
        return [("arm: forward of the wheel", forward.dot(up)), ("arm: camber of the wheel", spin.dot(up))]

    def steer(self, c: _Carrier) -> Constraint:
        forward, _, left, _ = self._axes(c)
        return "arm: toe of the wheel", forward.dot(left)

    def foot(self, c: _Carrier) -> tuple[Vector, Combination]:
        return _find_foot_on_arm(self._corner)

    def support(self, load: KnuckleLoad) -> Support:
        zero = _zero(load.moment)
        return Support(zero.x, zero, zero, (zero, zero), load.moment, _calc_strut_force(load.strut))


_KINDS: dict[str, Callable[[_Corner], _Kind]] = {
    "double_wishbone": _DoubleWishbone,
    "macpherson": _Macpherson,
    "swing_arm": _SwingArm,
}


class Linkage:
    """Bodies and constraints of the corners, of a kind for each axle."""

    def __init__(
        self,
        system: System,
        parameters: ParameterSymbols,
        chassis: Frame,
        place_rod: Callable[[Vector], Vector],
        suspensions: Suspensions,
    ) -> None:
        """`place_rod`: from the inner end of a tie rod in design position to where it is now, world axes."""
        self._graph, cp = system.graph, parameters
        self._chosen: dict[str, tuple[str, str]] = {}
        """Names of a constraint in front and rear corners."""
        self._is_rear = cp("is_rear") if suspensions[0] != suspensions[1] else None
        lower_design, upper_design = cp.vector("lower.joint"), cp.vector("upper.joint")
        joint = system.vector("lower.joint", lower_design, point=True, rank=1)
        upper = system.vector("upper.joint", upper_design, point=True, rank=1)
        self.lower = _add_wishbone(system, cp, chassis, "lower", joint)
        on_hinge = [*_constrain_arm(self.lower), *_constrain_normal(self.lower)]
        corner = _Corner(system, cp, chassis, self.lower, upper)
        made = {name: _KINDS[name](corner) for name in dict.fromkeys(suspensions)}
        self._kinds = tuple(made[name] for name in suspensions)

        spin_design = cp.vector("wheel.axis")
        # Forward and square to the spin axis: s × z, made a unit vector.
        forward_design = Vector(spin_design.y, -spin_design.x, self._graph.zero).unit()
        self.forward = system.vector("knuckle.forward", forward_design, point=False, rank=1)
        self.spin_axis = system.vector("wheel.axis", spin_design, point=False, rank=1)
        self.knuckle = Frame(joint, (upper - joint, self.forward, self.spin_axis))
        system.body("knuckle", self.knuckle, cp.inertia("knuckle"))

        rigid = self._constrain_knuckle(upper_design - lower_design)
        inner_design, outer_design = cp.vector("tie.inner"), cp.vector("tie.outer")
        inner = place_rod(inner_design)
        outer = self.knuckle.point(outer_design)
        self.tie_rod = TieRod(outer, outer.position - inner, outer_design - inner_design)
        self._carrier = c = _Carrier(self.knuckle, self.forward, self.spin_axis, self.tie_rod)
        front, rear = self._kinds
        guides = self._choose_constraints(front.guide(c), rear.guide(c))
        steering = self._choose_constraints([front.steer(c)], [rear.steer(c)])
        held = [constraint for kind in made.values() for constraint in kind.hold()]
        for name, value in (*on_hinge, *guides, *held, *rigid, *steering):
            system.constraint(name, value)

    def _constrain_knuckle(self, pin_design: Vector) -> list[Constraint]:
        """A rigid body."""
        pin = self.knuckle.directions[0].position
        ev, sv = self.forward.position, self.spin_axis.position
        forward_design, spin_design = self.forward.design, self.spin_axis.design
        return [
            ("knuckle: distance of the ball joints", pin.dot(pin) - pin_design.dot(pin_design)),
            ("knuckle: kingpin and forward", pin.dot(ev) - pin_design.dot(forward_design)),
            ("knuckle: kingpin and spin axis", pin.dot(sv) - pin_design.dot(spin_design)),
            ("knuckle: forward is a unit vector", ev.dot(ev) - 1.0),
            ("knuckle: spin axis is a unit vector", sv.dot(sv) - 1.0),
            ("knuckle: forward and spin axis are at right angles", ev.dot(sv)),
        ]

    def find_foot(self) -> tuple[Vector, Combination]:
        """Of spring and damper: its place in design position, and the point."""
        (front_design, front), (rear_design, rear) = (kind.foot(self._carrier) for kind in self._kinds)
        zero = self._graph.zero
        terms = {
            basic: self._choose(front.terms.get(basic, zero), rear.terms.get(basic, zero))
            for basic in dict.fromkeys((*front.terms, *rear.terms))
        }
        return self._choose_vector(front_design, rear_design), Combination(self._graph, terms)

    def find_support(self, load: KnuckleLoad) -> Support:
        """How the suspension carries a load of the knuckle."""
        front, rear = (kind.support(load) for kind in self._kinds)
        v = self._choose_vector
        return Support(
            self._choose(front.tension, rear.tension),
            v(front.along_rod, rear.along_rod),
            v(front.top, rear.top),
            (v(front.upper_hinge[0], rear.upper_hinge[0]), v(front.upper_hinge[1], rear.upper_hinge[1])),
            v(front.clamp, rear.clamp),
            v(front.strut, rear.strut),
        )

    def keep_ball_joint(self, force: Vector) -> Vector:
        """The force in the lower ball joint, zero where there is none."""
        zero = _zero(force)
        front, rear = (force if kind.has_ball_joints else zero for kind in self._kinds)
        return self._choose_vector(front, rear)

    def name(self, name: str, corner: int) -> str | None:
        """What a body or constraint of the model is called in a corner; None for a body that is not there."""
        kind = self._kinds[corner // 2]
        if name in kind.names:
            return kind.names[name]
        own = self._chosen.get(name, (name, name))[corner // 2]
        body, colon, what = own.partition(":")
        return f"{kind.names.get(body) or body}{colon}{what}"

    def _choose(self, front: Atom, rear: Atom) -> Atom:
        return front if self._is_rear is None else self._graph.where_less(self._is_rear, 0.5, front, rear)

    def _choose_vector(self, front: Vector, rear: Vector) -> Vector:
        return Vector.of([self._choose(a, b) for a, b in zip(front, rear, strict=True)])

    def _choose_constraints(self, front: list[Constraint], rear: list[Constraint]) -> list[Constraint]:
        chosen = []
        for (a, x), (b, y) in zip(front, rear, strict=True):
            name = a if a == b else f"{a}; rear {b}"
            self._chosen[name] = a, b
            chosen.append((name, self._choose(x, y)))
        return chosen


def calc_hinge(load: KnuckleLoad, wishbone: Wishbone, at_joint: Vector) -> tuple[Vector, Vector]:
    """Force and moment at the hinge that a wishbone needs beside a force at its ball joint."""
    force, moment = calc_required_wrench(load.masses[wishbone.body], wishbone.hinge, load.gravity)
    return force - at_joint, moment - wishbone.arm.position.cross(at_joint)


def _add_wishbone(
    system: System, cp: ParameterSymbols, chassis: Frame, side: str, joint: Combination
) -> Wishbone:
    hinge_design, axis_design = cp.vector(f"{side}.hinge"), cp.vector(f"{side}.axis")
    hinge, axis = chassis.point(hinge_design), chassis.direction(axis_design)
    arm_design = joint.design - hinge_design
    normal_design = axis_design.cross(arm_design).unit()
    normal = system.vector(f"{side}.normal", normal_design, point=False, rank=1)
    frame = Frame(hinge, (axis, joint - hinge, normal))
    name = f"{side} wishbone"
    system.body(name, frame, cp.inertia(f"{side}_wishbone"))
    return Wishbone(name, frame, hinge, axis, joint, arm_design, axis_design)


def _constrain_arm(w: Wishbone) -> list[Constraint]:
    arm, u = w.arm.position, w.axis.position
    return [
        (f"{w.body}: length", arm.dot(arm) - w.arm_design.dot(w.arm_design)),
        (f"{w.body}: hinge axis", arm.dot(u) - w.arm_design.dot(w.axis_design)),
    ]


def _constrain_normal(w: Wishbone) -> list[Constraint]:
    n = w.frame.directions[2].position
    return [
        (f"{w.body}: normal at right angles to the hinge", n.dot(w.axis.position)),
        (f"{w.body}: normal at right angles to the arm", n.dot(w.arm.position)),
        (f"{w.body}: normal is a unit vector", n.dot(n) - 1.0),
    ]


def _constrain_rod(rod: TieRod) -> Constraint:
    return "tie rod: length", rod.rod.dot(rod.rod) - rod.design.dot(rod.design)


def _find_foot_on_arm(corner: _Corner) -> tuple[Vector, Combination]:
    design = corner.parameters.vector("spring.wishbone")
    return design, corner.lower.frame.point(design)


class _Rod:
    """What follows from moments about the kingpin, of which only the tie rod has one."""

    def __init__(self, load: KnuckleLoad) -> None:
        self.along = -load.tie_rod.rod.unit()
        """Unit vector from the knuckle to the inner end."""
        self.kingpin = load.kingpin.position
        rod_moment = (load.tie_rod.outer - load.joint).position.cross(self.along)
        self.tension = self.kingpin.dot(load.moment) / self.kingpin.dot(rod_moment)
        rest = load.moment - rod_moment * self.tension
        self.across = rest.cross(self.kingpin) / self.kingpin.dot(self.kingpin)
        """The force at the upper point but for its part along the kingpin."""


def _calc_strut_force(strut: Strut) -> Vector:
    """On the body that the strut stands on, N."""
    return strut.direction * -strut.force


def _zero(like: Vector) -> Vector:
    zero = like.x.graph.zero
    return Vector(zero, zero, zero)
