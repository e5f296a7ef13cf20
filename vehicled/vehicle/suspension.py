"""Suspensions of the wheels: one kind per axle, all of the same parts, so that the lanes share one code.

A corner has a lower wishbone on a hinge of the chassis with a ball joint at its end, and a knuckle that
starts at this joint and has a second point above. A kind defines the guides of the knuckle (two constraints),
its steering (one), the foot of spring and damper, and the forces of these constraints. If the axles are of
two kinds, the parameter `is_rear` selects in each lane; an upper wishbone that only the other axle has
carries nothing there.

A live axle is a separate body, as only such bodies couple corners. It hangs on the rods of two corners, with
trailing links in place of the lower wishbones, and their knuckles are fixed to it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from vehicled.multibody.natural import Combination, Frame
from vehicled.multibody.system import System
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector
from vehicled.vehicle.corner import TieRod
from vehicled.vehicle.hard_points import Suspensions
from vehicled.vehicle.suspension_kinds import (
    KINDS,
    Carrier,
    Constraint,
    CornerBodies,
    KnuckleLoad,
    Support,
    add_wishbone,
    constrain_arm,
    constrain_normal,
    make_zero,
)
from vehicled.vehicle.symbols import ParameterSymbols


class Linkage:
    """Bodies and constraints of the corners, with one kind of suspension per axle."""

    def __init__(
        self,
        system: System,
        root: ParameterSymbols,
        parameters: ParameterSymbols,
        chassis: Frame,
        place_rod: Callable[[Vector], Vector],
        suspensions: Suspensions,
    ) -> None:
        """`place_rod`: gives the present place, world axes, of a tie rod's inner end from its design position."""
        self._graph, cp = system.graph, parameters
        self._chosen: dict[str, tuple[str | None, str | None]] = {}
        """Names of a constraint in front and rear corners, None where it does not exist."""
        self._is_rear = cp("is_rear") if suspensions[0] != suspensions[1] else None
        lower_design, upper_design = cp.vector("lower.joint"), cp.vector("upper.joint")
        joint = system.vector("lower.joint", lower_design, point=True, rank=1)
        upper = system.vector("upper.joint", upper_design, point=True, rank=1)
        self.lower = add_wishbone(system, cp, chassis, "lower", joint)
        (length, along_hinge), normal = constrain_arm(self.lower), constrain_normal(self.lower)
        corner = CornerBodies(system, root, cp, chassis, self.lower, upper)
        made = {name: KINDS[name](corner) for name in dict.fromkeys(suspensions)}
        front, rear = self._kinds = tuple(made[name] for name in suspensions)
        self.root = [c for kind in made.values() for c in kind.root]
        """Further coordinates, besides those of the corners, that their travel moves."""
        hinged = ([along_hinge] if kind.has_hinge else [] for kind in self._kinds)
        on_lower = [length, *self._choose_constraints(*hinged), *normal]

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
        self._carrier = c = Carrier(self.knuckle, self.forward, self.spin_axis, self.tie_rod)
        guides = self._choose_constraints(front.guide(c), rear.guide(c))
        steering = self._choose_constraints([front.steer(c)], [rear.steer(c)])
        held = [constraint for kind in made.values() for constraint in kind.hold()]
        joined = self._choose_constraints(front.join(c), rear.join(c))
        for name, value in (*on_lower, *guides, *held, *rigid, *steering, *joined):
            system.constraint(name, value)

    def _constrain_knuckle(self, pin_design: Vector) -> list[Constraint]:
        """Constraints that make the knuckle a rigid body."""
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
        """Foot of spring and damper: its place in design position, and the point."""
        (front_design, front), (rear_design, rear) = (kind.foot(self._carrier) for kind in self._kinds)
        zero = self._graph.zero
        terms = {
            basic: self._choose(front.terms.get(basic, zero), rear.terms.get(basic, zero))
            for basic in dict.fromkeys((*front.terms, *rear.terms))
        }
        return self._choose_vector(front_design, rear_design), Combination(self._graph, terms)

    def find_support(self, load: KnuckleLoad) -> Support:
        """Forces with which the suspension carries a load of the knuckle."""
        front, rear = (kind.support(load) for kind in self._kinds)
        v = self._choose_vector
        return Support(
            self._choose(front.tension, rear.tension),
            v(front.along_rod, rear.along_rod),
            v(front.top, rear.top),
            (v(front.upper_hinge[0], rear.upper_hinge[0]), v(front.upper_hinge[1], rear.upper_hinge[1])),
            v(front.clamp, rear.clamp),
            v(front.strut, rear.strut),
            v(front.axle, rear.axle),
        )

    def share_reaction(self, torque: Atom) -> tuple[Atom, Atom]:
        """Reactions of a wheel's drive torque on chassis and wheel carrier, N·m."""
        zero = self._graph.zero
        (a, b), (c, d) = ((zero, torque) if kind.has_final_drive else (torque, zero) for kind in self._kinds)
        return self._choose(a, c), self._choose(b, d)

    def keep_across(self, force: Vector) -> Vector:
        """A force across the lower wishbone, or zero if it is a rod."""
        zero = make_zero(force)
        front, rear = (force if kind.has_hinge else zero for kind in self._kinds)
        return self._choose_vector(front, rear)

    def keep_ball_joint(self, force: Vector) -> Vector:
        """The force in the lower ball joint, or zero if there is none."""
        zero = make_zero(force)
        front, rear = (force if kind.has_ball_joints else zero for kind in self._kinds)
        return self._choose_vector(front, rear)

    def name(self, name: str, corner: int) -> str | None:
        """Name of a body or constraint of the model in a corner; None if it does not exist there."""
        kind = self._kinds[corner // 2]
        if name in kind.names:
            return kind.names[name]
        own = self._chosen.get(name, (name, name))[corner // 2]
        if own is None:
            return None
        body, colon, what = own.partition(":")
        return f"{kind.names.get(body) or body}{colon}{what}"

    def _choose(self, front: Atom, rear: Atom) -> Atom:
        return front if self._is_rear is None else self._graph.where_less(self._is_rear, 0.5, front, rear)

    def _choose_vector(self, front: Vector, rear: Vector) -> Vector:
        return Vector.of([self._choose(a, b) for a, b in zip(front, rear, strict=True)])

    def _choose_constraints(self, front: list[Constraint], rear: list[Constraint]) -> list[Constraint]:
        """Constraints chosen pairwise by axle; a constraint that the other axle lacks is zero there."""
        chosen, lacking = [], (None, self._graph.zero)
        for (a, x), (b, y) in zip_longest(front, rear, fillvalue=lacking):
            name = a or "" if a == b else f"{a or 'none'}; rear {b or 'none'}"
            self._chosen[name] = a, b
            chosen.append((name, self._choose(x, y)))
        return chosen
