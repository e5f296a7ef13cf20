"""Kinds of suspension: guides and steering of a wheel carrier, foot of spring and damper, and their forces.

Each kind adds its own bodies to lower wishbone and knuckle, which `Linkage` gives all kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vehicled.multibody.natural import Basic, Combination, Frame, calc_required_wrench
from vehicled.multibody.system import Coordinate, System
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector
from vehicled.vehicle.corner import Strut, TieRod, Wishbone
from vehicled.vehicle.symbols import ParameterSymbols

Constraint = tuple[str, Atom]
"""Name, and the expression that has to be zero."""
Masses = Mapping[tuple[Basic, Basic], Atom]


@dataclass(frozen=True)
class CornerBodies:
    """Common bodies of corners of all kinds."""

    system: System
    root: ParameterSymbols
    """Parameters of the car."""
    parameters: ParameterSymbols
    """Parameters of the corner."""
    chassis: Frame
    lower: Wishbone
    upper_joint: Combination
    """A point of the knuckle, above the lower ball joint."""


@dataclass(frozen=True)
class Carrier:
    """The knuckle, and the rod that steers it, if any."""

    frame: Frame
    forward: Combination
    spin_axis: Combination
    tie_rod: TieRod


@dataclass(frozen=True)
class KnuckleLoad:
    """Forces that knuckle and wheel need from the suspension, world axes."""

    moment: Vector
    """Moment about the lower ball joint, N·m."""
    kingpin: Combination
    """From the lower ball joint to the upper point at which the knuckle is held, m."""
    tie_rod: TieRod
    joint: Combination
    """The lower ball joint."""
    strut: Strut
    masses: Mapping[str, Masses]
    gravity: Vector
    required: Vector
    """Sum of all forces on the knuckle, N."""
    hub: Vector
    """Force of the wheel, part of that sum."""
    multipliers: Mapping[str, Atom]
    """λ by name of the constraint, for the model's own forces."""
    added: Vector
    """Further forces on knuckle and wheel together, N."""
    added_moment: Vector
    """Moment of these about the lower ball joint, N·m."""


@dataclass(frozen=True)
class Support:
    """Forces with which a kind of suspension supports that load, N and N·m."""

    tension: Atom
    """Tension of the tie rod."""
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
    axle: Vector
    """Force of the rest of a live axle on the knuckle."""


class SuspensionKind(ABC):
    """One kind of suspension; its constructor adds the bodies that only this kind has."""

    names: Mapping[str, str | None] = {}
    """Bodies of the model with another name in this kind, or None if it lacks the body."""
    has_ball_joints = True
    has_hinge = True
    """Whether the lower wishbone turns about a hinge; else it is a rod, which carries nothing across it."""
    has_final_drive = False
    """Whether a final drive is fixed to the wheel carriers, instead of to the chassis."""
    root: Sequence[Coordinate] = ()
    """Further coordinates, besides those of the corners, that their travel moves."""

    def __init__(self, corner: CornerBodies) -> None:
        self._corner = corner

    def hold(self) -> list[Constraint]:
        """Constraints of the bodies that only this kind has; in all lanes, like these bodies."""
        return []

    def join(self, c: Carrier) -> list[Constraint]:
        """Further constraints on the knuckle."""
        return []

    @abstractmethod
    def guide(self, c: Carrier) -> list[Constraint]:
        """Two constraints on the knuckle."""

    def steer(self, c: Carrier) -> Constraint:
        """The last constraint on the knuckle: by default the length of the tie rod."""
        rod = c.tie_rod
        return "tie rod: length", rod.rod.dot(rod.rod) - rod.design.dot(rod.design)

    def foot(self, c: Carrier) -> tuple[Vector, Combination]:
        """Foot of spring and damper: its place in design position, and the point; here on the lower wishbone."""
        design = self._corner.parameters.vector("spring.wishbone")
        return design, self._corner.lower.frame.point(design)

    @abstractmethod
    def support(self, load: KnuckleLoad) -> Support:
        """The forces of these constraints."""


