"""Sensor models on the chassis as compiled kernels: the predicted reading of each sensor, and its Jacobian.

All are functions of the chassis' `pose`: the chart z = (r1, ψ, v1z, v2z); the rates, in the directions of a
correction: velocity ahead, to the left and up, angular velocity about the car's axes; and the accelerations that
the multibody simulation has (of the vehicle origin and of rotation, in vehicle axes). They are written once, and
differentiated by the compiler, so that h_z = h_q ∂q/∂z + h_q̇ ∂q̇/∂z and h_ż = h_q̇ ∂q̇/∂ż hold exactly (Sanjurjo,
sensor models).

Because they read `pose` and not q, they can be evaluated at the present state and at a stored past one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from vehicled.multibody.system import System
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.symbolic.vector import Vector
from vehicled.vehicle.arrays import (
    AHEAD,
    ANTENNA,
    CHART_SIZE,
    COMPONENTS,
    IMU,
    LEFT,
    MOUNTING,
    POSE,
    R_IMU,
    TYRE_CAUSES,
    UP,
    V1Z,
    V2Z,
)
from vehicled.vehicle.chart import Axes, axes, body_rates, yaw_of
from vehicled.vehicle.extension import Extension
from vehicled.vehicle.interface import SensorKernels
from vehicled.vehicle.outputs import Parts


@dataclass(frozen=True)
class SensorModels:
    """The sensors as atoms, for further kernels, and their own kernels."""

    kernels: SensorKernels
    chassis: ChassisMotion
    """Motion as a function of `pose`: readings of sensors anywhere on the car are expressions of it."""
    differentiate: Callable[[Atom], list[Atom]]
    """Gives the row (12,) of a reading: derivatives by chart and rates."""
    pose: list[Atom]
    """The array `pose`."""
    now: list[Atom]
    """The same quantities as functions of the car's state: what `observe_pose` stores."""
    rotation: list[Vector]
    """Rotation from vehicle axes to the IMU's, by rows."""
    imu: Vector
    """Place of the IMU, m in vehicle axes."""
    up: Vector
    """The vertical in vehicle axes, as a function of `pose`."""
    tyres: TyreResponse
    """Arrays of `observe_tyres`."""
    readings: dict[str, list[Atom]]
    """Components by name of the sensor."""
    jacobians: dict[str, list[list[Atom]]]
    """Rows (12,) of derivatives by chart and rates, by name of the sensor."""
    motion: list[Atom]
    """d/dt of chart and rates (12,) at `pose`: determines the change of a reading per second."""
    rise: tuple[Atom, Atom]
    """Slopes of the ground along the heading and across it, to the left, at `pose`."""
    inertia: tuple[Atom, Atom]
    """Mass of the car, and its moment about the vertical through the vehicle origin."""


def add_sensor_kernels(program: Program, parts: Parts) -> SensorKernels:
    """Function of the extension `SENSOR_KERNELS`."""
    return add_sensor_models(program, parts).kernels


SENSOR_KERNELS = Extension(add_sensor_kernels, SensorKernels)


def add_sensor_models(program: Program, parts: Parts, jacobians_too: bool = True) -> SensorModels:
    """Add the kernels `observe_pose` (state to `pose`) and one per sensor.

    A sensor's kernel computes from `pose` and `mounting` `predicted` (3,) and, with `jacobians_too`,
    `sensitivity` (3, 12) by rows.
    """
    pose = program.array("pose", len(POSE))
    mounting = _Mounting.of(program.array("mounting", len(MOUNTING)))
    predicted = program.array("predicted", COMPONENTS)
    sensitivity = program.array("sensitivity", COMPONENTS * CHART_SIZE)
    now = _pose_now(parts)
    tyres = TyreResponse.of(program)
    inertia = _planar_inertia(parts.system)
    kernels = {
        "observe_tyres": _tyre_response(program, parts, inertia, tyres),
        "observe_pose": program.kernel("observe_pose", zip(pose, now, strict=True)),
    }
    motion = ChassisMotion.of(program.graph, pose)
    rise = _rise_of_ground(parts, motion)
    readings = _predict(program.graph, parts, motion, mounting)
    differentiate = partial(_differentiate, program.graph, pose, rise)
    jacobians: dict[str, list[list[Atom]]] = {}
    for name, h in readings.items():
        jacobians[name] = [differentiate(value) for value in h]
        stores = list(zip(predicted, h, strict=False))
        if jacobians_too:
            stores += zip(sensitivity, chain.from_iterable(jacobians[name]), strict=False)
        kernels[name] = program.kernel(name, stores)
    return SensorModels(
        kernels=SensorKernels(**kernels),
        chassis=motion,
        differentiate=differentiate,
        pose=pose,
        now=now,
        rotation=mounting.R_imu_body,
        imu=mounting.p_imu_body,
        up=Vector(motion.axes.v1.z, motion.axes.v2.z, motion.axes.v3.z),
        tyres=tyres,
        readings=readings,
        jacobians=jacobians,
        motion=_differentiate_by_time(program.graph, pose, motion),
        rise=rise,
        inertia=inertia,
    )


