"""The car as atoms: chassis, four double-wishbone corners, rack; 14 degrees of freedom.

Root coordinates: chassis point r1 (the vehicle origin) and its unit vectors v1, v2, v3 (ISO 8855 axes), and
the rack's point. Branch coordinates, per corner: lower and upper ball joint, the wishbones' normals, the
knuckle's unit vectors e (forward) and s (spin axis, to the left), and the spin of the wheel.

The wheel is axisymmetric, and its spin φ̇ is counted absolutely: φ̇ = θ̇ + Ω, with θ the angle relative to the
knuckle and Ω the knuckle's own rate about s. With this quasi-velocity the mass matrix stays constant, and the
exact equations hold one gyroscopic force, I φ̇ s×ṡ, on s. θ follows by integration of θ̇ = φ̇ − Ω.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vehicled.messages import WHEELS
from vehicled.multibody import ali3p
from vehicled.multibody.natural import Combination, Frame, Inertia
from vehicled.multibody.system import Coordinate, Soft, System
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.vector import Vector
from vehicled.vehicle import outputs
from vehicled.vehicle.chart import Axes
from vehicled.vehicle.outputs import Parts
from vehicled.vehicle.tyres import LAWS, Contact, LinearTyre, TMeasy

AIR_DENSITY = 1.225
"""kg/m³, ISO 2533 at sea level."""


class _Parameters:
    """Parameter symbols by name, made when first asked for, of one rank."""

    def __init__(self, graph: Graph, prefix: str, rank: int):
        self.graph, self.prefix, self.rank = graph, prefix, rank
        self.symbols: dict[str, Atom] = {}

    def __call__(self, name: str) -> Atom:
        if name not in self.symbols:
            self.symbols[name] = self.graph.symbol(f"{self.prefix}{name}", self.rank)
        return self.symbols[name]

    def vector(self, name: str) -> Vector:
        return Vector(self(f"{name}.x"), self(f"{name}.y"), self(f"{name}.z"))

    def inertia(self, body: str) -> Inertia:
        moments = Vector(self(f"{body}.ixx"), self(f"{body}.iyy"), self(f"{body}.izz"))
        return Inertia(self(f"{body}.mass"), self.vector(f"{body}.com"), moments)


@dataclass(frozen=True)
class VehicleProgram:
    """The finished program and the names of what its arrays hold."""

    program: Program
    parameters: list[str]
    corner_parameters: list[str]
    states: list[str]
    """Of `states`: internal states per corner (brake, wheel angle, tyre)."""
    bodies: list[str]
    constraints: list[str]
    coordinates: list[str]


TyreLaw = LinearTyre | TMeasy
Extension = Callable[[Program, Parts], None]
"""Adds further kernels on the state of the car."""


def build(tyre: str, extensions: Sequence[Extension] = ()) -> VehicleProgram:
    """The vehicle with one tyre law (`linear` or `tmeasy`).

    Parameters are inputs of the program: one build serves every vehicle of this topology. Design positions are
    given in chassis axes relative to the vehicle origin.
    """
    g = Graph()
    lanes = len(WHEELS)
    program = Program(g, lanes)
    system = System(g, lanes)
    p = _Parameters(g, "", 0)
    cp = _Parameters(g, "corner.", 1)
    law = LAWS[tyre]
    zero, one = g.zero, g.one

    h, alpha = program.array("integration", 2)
    rack, rack_rate, rack_acceleration = (g.symbol(f"input.{n}") for n in ("rack", "rack.rate", "rack.acceleration"))
    rod, rod_rate, rod_acceleration = (g.symbol(f"input.{n}", 1) for n in ("rod", "rod.rate", "rod.acceleration"))
    drive, pressure = g.symbol("input.drive", 1), g.symbol("input.brake", 1)
    program.store("inputs", [rack, rack_rate, rack_acceleration])
    program.store("corner_inputs", [rod, rod_rate, rod_acceleration, drive, pressure])
    system.rates |= {rack: rack_rate, rack_rate: rack_acceleration, rod: rod_rate, rod_rate: rod_acceleration}
    states = _Parameters(g, "state.", 1)

    # -- chassis and rack ------------------------------------------------------------------------------
    origin = system.vector("r1", Vector(zero, zero, zero), point=True)
    v1 = system.vector("v1", Vector(one, zero, zero), point=False)
    v2 = system.vector("v2", Vector(zero, one, zero), point=False)
    v3 = system.vector("v3", Vector(zero, zero, one), point=False)
    chassis = Frame(origin, (v1, v2, v3))
    system.body("chassis", chassis, p.inertia("chassis"))
    axes = {"v1": v1.position, "v2": v2.position, "v3": v3.position}
    for name, a in axes.items():
        system.constraint(f"chassis: {name} is a unit vector", a.dot(a) - 1.0)
    for a, b in (("v1", "v2"), ("v2", "v3"), ("v3", "v1")):
        system.constraint(f"chassis: {a} and {b} are at right angles", axes[a].dot(axes[b]))

    rack_design = p.vector("rack.com")
    rack_point = system.vector("rack", rack_design, point=True)
    system.body("rack", Frame(rack_point, (v1, v2, v3)), p.inertia("rack"))
    guided = chassis.point(rack_design).position + v2.position * rack
    for axis, a, b in zip("xyz", rack_point.position, guided, strict=True):
        system.constraint(f"rack: guided along {axis}", a - b)

    # -- corners ---------------------------------------------------------------------------------------
    def wishbone(side: str, joint: Combination, joint_design: Vector) -> tuple[Frame, Combination]:
        """Constraints and body of a wishbone; its frame and its hinge point."""
        hinge_design, axis_design = cp.vector(f"{side}.hinge"), cp.vector(f"{side}.axis")
        hinge, axis = chassis.point(hinge_design), chassis.direction(axis_design)
        arm_design = joint_design - hinge_design
        normal_design = axis_design.cross(arm_design).unit()
        normal = system.vector(f"{side}.normal", normal_design, point=False, rank=1)
        frame = Frame(hinge, (axis, joint - hinge, normal))
        system.body(f"{side} wishbone", frame, cp.inertia(f"{side}_wishbone"))
        arm, u, n = (joint - hinge).position, axis.position, normal.position
        name = f"{side} wishbone"
        system.constraint(f"{name}: length", arm.dot(arm) - arm_design.dot(arm_design))
        system.constraint(f"{name}: hinge axis", arm.dot(u) - arm_design.dot(axis_design))
        system.constraint(f"{name}: normal at right angles to the hinge", n.dot(u))
        system.constraint(f"{name}: normal at right angles to the arm", n.dot(arm))
        system.constraint(f"{name}: normal is a unit vector", n.dot(n) - 1.0)
        return frame, hinge

    lower_design, upper_design = cp.vector("lower.joint"), cp.vector("upper.joint")
    lower = system.vector("lower.joint", lower_design, point=True, rank=1)
    upper = system.vector("upper.joint", upper_design, point=True, rank=1)
    lower_frame, lower_hinge = wishbone("lower", lower, lower_design)
    wishbone("upper", upper, upper_design)

    spin_design = cp.vector("wheel.axis")
    # Forward and square to the spin axis: s × z, made a unit vector.
    forward_design = Vector(spin_design.y, -spin_design.x, zero).unit()
    e = system.vector("knuckle.forward", forward_design, point=False, rank=1)
    s = system.vector("wheel.axis", spin_design, point=False, rank=1)
    knuckle = Frame(lower, (upper - lower, e, s))
    system.body("knuckle", knuckle, cp.inertia("knuckle"))
    pin, pin_design = (upper - lower).position, upper_design - lower_design
    ev, sv = e.position, s.position
    system.constraint("knuckle: distance of the ball joints", pin.dot(pin) - pin_design.dot(pin_design))
    system.constraint("knuckle: kingpin and forward", pin.dot(ev) - pin_design.dot(forward_design))
    system.constraint("knuckle: kingpin and spin axis", pin.dot(sv) - pin_design.dot(spin_design))
    system.constraint("knuckle: forward is a unit vector", ev.dot(ev) - 1.0)
    system.constraint("knuckle: spin axis is a unit vector", sv.dot(sv) - 1.0)
    system.constraint("knuckle: forward and spin axis are at right angles", ev.dot(sv))

    inner_design, outer_design = cp.vector("tie.inner"), cp.vector("tie.outer")
    inner = chassis.point(inner_design).position + v2.position * rod
    tie = knuckle.point(outer_design).position - inner
    tie_design = outer_design - inner_design
    system.constraint("tie rod: length", tie.dot(tie) - tie_design.dot(tie_design))

    # -- wheel: axisymmetric, absolute spin --------------------------------------------------------------
    centre_design = cp.vector("wheel.centre")
    centre = knuckle.point(centre_design)
    spin = system.coordinate("wheel.spin", 1, zero)
    system.bodies.append(("wheel", 1))
    wheel_mass, axial, transverse = cp("wheel.mass"), cp("wheel.axial"), cp("wheel.transverse")
    for a, ca in centre.terms.items():
        for b, cb in centre.terms.items():
            system.add_mass(a, b, wheel_mass * ca * cb)
    (axis_basic,) = s.terms
    system.add_mass(axis_basic, axis_basic, transverse)
    system.add_scalar_mass(spin, spin, axial)
    sd = s.velocity
    gyroscopic = sv.cross(sd) * (axial * spin.qd)
    system.force(s, gyroscopic)

    system.gravity(Vector(p("gravity.x"), p("gravity.y"), p("gravity.z")))

    # -- spring, damper, stops ---------------------------------------------------------------------------
    top_design, foot_design = cp.vector("spring.chassis"), cp.vector("spring.wishbone")
    strut = chassis.point(top_design) - lower_frame.point(foot_design)
    strut_vector, strut_velocity = strut.position, strut.velocity
    length = strut_vector.norm()
    direction = strut_vector / length
    length_rate = direction.dot(strut_velocity)
    design_length = (top_design - foot_design).norm()
    compression = design_length - length
    stiffness, damping = cp("spring.stiffness"), g.where_less(length_rate, 0.0, cp("damper.bump"), cp("damper.rebound"))

    def stop(depth: Atom) -> tuple[Atom, Atom]:
        """Force and stiffness of a rubber stop: soft over its first millimetres, then linear."""
        depth = g.max(depth, 0.0)
        soft = cp("stop.softness")
        share = depth / (depth + soft)
        return cp("stop.stiffness") * depth * share, cp("stop.stiffness") * share * (2.0 - share)

    bump, bump_stiffness = stop(compression - cp("stop.bump"))
    droop, droop_stiffness = stop(-compression - cp("stop.droop"))
    strut_force = cp("spring.preload") + stiffness * compression + bump - droop - damping * length_rate
    push = direction * strut_force
    system.force(strut, push)
    half_h = 0.5 * h
    weight = half_h * damping + half_h * half_h * (stiffness + bump_stiffness + droop_stiffness)
    strut_jacobian: dict[Coordinate, Atom] = {}
    for basic, c in strut.terms.items():
        for x, d in zip(system.of(basic), direction, strict=True):
            strut_jacobian[x] = d * c
    system.soft.append(Soft(strut_jacobian, weight))

    # -- anti-roll bar: resists the difference of the lower ball joints' heights over the chassis ---------
    arm = (lower - lower_hinge).position
    up_v = v3.position
    height = arm.dot(up_v)
    bar_force = cp("anti_roll.stiffness") * (height - g.lane_swap(height))
    system.force(lower - lower_hinge, up_v * -bar_force)
    system.force(v3, arm * -bar_force)

    # -- brake: disc friction that sticks without creep -----------------------------------------------------
    knuckle_rate = e.velocity.dot(sv.cross(ev))
    theta_rate = spin.qd - knuckle_rate
    windup, old_rate = states("brake.windup"), states("wheel.rate")
    brake_limit = cp("brake.gain") * pressure
    brake_stiffness, brake_damping = cp("brake.stiffness"), cp("brake.damping")
    trial = brake_stiffness * (windup + half_h * (old_rate + theta_rate)) + brake_damping * theta_rate
    brake = g.clamp(trial, -brake_limit, brake_limit)
    new_windup = (brake - brake_damping * theta_rate) / brake_stiffness
    limit_windup = brake_limit / brake_stiffness
    new_windup = g.clamp(new_windup, -limit_windup, limit_windup)
    grip = g.where_less(g.abs(trial), brake_limit, one, brake_limit / (g.abs(trial) + 1e-9))
    brake_weight = half_h * (brake_stiffness * half_h + brake_damping) * grip

    # -- tyre -----------------------------------------------------------------------------------------------
    plane = program.array("ground", 4)
    ground, ground_height = Vector.of(plane[:3]), plane[3]
    radius = cp("tyre.radius")
    across = ground - sv * ground.dot(sv)
    down = -across.unit()
    t = sv.cross(ground).unit()
    left = ground.cross(t)
    centre_position, centre_velocity = centre.position, centre.velocity
    depth = radius - (centre_position.dot(ground) - ground_height) / -down.dot(ground)
    penetration = depth * -down.dot(ground)

    def material_velocity(r: Vector) -> Vector:
        """Of the wheel's material at r from the hub, r square to s: ω = s×ṡ + φ̇ s."""
        return centre_velocity - sv * sd.dot(r) + sv.cross(r) * spin.qd

    if law.contact_on_ground:
        arm_vector = down * (radius - g.max(depth, 0.0))
        # The rolling radius lies between the undeformed and the loaded one (TMeasy, section on slip).
        rolling_radius = radius - g.max(depth, 0.0) * cp("tyre.rolling_share")
    else:
        arm_vector, rolling_radius = down * radius, radius
    contact_velocity = material_velocity(arm_vector)
    slip_velocity = material_velocity(down * rolling_radius)
    sinking = contact_velocity.dot(ground)
    vertical_stiffness, vertical_damping = cp("tyre.vertical_stiffness"), cp("tyre.vertical_damping")
    # The damper never outdoes the spring, so that the load of a wheel that touches down grows from zero.
    pressed = vertical_stiffness * penetration
    load = g.max(g.min(pressed - vertical_damping * sinking, 2.0 * pressed), 0.0)
    contact = Contact(
        v_t=slip_velocity.dot(t),
        v_l=contact_velocity.dot(left),
        hub_speed=centre_velocity.dot(t),
        rolling_speed=rolling_radius * spin.qd,
        load=load,
        penetration=penetration,
        radius=radius,
        h=h,
    )
    tyre_forces = law.forces(g, contact, cp, states)
    force = t * tyre_forces.fx + left * tyre_forces.fy + ground * load
    system.force(centre, force)
    # δr of the contact = δc − s (δs·r) + δφ s×r.
    system.force(s, arm_vector * -(force.dot(sv)) + (ground * tyre_forces.mz).cross(sv))
    rolling = cp("tyre.rolling_resistance") * load * radius
    slow = cp("tyre.rolling_speed")
    rolling_torque = rolling * spin.qd / g.sqrt(spin.qd * spin.qd + slow * slow)
    axial_arm = sv.cross(arm_vector)
    wheel_torque = drive - brake
    system.generalised_force(
        spin, force.dot(axial_arm) + tyre_forces.mz * ground.dot(sv) - rolling_torque + wheel_torque
    )
    system.force(e, sv.cross(ev) * brake)
    # The drive torque reacts on the final drive, which is part of the chassis: −τ about v2.
    system.force(v3, v1.position * -drive)

    in_contact = g.where_less(0.0, load, one, zero)
    for axis, per_rate, spin_part in (
        (t, tyre_forces.damping_t * half_h, sv.cross(down * rolling_radius).dot(t)),
        (left, tyre_forces.damping_l * half_h, zero),
        (ground, (vertical_damping * half_h + vertical_stiffness * half_h * half_h) * in_contact, zero),
    ):
        row: dict[Coordinate, Atom] = {}
        for basic, c in centre.terms.items():
            for x, a in zip(system.of(basic), axis, strict=True):
                row[x] = a * c
        tilt = axis.dot(sv)
        if axis is not t:
            for x, r in zip(system.of(axis_basic), arm_vector, strict=True):
                row[x] = row.get(x, zero) - r * tilt
        row[spin] = spin_part
        system.soft.append(Soft(row, per_rate))
    system.soft.append(Soft({spin: one}, brake_weight))

    # -- air ------------------------------------------------------------------------------------------------
    forward = v1.position
    air_speed = origin.velocity.dot(forward)
    dynamic = 0.5 * AIR_DENSITY * air_speed * air_speed
    drag = 0.5 * AIR_DENSITY * p("aero.drag_area") * air_speed * g.abs(air_speed)
    system.force(chassis.point(p.vector("aero.centre")), forward * -drag)
    for axle in ("front", "rear"):
        point = chassis.point(Vector(p(f"aero.{axle}"), zero, zero))
        system.force(point, v3.position * (dynamic * p(f"aero.{axle}_lift_area")))

    # -- kernels --------------------------------------------------------------------------------------------
    ali3p.declare_state(program, system)
    for name in ("wheel.angle", *law.states):
        states(name)
    program.store("states", list(states.symbols.values()))
    ali3p.build(program, system, h, alpha)
    wheel_angle = states("wheel.angle")
    program.kernel(
        "finish",
        [
            (windup, new_windup),
            (wheel_angle, wheel_angle + half_h * (old_rate + theta_rate)),
            (old_rate, theta_rate),
            *tyre_forces.states,
        ],
    )
    parts = Parts(
        system=system,
        chassis=Axes(v1.position, v2.position, v3.position),
        origin=origin,
        directions=(v1, v2, v3),
        spin=spin,
        spin_axis=s,
        wheel_angle=wheel_angle,
        wheel_rate=old_rate,
        tyre_forces=tyre_forces,
        contact=contact,
        hub_lateral=centre_velocity.dot(left),
        travel=(centre - chassis.point(centre_design)).position.dot(v3.position) - cp("rest.travel"),
        travel_rate=_travel_rate(centre - chassis.point(centre_design), v3),
        strut_force=strut_force,
        elastic_energy=_elastic(g, cp, compression, height, penetration),
        gravity=Vector(p("gravity.x"), p("gravity.y"), p("gravity.z")),
        ground=plane,
        lateral_damping=_lateral_damping(g, law, contact, cp),
        wheel_place=centre_position - origin.position,
        wheel_left=left,
    )
    outputs.add_kernels(program, parts)
    for extend in extensions:
        extend(program, parts)
    program.store("parameters", list(p.symbols.values()))
    program.store("corner_parameters", list(cp.symbols.values()))
    program.finish([*p.symbols.values(), *cp.symbols.values()])

    def names(items: list[tuple[str, int]]) -> list[str]:
        return [n if rank == 0 else f"{n} {w}" for n, rank in items for w in (WHEELS if rank else ("",))]

    return VehicleProgram(
        program=program,
        parameters=list(p.symbols),
        corner_parameters=list(cp.symbols),
        states=list(states.symbols),
        bodies=names(system.bodies),
        constraints=names([(n, f.rank) for n, f in system.constraints]),
        coordinates=names([(c.name, c.rank) for c in system.coordinates]),
    )


def _lateral_damping(g: Graph, law: TyreLaw, contact: Contact, cp: _Parameters) -> Atom:
    """−∂(steady lateral force)/∂(lateral velocity) of the tyres, N·s/m."""
    probe = g.symbol("tyre.lateral velocity", 1)
    steady = law.steady_lateral(g, replace(contact, v_l=probe), cp)
    slope = g.substitute([-g.derivative(steady, probe)], {probe: contact.v_l})[0]
    return g.max(slope, 0.0)


def _travel_rate(offset: Combination, up: Combination) -> Atom:
    return offset.velocity.dot(up.position) + offset.position.dot(up.velocity)


def _elastic(g: Graph, cp: _Parameters, compression: Atom, height: Atom, penetration: Atom) -> Atom:
    """Potential energy of springs, bars and tyres' vertical stiffness, per corner (stops left out), J."""
    spring = compression * (cp("spring.preload") + 0.5 * cp("spring.stiffness") * compression)
    difference = height - g.lane_swap(height)
    bar = 0.25 * cp("anti_roll.stiffness") * difference * difference
    pressed = g.max(penetration, 0.0)
    return spring + bar + 0.5 * cp("tyre.vertical_stiffness") * pressed * pressed
