"""Kernels on the state of a car: for its outputs, its correction and its energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vehicled.multibody.ali3p import Ali3pStep
from vehicled.multibody.natural import Combination
from vehicled.multibody.system import Coordinate, System
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.symbolic.vector import Vector
from vehicled.vehicle.arrays import (
    CHART_SIZE,
    CORNER_CORRECTIONS,
    CORNER_OUTPUTS,
    PLACE,
    ROOT_OUTPUTS,
    SPEEDS,
    V1Z,
    V1Z_RATE,
    V2Z,
    V2Z_RATE,
    YAW,
    YAW_RATE,
)
from vehicled.vehicle.chart import Axes, angular_velocity, axes, body_rates, chart_rates, yaw_of
from vehicled.vehicle.corner import CornerParts
from vehicled.vehicle.interface import CarKernels
from vehicled.vehicle.suspension import Linkage
from vehicled.vehicle.tyres import Changes, Contact, TyreForces

SLIP_SPEED = 0.5
"""m/s: below this hub speed, slip ratio and slip angle are referred to this speed instead."""


@dataclass(frozen=True)
class Parts:
    """Parts of the model from which kernels are made."""

    system: System
    chassis: Axes
    origin: Combination
    directions: tuple[Combination, Combination, Combination]
    spin: Coordinate
    spin_axis: Combination
    wheel_angle: Atom
    wheel_rate: Atom
    wheel_scale: Atom
    """Ratio of real to simulated rotation, because of different rolling radii or slip."""
    more_slip: Atom
    """Slip ratio in addition to the simulated one, from forces that bypass the simulated wheels."""
    slip_growth: Atom
    """Its change per relative change of these forces."""
    tyre_forces: TyreForces
    contact: Contact
    hub_lateral: Atom
    travel: Atom
    """Height of the wheel centre over its place at rest, in chassis axes, m."""
    travel_rate: Atom
    strut_force: Atom
    elastic_energy: Atom
    gravity: Vector
    ground: list[Atom]
    """Unit normal (3) of the ground and its distance from the world's origin along it, m."""
    lateral_damping: Atom
    """−∂(lateral force)/∂(lateral velocity) of each tyre without transients, N·s/m."""
    wheel_place: Vector
    """Vectors from the vehicle origin to the wheel centres, world axes, m."""
    wheel_left: Vector
    """Unit vectors of the lateral forces, world axes."""
    tyre_relaxation: Atom
    """Rate at which lateral forces approach their steady values, 1/s."""
    tyre_compliance: Atom
    """Change of deflection per change of lateral force, m/N."""
    deflect_tyres: Callable[[Atom], Changes]
    """Internal states of the tyres after an additional lateral deflection, m."""
    linkage: Linkage
    """Suspensions of the knuckles."""
    corner: CornerParts
    """Bodies and forces of a corner."""
    step: Ali3pStep
    """The parts of the step, for other integrators."""
    kernels: CarKernels | None = None
    """Kernels of every car, once they have been added: extensions find them here."""


def add_kernels(program: Program, parts: Parts) -> CarKernels:
    """Add all kernels of a car to its program."""
    return CarKernels(
        prepare=program.prepare,
        step=parts.step.kernels,
        report=_report(program, parts),
        correct=_correct(program, parts),
        travel_jacobian=_travel_jacobian(program, parts),
        design=_design(program, parts),
        energy=_energy(program, parts),
    )