def _differentiate_by_time(g: Graph, pose: list[Atom], motion: ChassisMotion) -> list[Atom]:
    """d/dt of the first elements of `pose`, chart and rates."""
    v, a, alpha = motion.v_origin_world, motion.a_origin_body, motion.alpha_body
    ahead, left, up, turning, *slopes = pose[AHEAD:CHART_SIZE]
    of_chart = [v.x, v.y, up, turning, *slopes]
    return [*of_chart, a.x + turning * left, a.y - turning * ahead, g.zero, alpha.z, -alpha.y, alpha.x]


def _pose_now(parts: Parts) -> list[Atom]:
    """The elements of `pose` as functions of the car's state."""
    g, chassis = parts.system.graph, parts.chassis
    d1, d2, d3 = (d.velocity for d in parts.directions)
    dd1, dd2, dd3 = (d.acceleration for d in parts.directions)
    w = body_rates(chassis, d1, d2, d3)
    level = g.sqrt(chassis.v1.x * chassis.v1.x + chassis.v1.y * chassis.v1.y)
    east, north = chassis.v1.x / level, chassis.v1.y / level
    v = parts.origin.velocity
    rates = [east * v.x + north * v.y, east * v.y - north * v.x, v.z, w.z, -w.y, w.x]
    linear = chassis.to_body(parts.origin.acceleration)
    # d/dt of (v̇2·v3, v̇3·v1, v̇1·v2)
    angular = Vector(
        dd2.dot(chassis.v3) + d2.dot(d3), dd3.dot(chassis.v1) + d3.dot(d1), dd1.dot(chassis.v2) + d1.dot(d2)
    )
    chart = [*parts.origin.position, yaw_of(g, chassis), chassis.v1.z, chassis.v2.z]
    return [*chart, *rates, *linear, *angular]


@dataclass(frozen=True)
class _Mounting:
    """The array `mounting`: places of antenna and IMU on the car."""

    p_antenna_body: Vector
    p_imu_body: Vector
    R_imu_body: list[Vector]
    """Rotation from vehicle axes to the IMU's, by rows."""

    @classmethod
    def of(cls, mounting: list[Atom]) -> _Mounting:
        """From the elements of the array."""
        rotation = mounting[R_IMU]
        rows = [Vector.of(rotation[k : k + 3]) for k in range(0, len(rotation), 3)]
        return cls(Vector.of(mounting[ANTENNA]), Vector.of(mounting[IMU]), rows)


