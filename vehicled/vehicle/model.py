"""The car as atoms: chassis, four double-wishbone corners, rack; 14 degrees of freedom.

Root coordinates: chassis point r1 (the vehicle origin) and its unit vectors v1, v2, v3 (ISO 8855 axes), and
the rack's point. Branch coordinates, per corner: lower and upper ball joint, the wishbones' normals, the
knuckle's unit vectors e (forward) and s (spin axis, to the left), and the spin of the wheel.

The wheel is axisymmetric, and its spin φ̇ is counted absolutely: φ̇ = θ̇ + Ω, with θ the angle relative to the
knuckle and Ω the knuckle's own rate about s. With this quasi-velocity the mass matrix stays constant, and the
exact equations hold one gyroscopic force, I φ̇ s×ṡ, on s. θ follows by integration of θ̇ = φ̇ − Ω.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vehicled.messages import WHEELS
from vehicled.multibody import ali3p
from vehicled.multibody.natural import Combination, Frame
from vehicled.multibody.system import Coordinate, Soft, System
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.vector import Vector
from vehicled.vehicle import outputs
from vehicled.vehicle.arrays import ADJUSTMENTS, CORNER_INPUTS, INPUTS
from vehicled.vehicle.chart import Axes
from vehicled.vehicle.corner import CornerParts, Strut, Tyre, WheelInertia
from vehicled.vehicle.extension import Extension
from vehicled.vehicle.friction import calc_clutch, calc_friction
from vehicled.vehicle.hard_points import Suspensions
from vehicled.vehicle.interface import CarKernels, Names
from vehicled.vehicle.outputs import Parts
from vehicled.vehicle.suspension import Linkage
from vehicled.vehicle.symbols import ParameterSymbols
from vehicled.vehicle.tyres import LAWS, Contact, LinearLaw, TMeasyLaw, calc_left, calc_used

AIR_DENSITY = 1.225
"""kg/m³, ISO 2533 at sea level."""
_STICKING_SPEED = 1.0
"""m/s: at a much lower speed a tyre sticks, and slides only after a deflection of centimetres."""


TyreLaw = LinearLaw | TMeasyLaw


@dataclass(frozen=True)
class VehicleProgram:
    """The finished program."""

    program: Program
    kernels: CarKernels
    step: ali3p.Ali3pStep
    names: Names
    results: tuple[Any, ...]
    """Results of the extensions."""


def build(
    tyre: str, suspensions: Suspensions, extensions: Sequence[Extension[Any]] = (), width: int = 1
) -> VehicleProgram:
    """The vehicle with one tyre law (`linear` or `tmeasy`), or `width` vehicles side by side.

    Parameters are inputs of the program: one build serves every vehicle of this topology. Design positions are
    given in chassis axes relative to the vehicle origin.
    """
    return _Builder(LAWS[tyre], suspensions, width).build(extensions)


class _Builder:
    """Puts the car together part by part; each method adds bodies, constraints and forces of one part."""

    def __init__(self, law: TyreLaw, suspensions: Suspensions, width: int) -> None:
        self.law, self.suspensions = law, suspensions
        self.g = g = Graph()
        self.program = Program(g, len(WHEELS), width)
        self.system = System(g, len(WHEELS))
        self.p = ParameterSymbols(g, "", 0)
        self.cp = ParameterSymbols(g, "corner.", 1)
        self.states = ParameterSymbols(g, "state.", 1)
        self.h, self.alpha = self.program.array("integration", 2)
        self.half_h = 0.5 * self.h
        self.rack, *rack_rates = rack = [g.symbol(f"input.{name}") for name in INPUTS]
        corners = [g.symbol(f"input.{name}", 1) for name in CORNER_INPUTS]
        *rod, self.drive, self.pressure, self.transfer_limit, self.road, self.road_rate = corners
        self.rod, *rod_rates = rod
        self.program.store("inputs", rack)
        self.program.store("corner_inputs", corners)
        self.adjustments = dict(
            zip(ADJUSTMENTS, self.program.array("adjustments", len(ADJUSTMENTS), 1), strict=True)
        )
        self.system.rates |= dict(zip([*rack[:2], *rod[:2]], [*rack_rates, *rod_rates], strict=True))

    def build(self, extensions: Sequence[Extension[Any]]) -> VehicleProgram:
        self._chassis()
        self._rack()
        self._suspension()
        self._wheel()
        gravity = Vector(self.p("gravity.x"), self.p("gravity.y"), self.p("gravity.z"))
        self.system.gravity(gravity)
        self._strut()
        self._anti_roll_bar()
        self._brake()
        self._tyre()
        self._driveline()
        self._differential()
        self._air()
        self._force_error()
        return self._finish(gravity, extensions)

    # -- bodies and joints ----------------------------------------------------------------------------

    def _chassis(self) -> None:
        system, zero, one = self.system, self.g.zero, self.g.one
        self.origin = system.vector("r1", Vector(zero, zero, zero), point=True)
        self.v1 = system.vector("v1", Vector(one, zero, zero), point=False)
        self.v2 = system.vector("v2", Vector(zero, one, zero), point=False)
        self.v3 = system.vector("v3", Vector(zero, zero, one), point=False)
        self.chassis = Frame(self.origin, (self.v1, self.v2, self.v3))
        system.body("chassis", self.chassis, self.p.inertia("chassis"))
        axes = {"v1": self.v1.position, "v2": self.v2.position, "v3": self.v3.position}
        for name, axis in axes.items():
            system.constraint(f"chassis: {name} is a unit vector", axis.dot(axis) - 1.0)
        for one_name, other in (("v1", "v2"), ("v2", "v3"), ("v3", "v1")):
            right_angle = axes[one_name].dot(axes[other])
            system.constraint(f"chassis: {one_name} and {other} are at right angles", right_angle)

    def _rack(self) -> None:
        """A body that moves along the chassis' y axis as prescribed."""
        design = self.p.vector("rack.com")
        point = self.system.vector("rack", design, point=True)
        self.system.body("rack", Frame(point, (self.v1, self.v2, self.v3)), self.p.inertia("rack"))
        guide = self.chassis.point(design).position + self.v2.position * self.rack
        for axis, is_there, should_be in zip("xyz", point.position, guide, strict=True):
            self.system.constraint(f"rack: guided along {axis}", is_there - should_be)

    def _suspension(self) -> None:
        """Suspension and steering of the knuckles."""

        def place_rod(design: Vector) -> Vector:
            # The rack is guided by the chassis, so that the rods' forces reach the chassis either way.
            return self.chassis.point(design).position + self.v2.position * (
                self.rod + self.adjustments["rod"]
            )

        linkage = Linkage(self.system, self.p, self.cp, self.chassis, place_rod, self.suspensions)
        self.linkage, self.lower, self.knuckle = linkage, linkage.lower, linkage.knuckle
        self.e, self.s = linkage.forward, linkage.spin_axis

    def _wheel(self) -> None:
        """Axisymmetric wheel, described by its absolute spin."""
        system, cp = self.system, self.cp
        self.centre_design = cp.vector("wheel.centre")
        self.centre = self.knuckle.point(self.centre_design)
        self.spin = system.coordinate("wheel.spin", 1, self.g.zero)
        system.bodies.append(("wheel", 1))
        mass, axial, transverse = cp("wheel.mass"), cp("wheel.axial"), cp("wheel.transverse")
        for one, its_share in self.centre.terms.items():
            for other, other_share in self.centre.terms.items():
                system.add_mass(one, other, mass * its_share * other_share)
        (self.axis_basic,) = self.s.terms
        system.add_mass(self.axis_basic, self.axis_basic, transverse)
        system.add_scalar_mass(self.spin, self.spin, axial)
        gyroscopic = self.s.position.cross(self.s.velocity) * (axial * self.spin.qd)
        system.force(self.s, gyroscopic)
        self.wheel = WheelInertia(mass, axial, transverse)
        # θ̇ = φ̇ − Ω
        ev, sv = self.e.position, self.s.position
        self.wheel_rate = self.spin.qd - self.e.velocity.dot(sv.cross(ev))
        self.last_wheel_rate = self.states("wheel.rate")

    # -- forces within the car ------------------------------------------------------------------------

    def _strut(self) -> None:
        """Spring, damper and rubber stops."""
        g, cp, half_h = self.g, self.cp, self.half_h
        top_design = cp.vector("spring.chassis")
        foot_design, foot = self.linkage.find_foot()
        strut = self.chassis.point(top_design) - foot
        length = strut.position.norm()
        direction = strut.position / length
        length_rate = direction.dot(strut.velocity)
        self.compression = (top_design - foot_design).norm() - length
        stiffness = cp("spring.stiffness")
        damping = g.where_less(length_rate, 0.0, cp("damper.bump"), cp("damper.rebound"))

        def stop(depth: Atom) -> tuple[Atom, Atom]:
            """Force and stiffness of a rubber stop: soft over its first millimetres, then linear."""
            depth = g.max(depth, 0.0)
            share = depth / (depth + cp("stop.softness"))
            return cp("stop.stiffness") * depth * share, cp("stop.stiffness") * share * (2.0 - share)

        bump, bump_stiffness = stop(self.compression - cp("stop.bump"))
        droop, droop_stiffness = stop(-self.compression - cp("stop.droop"))
        spring, damper = cp("spring.preload") + stiffness * self.compression, damping * length_rate
        force = spring + bump - droop - damper
        self.strut = Strut(foot, direction, force, spring, damper, bump, droop)
        self.system.force(strut, direction * self.strut.force)
        jacobian: dict[Coordinate, Atom] = {}
        for basic, share in strut.terms.items():
            for x, d in zip(self.system.of(basic), direction, strict=True):
                jacobian[x] = d * share
        total = stiffness + bump_stiffness + droop_stiffness
        self.system.soft.append(Soft(jacobian, half_h * damping + half_h * half_h * total))

    def _anti_roll_bar(self) -> None:
        """A force against the difference of the lower ball joints' heights over the chassis."""
        arm, up = self.lower.arm.position, self.v3.position
        self.joint_height = arm.dot(up)
        difference = self.joint_height - self.g.lane_swap(self.joint_height)
        force = self.cp("anti_roll.stiffness") * difference
        self.system.force(self.lower.arm, up * -force)
        self.system.force(self.v3, arm * -force)
        self.bar_force = force

    def _brake(self) -> None:
        """Disc friction: a stuck disc twists its mounting."""
        cp, half_h, windup = self.cp, self.half_h, self.states("brake.windup")
        stiffness, damping = cp("brake.stiffness"), cp("brake.damping")
        wound = windup + half_h * (self.last_wheel_rate + self.wheel_rate)
        limit = cp("brake.gain") * self.pressure
        disc = calc_friction(self.g, wound, self.wheel_rate, limit, stiffness, damping)
        self.friction_states = [(windup, disc.windup)]
        self.brake_torque = disc.torque
        ev, sv = self.e.position, self.s.position
        self.system.generalised_force(self.spin, -disc.torque)
        self.system.force(self.e, sv.cross(ev) * disc.torque)
        weight = half_h * (stiffness * half_h + damping) * disc.grip
        self.system.soft.append(Soft({self.spin: self.g.one}, weight))

    def _driveline(self) -> None:
        """Wheel torques, with their reaction on the final drive.

        A final drive in the chassis bears −τ about v2; one in a live axle bears −τ about the spin axis, and
        the propeller shaft turns the axle about v1 and the chassis oppositely.
        """
        system = self.system
        system.generalised_force(self.spin, self.drive)
        on_chassis, on_axle = self.linkage.share_reaction(self.drive)
        system.force(self.v3, self.v1.position * -on_chassis)
        if on_axle is not self.g.zero:
            shaft = self.v1.position * (on_axle * self.cp("propeller_share"))
            system.torque(self.knuckle, -(self.s.position * on_axle) - shaft)
            system.torque(self.chassis, shaft)

    def _differential(self) -> None:
        """A clutch between the wheels of an axle; the moved torque has no other reaction."""
        windup = self.states("differential.windup")
        difference = self.spin.qd - self.g.lane_swap(self.spin.qd)
        clutch, weight = calc_clutch(
            self.g, self.h, windup, difference, self.transfer_limit, self.cp("wheel.axial")
        )
        moved = -clutch.torque
        self.friction_states += [(windup, clutch.windup), (self.states("differential.torque"), moved)]
        self.system.generalised_force(self.spin, moved)
        self.system.soft.append(Soft({self.spin: self.g.one}, weight))

    # -- forces from outside ----------------------------------------------------------------------------

    def _tyre(self) -> None:
        """Contact of an ideally thin disc with the ground plane, raised under it to the height of the road."""
        g, cp, system = self.g, self.cp, self.system
        self.plane = self.program.array("ground", 4)
        up, height = Vector.of(self.plane[:3]), self.plane[3]
        sv, sd, spin = self.s.position, self.s.velocity, self.spin.qd
        centre, velocity = self.centre.position, self.centre.velocity
        radius = cp("tyre.radius")
        down = -(up - sv * up.dot(sv)).unit()
        ahead = sv.cross(up).unit()
        self.left = up.cross(ahead)
        # Along the wheel's plane, and normal to the ground.
        depth = radius - (centre.dot(up) - (height + self.road)) / -down.dot(up)
        self.penetration = depth * -down.dot(up)

        def material_velocity(r: Vector) -> Vector:
            """Velocity of the wheel's material at r from the hub, r square to s: ω = s×ṡ + φ̇ s."""
            return velocity - sv * sd.dot(r) + sv.cross(r) * spin

        if self.law.contact_on_ground:
            arm = down * (radius - g.max(depth, 0.0))
            # The rolling radius lies between the undeformed and the loaded one (TMeasy, section on slip).
            rolling_radius = radius - g.max(depth, 0.0) * cp("tyre.rolling_share")
        else:
            arm, rolling_radius = down * radius, radius
        contact_velocity = material_velocity(arm)
        vertical_stiffness, vertical_damping = cp("tyre.vertical_stiffness"), cp("tyre.vertical_damping")
        # The damper's force is at most the spring's, so that the load of a wheel that touches down grows from zero.
        pressed = vertical_stiffness * self.penetration
        damped = pressed - vertical_damping * (contact_velocity.dot(up) - self.road_rate)
        load = g.max(g.min(damped, 2.0 * pressed), 0.0)
        friction, greatest = 1.0 + self.adjustments["friction"], self.law.calc_greatest(g, load, cp)
        used = calc_used(g, self.adjustments["along"], friction * greatest)
        self.contact = Contact(
            v_t=material_velocity(down * rolling_radius).dot(ahead),
            v_l=contact_velocity.dot(self.left),
            hub_speed=velocity.dot(ahead),
            rolling_speed=rolling_radius * spin,
            load=load,
            penetration=self.penetration,
            radius=radius,
            stiffness=1.0 + self.adjustments["stiffness"],
            friction=friction * calc_left(g, used),
            h=self.h,
        )
        slip, along = self.adjustments["slip"], self.adjustments["along"]
        self.more_slip = more = slip * self.law.calc_excess(g, used, load, cp)
        self.slip_growth = slip * g.derivative(more, slip) + along * g.derivative(more, along)
        self.wheel_scale = 1.0 + self.adjustments["wheel"] + self.more_slip
        self.tyre_forces = tyre = self.law.forces(g, self.contact, cp, self.states)
        force = ahead * tyre.fx + self.left * tyre.fy + up * load
        system.force(self.centre, force)
        fx, fy, aligning = self._at_present([tyre.fx, tyre.fy, tyre.mz])
        # δr of the contact = δc − s (δs·r) + δφ s×r.
        system.force(self.s, arm * -(force.dot(sv)) + (up * tyre.mz).cross(sv))
        slow = cp("tyre.rolling_speed")
        resistance = cp("tyre.rolling_resistance") * load * radius * spin / g.sqrt(spin * spin + slow * slow)
        self.tyre = Tyre(fx, fy, ahead * fx + self.left * fy + up * load, arm, up, aligning, resistance)
        about_axle = force.dot(sv.cross(arm)) + tyre.mz * up.dot(sv) - resistance
        system.generalised_force(self.spin, about_axle)

        half_h = self.half_h
        touching = g.where_less(0.0, load, g.one, g.zero)
        vertical = (vertical_damping * half_h + vertical_stiffness * half_h * half_h) * touching
        roll = sv.cross(down * rolling_radius).dot(ahead)
        self._soft_contact(ahead, None, roll, tyre.damping_t * half_h)
        self._soft_contact(self.left, arm, g.zero, tyre.damping_l * half_h)
        self._soft_contact(up, arm, g.zero, vertical)

    def _soft_contact(self, axis: Vector, arm: Vector | None, per_spin: Atom, weight: Atom) -> None:
        """Tangent of a contact force along an axis.

        `arm`: given if the wheel's tilt moves the contact along the axis.
        """
        zero = self.g.zero
        row: dict[Coordinate, Atom] = {self.spin: per_spin}
        for basic, share in self.centre.terms.items():
            for x, component in zip(self.system.of(basic), axis, strict=True):
                row[x] = component * share
        if arm is not None:
            tilt = axis.dot(self.s.position)
            for x, r in zip(self.system.of(self.axis_basic), arm, strict=True):
                row[x] = row.get(x, zero) - r * tilt
        self.system.soft.append(Soft(row, weight))

    def _air(self) -> None:
        g, p = self.g, self.p
        forward = self.v1.position
        speed = self.origin.velocity.dot(forward)
        pressure = 0.5 * AIR_DENSITY * speed * speed
        drag = 0.5 * AIR_DENSITY * p("aero.drag_area") * speed * g.abs(speed)
        self.system.force(self.chassis.point(p.vector("aero.centre")), forward * -drag)
        for axle in ("front", "rear"):
            point = self.chassis.point(Vector(p(f"aero.{axle}"), g.zero, g.zero))
            self.system.force(point, self.v3.position * (pressure * p(f"aero.{axle}_lift_area")))

    def _force_error(self) -> None:
        """Force error of the model, estimated by a filter: N ahead and to the left, at the vehicle origin.

        Also its moment errors about v3 and v2, N·m.
        """
        ahead, left, yawing, pitching = self.program.array("external_force", 4)
        self.system.force(self.origin, self.v1.position * ahead + self.v2.position * left)
        self._couple(self.v1, self.v2, yawing)
        self._couple(self.v3, self.v1, pitching)

    def _couple(self, first: Combination, second: Combination, moment: Atom) -> None:
        """A moment on the chassis about first × second, two of its axes."""
        self.system.force(first, second.position * (0.5 * moment))
        self.system.force(second, first.position * (-0.5 * moment))

    # -- kernels ------------------------------------------------------------------------------------------

    def _finish(self, gravity: Vector, extensions: Sequence[Extension[Any]]) -> VehicleProgram:
        program, system, states = self.program, self.system, self.states
        ali3p.declare_state(program, system)
        for name in ("wheel.angle", *self.law.states):
            states(name)
        program.store("states", list(states.symbols.values()))
        wheel_angle = states("wheel.angle")
        step = ali3p.build(program, system, self.h, self.alpha, finish=self._new_states(wheel_angle))
        parts = self._parts(gravity, wheel_angle, step)
        kernels = outputs.add_kernels(program, parts)
        complete = replace(parts, kernels=kernels)
        results = tuple(e.add(program, complete, *e.arguments) for e in extensions)
        program.store("parameters", list(self.p.symbols.values()))
        program.store("corner_parameters", list(self.cp.symbols.values()))
        program.finish([*self.p.symbols.values(), *self.cp.symbols.values()])

        def names(items: list[tuple[str, int]]) -> list[str]:
            found = []
            for name, rank in sorted(items, key=lambda item: item[1]):  # the root first, as in the arrays
                if rank == 0:
                    found.append(name)
                own = [(self.linkage.name(name, k), w) for k, w in enumerate(WHEELS) if rank]
                found += [f"{n} {w}" for n, w in own if n is not None]
            return found

        found = Names(
            parameters=list(self.p.symbols),
            corner_parameters=list(self.cp.symbols),
            states=list(states.symbols),
            bodies=names(system.bodies),
            constraints=names([(n, f.rank) for n, f in system.constraints]),
            coordinates=names([(c.name, c.rank) for c in system.coordinates]),
        )
        return VehicleProgram(program, kernels, step, found, results)

    def _new_states(self, wheel_angle: Atom) -> Iterator[tuple[Atom, Atom]]:
        """Internal states at the end of a step."""
        turned = self.half_h * (self.last_wheel_rate + self.wheel_rate)
        yield from self.friction_states
        yield wheel_angle, wheel_angle + turned * self.wheel_scale
        yield self.last_wheel_rate, self.wheel_rate
        yield from self.tyre_forces.states

    def _parts(self, gravity: Vector, wheel_angle: Atom, step: ali3p.Ali3pStep) -> Parts:
        offset, up = self.centre - self.chassis.point(self.centre_design), self.v3
        travel = offset.position.dot(up.position) - self.cp("rest.travel")
        travel_rate = offset.velocity.dot(up.position) + offset.position.dot(up.velocity)
        damping = self._lateral_damping()
        (brake_torque,) = self._at_present([self.brake_torque])
        return Parts(
            system=self.system,
            chassis=Axes(self.v1.position, self.v2.position, self.v3.position),
            origin=self.origin,
            directions=(self.v1, self.v2, self.v3),
            spin=self.spin,
            spin_axis=self.s,
            wheel_angle=wheel_angle,
            wheel_rate=self.last_wheel_rate,
            wheel_scale=self.wheel_scale,
            more_slip=self.more_slip,
            slip_growth=self.slip_growth,
            tyre_forces=self.tyre_forces,
            contact=self.contact,
            hub_lateral=self.centre.velocity.dot(self.left),
            travel=travel,
            travel_rate=travel_rate,
            strut_force=self.strut.force,
            elastic_energy=self._elastic_energy(),
            gravity=gravity,
            ground=self.plane,
            lateral_damping=damping,
            wheel_place=self.centre.position - self.origin.position,
            wheel_left=self.left,
            tyre_relaxation=self.law.calc_relaxation(self.g, damping, self.cp),
            tyre_compliance=self.law.calc_compliance(self.g, self.contact, damping, self.cp),
            deflect_tyres=lambda change: self.law.deflect(change, self.states),
            linkage=self.linkage,
            corner=CornerParts(
                self.centre,
                self.spin.qd,
                self.wheel,
                self.strut,
                self.bar_force,
                brake_torque,
                self.tyre,
            ),
            step=step,
        )

    def _elastic_energy(self) -> Atom:
        """Potential energy of springs, bars and tyres' vertical stiffness, per corner (stops left out), J."""
        g, cp = self.g, self.cp
        spring = self.compression * (cp("spring.preload") + 0.5 * cp("spring.stiffness") * self.compression)
        difference = self.joint_height - g.lane_swap(self.joint_height)
        bar = 0.25 * cp("anti_roll.stiffness") * difference * difference
        pressed = g.max(self.penetration, 0.0)
        return spring + bar + 0.5 * cp("tyre.vertical_stiffness") * pressed * pressed

    def _at_present(self, forces: list[Atom]) -> list[Atom]:
        """Present forces of brake and tyre.

        The expressions give the forces at the end of the coming step, from twist and deflections before it.
        With a step of length zero they are the forces of the twist and the deflections after the last step.
        """
        return self.g.substitute(forces, {self.h: self.g.zero})

    def _lateral_damping(self) -> Atom:
        """−∂(steady lateral force)/∂(lateral velocity) of the tyres, N·s/m.

        Below walking pace slip counts less: while a tyre sticks, the ratio of two small velocities is no
        slip.
        """
        g = self.g
        along, across = self.contact.hub_speed, self.contact.v_l
        speed = g.max(g.abs(along), g.abs(across))
        counted = across * g.min(speed * (1.0 / _STICKING_SPEED), 1.0)
        probe = g.symbol("tyre.lateral velocity", 1)
        steady = self.law.steady_lateral(g, replace(self.contact, v_l=probe), self.cp)
        slope = g.substitute([-g.derivative(steady, probe)], {probe: counted})[0]
        return g.max(slope, 0.0)