def _report(program: Program, parts: Parts) -> KernelHandle:
    """Kernel `report`: `outputs` in the order of ROOT_OUTPUTS, `corner_outputs` in that of CORNER_OUTPUTS."""
    g, a = program.graph, parts.chassis
    r, v = parts.origin.position, a.to_body(parts.origin.velocity)
    w = body_rates(a, *(d.velocity for d in parts.directions))
    acceleration = a.to_body(parts.origin.acceleration)
    roll = g.atan2(a.v2.z, a.v3.z)
    pitch = g.atan2(-a.v1.z, g.sqrt(a.v1.x * a.v1.x + a.v1.y * a.v1.y))
    values = [*r, roll, pitch, yaw_of(g, a), *v, *w, *acceleration, g.atan2(v.y, v.x)]
    contact, tyre = parts.contact, parts.corner.tyre
    speed = g.max(g.abs(contact.hub_speed), SLIP_SPEED)
    corner = [
        g.atan(parts.hub_lateral / speed),
        parts.more_slip - contact.v_t / speed,
        tyre.fx,
        tyre.fy,
        contact.load,
        parts.travel,
        parts.travel_rate,
        parts.strut_force,
        parts.wheel_angle,
        parts.wheel_rate * parts.wheel_scale,
    ]
    outputs = program.array("outputs", len(ROOT_OUTPUTS))
    corner_outputs = program.array("corner_outputs", len(CORNER_OUTPUTS), 1)
    return program.kernel(
        "report", [*zip(outputs, values, strict=True), *zip(corner_outputs, corner, strict=True)]
    )


def _correct(program: Program, parts: Parts) -> KernelHandle:
    """Kernel `correct`: moves the whole car.

    By `correction` = (Δz, Δż) in the chart and `corner_correction` = (Δθ, Δθ̇); the suspensions keep their
    travel, so that every constraint stays satisfied.

    With `carry` = 1 the car's motion and the ground are moved with the car: velocity is rotated with the
    heading and angular velocity with the car; their changes are in directions along and across the car and
    normal to the ground, and about the car's z, −y and x axes; the ground keeps its distance and slope
    relative to the car. Height and slope of a road are known at the car's position, and a correction of the
    heading must not cause sideslip.
    """
    g, old, system = program.graph, parts.chassis, parts.system
    delta = program.array("correction", CHART_SIZE)
    by_angle, by_speed = program.array("corner_correction", len(CORNER_CORRECTIONS), 1)
    (carry,) = program.array("carry", 1)
    new = axes(g, yaw_of(g, old) + delta[YAW], old.v1.z + delta[V1Z], old.v2.z + delta[V2Z])
    # By rows, the rotation V_new V_oldᵀ from the old axes to the new ones, in world axes.
    R_new_old = [old.v1 * a + old.v2 * b + old.v3 * c for a, b, c in zip(new.v1, new.v2, new.v3, strict=True)]

    def turn(v: Vector) -> Vector:
        return Vector(*(row.dot(v) for row in R_new_old))

    turning, slope_1, slope_2 = delta[YAW_RATE], delta[V1Z_RATE], delta[V2Z_RATE]
    w_old_world = old.to_world(body_rates(old, *(d.velocity for d in parts.directions)))
    rates = chart_rates(old, w_old_world) + Vector(turning, slope_1, slope_2)
    free_change = angular_velocity(new, rates) - turn(w_old_world)
    carried_change = new.to_world(Vector(slope_2, -slope_1, turning))
    change = Vector.of(
        [g.where_less(carry, 0.5, a, b) for a, b in zip(free_change, carried_change, strict=True)]
    )
    r_old, v_old, a_old = parts.origin.position, parts.origin.velocity, parts.origin.acceleration
    shift, v_change = Vector.of(delta[PLACE]), Vector.of(delta[SPEEDS])
    normal, height = Vector.of(parts.ground[:3]), parts.ground[3]
    turned = turn(normal)
    level = g.sqrt(old.v1.x * old.v1.x + old.v1.y * old.v1.y)
    ahead_x, ahead_y = old.v1.x / level, old.v1.y / level
    wx = v_old.x + ahead_x * v_change.x - ahead_y * v_change.y
    wy = v_old.y + ahead_y * v_change.x + ahead_x * v_change.y
    cos, sin = g.cos(delta[YAW]), g.sin(delta[YAW])
    ux, uy = cos * wx - sin * wy, sin * wx + cos * wy
    uz = (normal.dot(v_old) + v_change.z - turned.x * ux - turned.y * uy) / turned.z
    carried, free = Vector(ux, uy, uz), v_old + v_change
    v_new = Vector.of([g.where_less(carry, 0.5, a, b) for a, b in zip(free, carried, strict=True)])
    stores: list[tuple[Atom, Atom]] = []
    for basic in system.basics:
        coordinates = system.of(basic)
        position, velocity, acceleration = basic.position, basic.velocity, basic.acceleration
        if basic.point:
            arm = turn(position - r_old)
            position = r_old + shift + arm
            velocity = v_new + turn(velocity - v_old) + change.cross(arm)
            acceleration = a_old + turn(acceleration - a_old)
        else:
            position, acceleration = turn(position), turn(acceleration)
            velocity = turn(velocity) + change.cross(position)
        for c, q, qd, qdd in zip(coordinates, position, velocity, acceleration, strict=True):
            stores += [(c.q, q), (c.qd, qd), (c.qdd, qdd)]
    plane = [*turned, turned.dot(r_old + shift) - normal.dot(r_old) + height]
    stores += [
        (old, g.where_less(carry, 0.5, old, new)) for old, new in zip(parts.ground, plane, strict=True)
    ]
    axis = turn(parts.spin_axis.position)
    stores.append((parts.spin.qd, parts.spin.qd + by_speed + change.dot(axis)))
    stores.append((parts.wheel_angle, parts.wheel_angle + by_angle))
    stores.append((parts.wheel_rate, parts.wheel_rate + by_speed))
    return program.kernel("correct", stores)