@dataclass(frozen=True)
class ChassisMotion:
    """Motion of the chassis as functions of `pose`."""

    axes: Axes
    cos_yaw: Atom
    sin_yaw: Atom
    p_origin_world: Vector
    v_origin_world: Vector
    w_body: Vector
    a_origin_body: Vector
    alpha_body: Vector

    @classmethod
    def of(cls, g: Graph, pose: list[Atom]) -> ChassisMotion:
        """From the elements of the array `pose`."""
        x, y, z, yaw, v1z, v2z, ahead, left, up, wz, minus_wy, wx, *accelerations = pose
        a = axes(g, yaw, v1z, v2z)
        cos, sin = g.cos(yaw), g.sin(yaw)
        return cls(
            axes=a,
            cos_yaw=cos,
            sin_yaw=sin,
            p_origin_world=Vector(x, y, z),
            v_origin_world=Vector(cos * ahead - sin * left, sin * ahead + cos * left, up),
            w_body=Vector(wx, -minus_wy, wz),
            a_origin_body=Vector.of(accelerations[:3]),
            alpha_body=Vector.of(accelerations[3:]),
        )

    def locate(self, p_body: Vector) -> Vector:
        """Position of a place on the chassis (m, vehicle axes) in the world, m."""
        return self.p_origin_world + self.axes.to_world(p_body)

    def calc_velocity(self, p_body: Vector) -> Vector:
        """Velocity of a place on the chassis (m, vehicle axes) in the world, m/s."""
        return self.v_origin_world + self.axes.to_world(self.w_body.cross(p_body))


def _predict(g: Graph, parts: Parts, motion: ChassisMotion, mounting: _Mounting) -> dict[str, list[Atom]]:
    """Predicted reading by name of the sensor."""
    a, w_body = motion.axes, motion.w_body
    p_antenna_body, p_imu_body = mounting.p_antenna_body, mounting.p_imu_body
    v_antenna_world = motion.calc_velocity(p_antenna_body)
    specific_force_body = (
        motion.a_origin_body
        - a.to_body(parts.gravity)
        + motion.alpha_body.cross(p_imu_body)
        + w_body.cross(w_body.cross(p_imu_body))
    )
    v_body = a.to_body(motion.v_origin_world)
    return {
        "gnss_position": list(motion.locate(p_antenna_body)),
        "gnss_speed": [calc_speed(g, v_antenna_world)],
        "gnss_course": [calc_course(g, v_antenna_world)],
        "imu_gyro": [r.dot(w_body) for r in mounting.R_imu_body],
        "imu_accelerometer": [r.dot(specific_force_body) for r in mounting.R_imu_body],
        "body_velocity": [v_body.x, v_body.y, g.atan2(v_body.y, v_body.x)],
    }


def calc_speed(g: Graph, velocity: Vector) -> Atom:
    """Speed over ground of a velocity in the world, m/s."""
    return g.sqrt(velocity.x * velocity.x + velocity.y * velocity.y + 1e-12)


def calc_course(g: Graph, direction: Vector) -> Atom:
    """Angle of a direction in the world, rad clockwise from north."""
    return g.atan2(direction.x, direction.y)


def _rise_of_ground(parts: Parts, motion: ChassisMotion) -> tuple[Atom, Atom]:
    """Slopes of the ground along the heading and across it, to the left."""
    normal, cos, sin = Vector.of(parts.ground[:3]), motion.cos_yaw, motion.sin_yaw
    ahead = (normal.x * cos + normal.y * sin) / normal.z
    left = (normal.y * cos - normal.x * sin) / normal.z
    return ahead, left


def _differentiate(g: Graph, pose: list[Atom], rise: tuple[Atom, Atom], value: Atom) -> list[Atom]:
    """Row (12,) of derivatives of a reading by the errors of chart and rates.

    The car moves along the ground: its vertical velocity follows from slope and horizontal velocity, and the
    third rate is normal to the ground (see the kernel `correct`).
    """
    row = [g.derivative(value, pose[j]) for j in range(CHART_SIZE)]
    by_up = row[UP]
    row[V1Z], row[V2Z] = row[V1Z] + by_up * pose[AHEAD], row[V2Z] + by_up * pose[LEFT]
    row[AHEAD], row[LEFT] = row[AHEAD] - by_up * rise[0], row[LEFT] - by_up * rise[1]
    return row


_SMALL_SLIP = 0.003
"""rad: about the standard deviation of an estimated slip."""
_SLOW = 3.0
"""m/s: at a lower speed, slip is calculated with this speed."""