class _DoubleWishbone(SuspensionKind):
    """An upper wishbone guides the knuckle, a tie rod steers it; the spring stands on the lower wishbone."""

    def __init__(self, corner: CornerBodies) -> None:
        super().__init__(corner)
        c, joint = corner, corner.upper_joint
        self._upper = add_wishbone(c.system, c.parameters, c.chassis, "upper", joint)
        self._arm, self._normal = constrain_arm(self._upper), constrain_normal(self._upper)

    def hold(self) -> list[Constraint]:
        return self._normal

    def guide(self, c: Carrier) -> list[Constraint]:
        return self._arm

    def support(self, load: KnuckleLoad) -> Support:
        rod = _Rod(load)
        upper, zero = self._upper, make_zero(load.moment)
        _, needed = calc_hinge(load, upper, zero)
        axis = upper.axis.position
        lever = axis.cross(upper.arm.position)
        # The wishbone carries the opposite of the force of the joint on the knuckle.
        along = (-axis.dot(needed) - lever.dot(rod.across)) / lever.dot(rod.kingpin)
        top = rod.across + rod.kingpin * along
        return replace(
            _make_none(load),
            tension=rod.tension,
            along_rod=rod.along,
            top=top,
            upper_hinge=calc_hinge(load, upper, -top),
            strut=_calc_strut_force(load.strut),
        )


class _Macpherson(SuspensionKind):
    """A line of the knuckle passes through a point of the chassis, and the spring acts along it; a tie rod steers."""

    names: Mapping[str, str | None] = {"upper wishbone": None}

    def guide(self, c: Carrier) -> list[Constraint]:
        corner, g = self._corner, self._corner.system.graph
        top, foot = corner.parameters.vector("spring.chassis"), corner.parameters.vector("strut.foot")
        # Two directions of the knuckle square to the line; the x axis serves, as no strut lies along the car.
        one = (top - foot).cross(Vector(g.one, g.zero, g.zero)).unit()
        other = (top - foot).cross(one).unit()
        off = (corner.chassis.point(top) - corner.upper_joint).position
        return [
            (f"strut: top on its axis, {name}", off.dot(c.frame.direction(d).position))
            for name, d in (("across", one), ("along", other))
        ]

    def foot(self, c: Carrier) -> tuple[Vector, Combination]:
        design = self._corner.parameters.vector("strut.foot")
        return design, c.frame.point(design)

    def support(self, load: KnuckleLoad) -> Support:
        # The upper support of the knuckle is the bearing of the strut in the chassis; the knuckle slides
        # along it.
        top = self._corner.chassis.point(self._corner.parameters.vector("spring.chassis"))
        rod, strut = _Rod(replace(load, kingpin=top - load.joint)), load.strut
        # Without friction, only spring, damper and stops act along the strut.
        along = (-strut.force - rod.across.dot(strut.direction)) / rod.kingpin.dot(strut.direction)
        return replace(
            _make_none(load),
            tension=rod.tension,
            along_rod=rod.along,
            top=rod.across + rod.kingpin * along,
        )


class _SwingArm(SuspensionKind):
    """The knuckle is fixed to the lower wishbone, which is the arm; the spring stands on it."""

    names: Mapping[str, str | None] = {"lower wishbone": "arm", "upper wishbone": None, "knuckle": None}
    has_ball_joints = False

    def guide(self, c: Carrier) -> list[Constraint]:
        return _fix_attitude(c, "arm", self._corner.lower.frame)[:2]

    def steer(self, c: Carrier) -> Constraint:
        return _fix_attitude(c, "arm", self._corner.lower.frame)[2]

    def support(self, load: KnuckleLoad) -> Support:
        return replace(
            _make_none(load),
            clamp=load.moment,
            strut=_calc_strut_force(load.strut),
        )