def _travel_jacobian(program: Program, parts: Parts) -> KernelHandle:
    """Kernel `travel_jacobian`: derivatives of the corners' constraints and wheel travel by their coordinates.

    `travel_jacobian` (m, n + k) by rows and corners; n: corner coordinates without the wheel's spin; k:
    further coordinates that travel moves (`Linkage.root`). Rows: the corners' constraints, those on the
    further coordinates alone, and last the wheel's travel. With k = 0 it is square.

    Its solution is the motion of corners per travel (matrix R of the suspensions, `travel.py`).
    """
    system, root = parts.system, parts.linkage.root
    coordinates = [*(c for c in system.branch if c is not parts.spin), *root]
    rows = {
        rank: [
            row
            for (_, phi), row in zip(system.constraints, system.constraint_jacobian(), strict=True)
            if phi.rank == rank and (rank or not row.keys().isdisjoint(root))
        ]
        for rank in (1, 0)
    }
    g = program.graph
    travel = {c: g.derivative(parts.travel, c.q) for c in coordinates}
    elements = [(row, c) for row in (*rows[1], *rows[0], travel) for c in coordinates]
    array = program.array("travel_jacobian", len(elements), 1)
    stores = [
        (place, row[c])
        for place, (row, c) in zip(array, elements, strict=True)
        if c in row and row[c] is not g.zero
    ]
    return program.kernel("travel_jacobian", stores)


def _design(program: Program, parts: Parts) -> KernelHandle:
    """Kernel `design`: the design configuration at rest."""
    zero = program.graph.zero
    stores = []
    for c, value in zip(parts.system.coordinates, parts.system.design, strict=True):
        stores += [(c.q, value), (c.qd, zero), (c.qdd, zero)]
    return program.kernel("design", stores)


def _energy(program: Program, parts: Parts) -> KernelHandle:
    """Kernel `energy`: `energy` = (kinetic, gravitational, elastic), J."""
    g, system = program.graph, parts.system
    totals = {0: g.zero, 1: g.zero}
    for a, b, m in system.mass:
        term = 0.5 * m * a.qd * b.qd
        totals[term.rank] = totals[term.rank] + term
    kinetic = totals[0] + g.lane_sum(totals[1])
    heights = {0: g.zero, 1: g.zero}
    pull = list(parts.gravity)
    points = {c: k for b in system.basics if b.point for k, c in enumerate(system.of(b))}
    for a, b, m in system.mass:
        if b in points:
            # qᵀ M g, as gravity is the same for all points and zero for directions.
            term = -(m * pull[points[b]] * a.q)
            heights[term.rank] = heights[term.rank] + term
    gravitational = heights[0] + (g.lane_sum(heights[1]) if heights[1].rank else g.zero)
    return program.kernel(
        "energy",
        zip(
            program.array("energy", 3),
            [kinetic, gravitational, g.lane_sum(parts.elastic_energy)],
            strict=True,
        ),
    )