@dataclass(frozen=True)
class TyreResponse:
    """Effects of errors on lateral tyre forces by axle, front and rear, and of these on the car.

    The arrays of `observe_tyres`. Forces are divided by the mass of the car, m/s².
    """

    steady: list[list[Atom]]
    """(2, len(TYRE_CAUSES)) steady forces per cause."""
    relaxation: list[Atom]
    """(2,) rates at which forces approach the steady ones, 1/s."""
    acceleration: list[list[Atom]]
    """(3, 2) forward, lateral and yaw acceleration per force."""
    deflection: list[Atom]
    """(2,) lanes: change of each tyre's deflection per change of an axle's force, m per m/s²."""

    @classmethod
    def of(cls, program: Program) -> TyreResponse:
        """Declare the arrays."""
        n = len(TYRE_CAUSES)
        steady = program.array("tyre_steady", 2 * n)
        by_force = program.array("tyre_acceleration", 6)
        return cls(
            steady=[steady[:n], steady[n:]],
            relaxation=program.array("tyre_relaxation", 2),
            acceleration=[by_force[0:2], by_force[2:4], by_force[4:6]],
            deflection=program.array("tyre_deflection", 2, 1),
        )


def _tyre_response(
    program: Program, parts: Parts, inertia: tuple[Atom, Atom], tyres: TyreResponse
) -> KernelHandle:
    """Kernel `observe_tyres`: the arrays of a TyreResponse.

    An error of lateral velocity or yaw rate changes the tyre forces and so the accelerations; without this term an
    accelerometer's innovation from sideslip would be attributed to a bank of the road. Along the car the wheels soon
    turn as fast as the car moves, so that only the lateral forces count.

    As a tyre's curve is F = μ F₀(c v/μ), its force changes by v ∂F/∂v with the stiffness c and by F − v ∂F/∂v with μ.
    Small slip is mostly the filter's own corrections, which are correlated with the next innovations; it
    is no measure of a tyre, and counts less.
    """
    g, a = program.graph, parts.chassis
    place, left = a.to_body(parts.wheel_place), a.to_body(parts.wheel_left)
    direction = [left.x, left.y, place.x * left.y - place.y * left.x]
    mass, yaw_inertia = inertia
    damping, contact = parts.lateral_damping, parts.contact
    speed = g.max(g.abs(contact.hub_speed), _SLOW)
    slip = contact.v_l / speed
    counted = slip * slip / (slip * slip + _SMALL_SLIP**2)
    by_stiffness = -(damping * contact.v_l) * counted
    front, rear = g.where_less(place.x, 0.0, g.zero, g.one), g.where_less(place.x, 0.0, g.one, g.zero)
    changes = [-(damping * d) for d in direction]
    # When a wheel is turned to the left, its lateral velocity changes to the right.
    changes += [front * damping * contact.hub_speed, front * by_stiffness, rear * by_stiffness]
    changes.append(parts.tyre_forces.fy * counted - by_stiffness)
    stores = []
    for i, axle in enumerate((front, rear)):
        # A change is distributed by load, like stiffness.
        share = axle * contact.load / (g.lane_sum(axle * contact.load) + 1e-3)
        stores.append((tyres.deflection[i], share * mass * parts.tyre_compliance))
        stores.append((tyres.relaxation[i], g.lane_sum(share * parts.tyre_relaxation)))
        stores += [(tyres.steady[i][j], g.lane_sum(axle * change) / mass) for j, change in enumerate(changes)]
        for k, of_car in enumerate((g.one, g.one, yaw_inertia / mass)):
            stores.append((tyres.acceleration[k][i], g.lane_sum(share * direction[k]) / of_car))
    return program.kernel("observe_tyres", stores)


def _planar_inertia(system: System) -> tuple[Atom, Atom]:
    """Mass of the whole car, and its moment about the vertical through the vehicle origin, in design position."""
    g = system.graph
    design = dict(zip(system.coordinates, system.design, strict=True))
    east, north = {}, {}
    for basic in system.basics:
        x, y, _ = system.of(basic)
        # Velocities of a shift along x and of a turn about z.
        east[x] = g.one if basic.point else g.zero
        north[x], north[y] = -design[y], design[x]
    totals = []
    for motion in (east, north):
        sums = {0: g.zero, 1: g.zero}
        for a, b, m in system.mass:
            if a in motion and b in motion:
                term = m * motion[a] * motion[b]
                if term is not g.zero:
                    sums[term.rank] = sums[term.rank] + term
        totals.append(sums[0] + g.lane_sum(sums[1]))
    return totals[0], totals[1]