class _LiveAxle(SuspensionKind):
    """The knuckle is fixed to the axle; per corner a trailing link, a rod and the spring hold the axle."""

    names: Mapping[str, str | None] = {
        "lower wishbone": "trailing link",
        "upper wishbone": None,
        "knuckle": None,
        "tie rod": "Panhard rod or upper link",
    }
    has_hinge = False
    has_final_drive = True

    def __init__(self, corner: CornerBodies) -> None:
        super().__init__(corner)
        system = corner.system
        zero, one = system.graph.zero, system.graph.one
        axes = (
            ("forward", Vector(one, zero, zero)),
            ("left", Vector(zero, one, zero)),
            ("up", Vector(zero, zero, one)),
        )
        centre = system.vector("axle.centre", corner.root.vector("axle.com"), point=True)
        self._axes = {name: system.vector(f"axle.{name}", axis, point=False) for name, axis in axes}
        self._frame = Frame(centre, tuple(self._axes.values()))
        system.body("axle", self._frame, corner.root.inertia("axle"))
        basics = [basic for v in (centre, *self._axes.values()) for basic in v.terms]
        self.root: Sequence[Coordinate] = [c for basic in basics for c in system.of(basic)]

    def hold(self) -> list[Constraint]:
        axes = [(name, axis.position) for name, axis in self._axes.items()]
        units = [(f"axle: {name} is a unit vector", axis.dot(axis) - 1.0) for name, axis in axes]
        pairs = zip(axes, axes[1:] + axes[:1], strict=True)
        return units + [(f"axle: {a} and {b} are at right angles", u.dot(v)) for (a, u), (b, v) in pairs]

    def join(self, c: Carrier) -> list[Constraint]:
        joint = self._corner.lower.joint
        off = (joint - self._frame.point(joint.design)).position
        places = [(f"axle: place of the wheel along {a}", x) for a, x in zip("xyz", off, strict=True)]
        return [_fix_attitude(c, "axle", self._frame)[2], *places]

    def guide(self, c: Carrier) -> list[Constraint]:
        return _fix_attitude(c, "axle", self._frame)[:2]

    def foot(self, c: Carrier) -> tuple[Vector, Combination]:
        design = self._corner.parameters.vector("spring.axle")
        return design, c.frame.point(design)

    def support(self, load: KnuckleLoad) -> Support:
        rod, arm = load.tie_rod.rod, self._corner.lower.arm.position
        more_of_link, more_of_rod = self._calc_added_tensions(load)
        # Forces −Φ_qᵀ λ of rods; their constraints are their lengths squared. The spring stands on the axle.
        link = arm * (-2.0 * load.multipliers["lower wishbone: length"]) - arm.unit() * more_of_link
        tension, along = 2.0 * load.multipliers["tie rod: length"] * rod.norm(), -rod.unit()
        tension = tension + more_of_rod
        return replace(
            _make_none(load),
            tension=tension,
            along_rod=along,
            axle=load.required - load.hub - along * tension - link,
        )

    def _calc_added_tensions(self, load: KnuckleLoad) -> tuple[Atom, Atom]:
        """Tensions of link and tie rod of a corner due to the added forces on both corners, N.

        The four rods of an axle balance its forces along and across the car and its moments about the car's
        vertical and lateral axes. Springs balance the rest, as the axle travels and rolls.
        """
        swap = self._corner.system.graph.lane_swap
        ahead, left, up = (d.position for d in self._corner.chassis.directions)
        centre = self._frame.origin.position

        def project(force: Vector, moment: Vector, at: Vector) -> list[Atom]:
            moment = moment + (at - centre).cross(force)
            return [force.dot(ahead), force.dot(left), moment.dot(left), moment.dot(up)]

        none = make_zero(load.added)
        along_link, along_rod = -self._corner.lower.arm.position.unit(), -load.tie_rod.rod.unit()
        link = project(along_link, none, load.joint.position)
        rod = project(along_rod, none, load.tie_rod.outer.position)
        others = [[swap(a) for a in column] for column in (link, rod)]
        wrench = project(load.added, load.added_moment, load.joint.position)
        right = [-(a + swap(a)) for a in wrench]
        whole = _calc_determinant([link, rod, *others])
        return (
            _calc_determinant([right, rod, *others]) / whole,
            _calc_determinant([link, right, *others]) / whole,
        )


KINDS: dict[str, Callable[[CornerBodies], SuspensionKind]] = {
    "double_wishbone": _DoubleWishbone,
    "macpherson": _Macpherson,
    "swing_arm": _SwingArm,
    "live_axle": _LiveAxle,
}


def calc_hinge(load: KnuckleLoad, wishbone: Wishbone, at_joint: Vector) -> tuple[Vector, Vector]:
    """Force and moment needed at the hinge of a wishbone, in addition to a force at its ball joint."""
    force, moment = calc_required_wrench(load.masses[wishbone.body], wishbone.hinge, load.gravity)
    return force - at_joint, moment - wishbone.arm.position.cross(at_joint)


def add_wishbone(
    system: System, cp: ParameterSymbols, chassis: Frame, side: str, joint: Combination
) -> Wishbone:
    """A body on a hinge of the chassis, `side` (lower or upper) of a corner, that ends at a ball joint."""
    hinge_design, axis_design = cp.vector(f"{side}.hinge"), cp.vector(f"{side}.axis")
    hinge, axis = chassis.point(hinge_design), chassis.direction(axis_design)
    arm_design = joint.design - hinge_design
    normal_design = axis_design.cross(arm_design).unit()
    normal = system.vector(f"{side}.normal", normal_design, point=False, rank=1)
    frame = Frame(hinge, (axis, joint - hinge, normal))
    name = f"{side} wishbone"
    system.body(name, frame, cp.inertia(f"{side}_wishbone"))
    return Wishbone(name, frame, hinge, axis, joint, arm_design, axis_design)


def constrain_arm(w: Wishbone) -> list[Constraint]:
    """The ball joint keeps its distance from the hinge, and its place along the hinge axis."""
    arm, u = w.arm.position, w.axis.position
    return [
        (f"{w.body}: length", arm.dot(arm) - w.arm_design.dot(w.arm_design)),
        (f"{w.body}: hinge axis", arm.dot(u) - w.arm_design.dot(w.axis_design)),
    ]


def constrain_normal(w: Wishbone) -> list[Constraint]:
    """The normal is a unit vector at right angles to hinge axis and arm."""
    n = w.frame.directions[2].position
    return [
        (f"{w.body}: normal at right angles to the hinge", n.dot(w.axis.position)),
        (f"{w.body}: normal at right angles to the arm", n.dot(w.arm.position)),
        (f"{w.body}: normal is a unit vector", n.dot(n) - 1.0),
    ]


def _fix_attitude(c: Carrier, name: str, body: Frame) -> list[Constraint]:
    """The knuckle does not turn in a body: forward and camber guide the wheel, toe steers it."""
    forward, spin = c.forward.position, c.spin_axis.position
    left = body.direction(c.spin_axis.design).position
    up = body.direction(c.forward.design.cross(c.spin_axis.design)).position
    return [
        (f"{name}: forward of the wheel", forward.dot(up)),
        (f"{name}: camber of the wheel", spin.dot(up)),
        (f"{name}: toe of the wheel", forward.dot(left)),
    ]


class _Rod:
    """Forces that follow from moments about the kingpin, which only the tie rod balances."""

    def __init__(self, load: KnuckleLoad) -> None:
        self.along = -load.tie_rod.rod.unit()
        """Unit vector from the knuckle to the inner end."""
        self.kingpin = load.kingpin.position
        rod_moment = (load.tie_rod.outer - load.joint).position.cross(self.along)
        self.tension = self.kingpin.dot(load.moment) / self.kingpin.dot(rod_moment)
        rest = load.moment - rod_moment * self.tension
        self.across = rest.cross(self.kingpin) / self.kingpin.dot(self.kingpin)
        """The force at the upper point, without its component along the kingpin."""


def _calc_strut_force(strut: Strut) -> Vector:
    """Force on the body that the strut stands on, N."""
    return strut.direction * -strut.force


def _calc_determinant(columns: Sequence[Sequence[Atom]]) -> Atom:
    """Determinant of a square matrix, by cofactors of its first row."""
    first = columns[0][0]
    if len(columns) == 1:
        return first
    total = first.graph.zero
    for k, column in enumerate(columns):
        others = [c[1:] for i, c in enumerate(columns) if i != k]
        product = column[0] * _calc_determinant(others)
        total = total - product if k % 2 else total + product
    return total


def _make_none(load: KnuckleLoad) -> Support:
    """A support without any force."""
    zero = make_zero(load.moment)
    return Support(zero.x, zero, zero, (zero, zero), zero, zero, zero)


def make_zero(like: Vector) -> Vector:
    """A vector of zeros in the same graph."""
    zero = like.x.graph.zero
    return Vector(zero, zero, zero)
