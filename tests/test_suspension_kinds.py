"""MacPherson struts and swing arms: geometry by an independent solver, statics, energy, forces in joints."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from suspension_rig import Carriers, Published, mirror, place, points_of
from vehicle_rig import LOSSLESS, Basics, G, Rig, sine, vehicle

from vehicled.messages import CORNER_LOADS, WHEELS
from vehicled.vehicle.hard_points import AnyPoints, calc_spin_axis
from vehicled.vehicle.kinematics import calc_strut_ratio
from vehicled.vehicle.loads import _LOADS, JointLoads
from vehicled.vehicle.parameters import BodyParameters, Vehicle
from vehicled.vehicle.topology import calc_topology

QUICK = [("macpherson", "swing_arm")]
OTHERS = [("macpherson", "macpherson"), ("macpherson", "double_wishbone")]
OTHERS += [("double_wishbone", "macpherson"), ("double_wishbone", "swing_arm")]
PAIRS = [*QUICK, *(pytest.param(pair, marks=pytest.mark.slow) for pair in OTHERS)]


@lru_cache
def car_of(front: str, rear: str) -> Vehicle:
    """The shipped compact car, with its own axles or those of the reference vehicle."""
    compact, reference = vehicle("compact"), vehicle("reference_vehicle")
    x, behind = (axle.hard_points.wheel_center[0] for axle in (compact.front, compact.rear))
    axles = {"macpherson": compact.front, "swing_arm": compact.rear, "double_wishbone": reference.rear}
    return replace(compact, front=shifted(axles[front], x), rear=shifted(axles[rear], behind))


def shifted(axle, x: float):
    """The same axle elsewhere."""
    ahead = x - axle.hard_points.wheel_center[0]

    def moved(part):
        places = {name: value for name, value in vars(part).items() if isinstance(value, tuple)}
        kept = {name for name in places if name.endswith(("axis", "inertia"))}
        return replace(part, **{n: (p[0] + ahead, *p[1:]) for n, p in places.items() if n not in kept})

    parts = {name: moved(p) for name, p in vars(axle).items() if isinstance(p, (AnyPoints, BodyParameters))}
    return replace(axle, **parts)


def rig_of(v: Vehicle) -> Rig:
    """A rig with the code for forces in joints, so that all tests share one program."""
    return Rig(v, (_LOADS,))


@lru_cache
def settled(pair: tuple[str, str]) -> Rig:
    """A shared rig at rest, which tests must not change."""
    return rig_of(car_of(*pair))


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def pair(request):
    return request.param


# -- geometry ----------------------------------------------------------------------------------------------


def test_places_of_wheels_satisfy_the_distances_between_hard_points(pair):
    compare_places(car_of(*pair))


def test_places_of_wheels_of_a_swing_axle_satisfy_the_distances_between_hard_points():
    compact = vehicle("compact")
    x, *_ = compact.rear.hard_points.wheel_center
    swing = replace(compact.rear.hard_points, hinge=(x + 0.05, 0.12, 0.31), hinge_axis=(1.0, 0.1, 0.05))
    compare_places(replace(compact, rear=replace(compact.rear, hard_points=swing)))


def compare_places(v: Vehicle) -> None:
    """Compare the model with an independent solver while the car bounces, rolls and steers."""
    rig = rig_of(v).set(stop__stiffness=0.0).roll(12.0)
    change = np.zeros(12)
    change[[2, 4, 5]] = 0.05, 0.02, 0.03
    rig.car.correct(change)
    travels, rack = [], sine(0.02, 2.0)
    for k in range(8):
        rig.drive(0.06, rack=lambda t, begun=0.06 * k: rack(begun + t))
        carriers = Carriers(rig)
        for n in range(4):
            found, side = carriers(n), mirror(n)[1]
            travels.append(found.center[2] - found.design_center[2])
            moved = side * rig.car.inputs[0] if n < 2 else 0.0
            expected = place(points_of(rig, n), travels[-1], moved)
            assert found.center == pytest.approx(expected.center, abs=1e-7)
            # Camber, toe and caster together.
            assert np.abs(found.R - expected.R).max() < 1e-6
    assert min(travels) < -0.03
    assert max(travels) > 0.03


@pytest.mark.parametrize("end", ["front", "rear"])
def test_the_motion_ratio_is_that_of_small_travels(end):
    points = getattr(vehicle("compact"), end).hard_points
    ends = {"front": ("strut_top", "strut_foot"), "rear": ("spring_chassis", "spring_arm")}[end]
    top, foot = (getattr(points, name) for name in ends)
    down, up = (np.linalg.norm(place(points, h).of(foot) - top) for h in (-1e-4, 1e-4))
    assert calc_strut_ratio(points) == pytest.approx((down - up) / 2e-4, rel=1e-6)


def test_roll_centres_are_those_of_instant_centres_in_the_plane():
    compact = vehicle("compact")
    x = compact.rear.hard_points.wheel_center[0]
    ahead, behind = compact.front.hard_points, compact.rear.hard_points
    flat = {name: (0.0, *getattr(ahead, name)[1:]) for name in ("lower_hinge", "lower_ball_joint")}
    flat |= {name: (0.0, *getattr(ahead, name)[1:]) for name in ("strut_top", "strut_foot", "wheel_center")}
    struts = replace(ahead, **flat, camber=0.0)
    swing = replace(behind, hinge=(x, 0.15, 0.33), hinge_axis=(1.0, 0.0, 0.0), camber=0.0)
    front, rear = replace(compact.front, hard_points=struts), replace(compact.rear, hard_points=swing)
    rig = rig_of(replace(compact, front=front, rear=rear))
    rig.car.restart()

    # Instant centre of a strut: on the line of the wishbone, and on the normal to the strut through its top.
    hinge, ball, top, foot = (np.array(flat[n][1:]) for n in list(flat)[:4])
    arm, strut = ball - hinge, top - foot
    pole = hinge + arm * (strut @ (top - hinge)) / (strut @ arm)
    for n, (y, z) in ((0, pole), (2, swing.hinge[1:])):
        half = points_of(rig, n).wheel_center[1]
        expected = z * half / (half - y)
        assert calc_roll_center(rig, n) == pytest.approx(expected, abs=1e-6)
    # The roll centre of the struts is near the ground, that of the swing axle is high.
    assert 0.0 < calc_roll_center(rig, 0) < 0.15
    assert calc_roll_center(rig, 2) > 0.35


def calc_roll_center(rig: Rig, n: int) -> float:
    """Height over the ground, from the velocity of the wheel's lowest point per travel in the model."""
    names = [c[:-3] for c in rig.car.compiled.names.coordinates if c.endswith(" fl")]
    rates = dict(zip(names, rig.car.calc_travel_motion().corners[:, n, n], strict=False))
    lower, upper, forward, spin = (
        np.array([rates[f"{v}.{a}"] for a in "xyz"])
        for v in ("lower.joint", "upper.joint", "knuckle.forward", "wheel.axis")
    )
    carriers = Carriers(rig)
    turning = np.column_stack([upper - lower, forward, spin]) @ np.linalg.inv(carriers.columns(n, "design"))
    contact = np.array(points_of(rig, n).wheel_center) * (1.0, 1.0, 0.0)
    velocity = lower + turning @ (contact - carriers.origin - carriers.basics("lower.joint", "design", n))
    return float(contact[1] * velocity[1] / velocity[2])


# -- statics and dynamics ------------------------------------------------------------------------------------


def test_the_car_has_14_degrees_of_freedom_and_the_bodies_of_its_suspensions(pair):
    found = calc_topology(settled(pair).car)
    assert found.degrees_of_freedom == 14
    bodies = {
        "macpherson": {"lower wishbone", "knuckle", "wheel"},
        "swing_arm": {"arm", "wheel"},
        "double_wishbone": {"lower wishbone", "upper wishbone", "knuckle", "wheel"},
    }
    expected = {
        f"{b} {w}" for k, kind in enumerate(pair) for b in bodies[kind] for w in WHEELS[2 * k : 2 * k + 2]
    }
    assert set(found.bodies) == expected | {"chassis", "rack"}
    assert len(found.bodies) == len(set(found.bodies))
    assert len(found.constraints) == len(set(found.constraints))


def test_at_rest_wheels_carry_the_car_and_spring_forces_satisfy_virtual_work(pair):
    rig = settled(pair)
    car, v = rig.car, rig.vehicle
    load, lateral = car.corner_output("tyre.fz"), car.corner_output("tyre.fy")
    assert load.sum() == pytest.approx(v.mass * G, rel=1e-6)
    rear = v.rear.hard_points.wheel_center[0]
    assert load[:2].sum() * v.wheelbase == pytest.approx(
        v.mass * G * (v.center_of_mass()[0] - rear), rel=3e-3
    )
    for n in (0, 2):
        axle, points = v.axle(WHEELS[n]), points_of(rig, n)
        if pair[n // 2] == "double_wishbone":
            continue
        down, up = (place(points, h) for h in (-1e-5, 1e-5))

        def velocity(point, down=down, up=up) -> np.ndarray:
            return (up.of(point) - down.of(point)) / 2e-5

        center, spin = np.array(points.wheel_center), calc_spin_axis(points)
        below = -np.array([0.0, 0.0, 1.0]) + spin * spin[2]
        contact = center + below / np.linalg.norm(below) * axle.tyre.radius
        work = velocity(contact) @ (0.0, lateral[n], load[n]) - G * axle.wheel.mass * velocity(center)[2]
        for name, body in axle.bodies().items():
            moved = velocity(body.center_of_mass)
            if name == "lower_wishbone" and pair[n // 2] == "macpherson":
                joint, hinge = points.lower_ball_joint, points.lower_hinge
                ratio = np.cross(points.lower_axis, np.subtract(joint, hinge))[2]
                turned = np.cross(points.lower_axis, np.subtract(body.center_of_mass, hinge))
                moved = turned * velocity(joint)[2] / ratio
            work -= G * body.mass * moved[2]
        force = car.corner_output("suspension.force")[n]
        assert force * calc_strut_ratio(points) == pytest.approx(work, rel=1e-3)


def test_mass_and_inertia_are_the_sums_over_all_bodies(pair):
    rig = rig_of(car_of(*pair))
    rig.car.restart()
    change = np.zeros(12)
    change[[6, 9]] = 3.0, 1.0
    rig.car.correct(change)
    origin = rig.vehicle.center_of_mass()
    total = 0.0
    for n, w in enumerate(WHEELS):
        axle, at = rig.vehicle.axle(w), mirror(n)
        for body in axle.bodies().values():
            total += energy_of(body.mass, at * body.center_of_mass - origin, body.inertia[2])
        wheel, spin = axle.wheel, calc_spin_axis(axle.hard_points)[2]
        about_z = wheel.transverse_inertia * (1 - spin**2) + wheel.axial_inertia * spin**2
        total += energy_of(wheel.mass, at * axle.hard_points.wheel_center - origin, about_z)
    for body in (rig.vehicle.chassis, rig.vehicle.rack):
        total += energy_of(body.mass, np.array(body.center_of_mass) - origin, body.inertia[2])
    assert rig.energy()[0] == pytest.approx(total, rel=1e-6)


def energy_of(mass: float, arm: np.ndarray, moment: float) -> float:
    """Kinetic energy at 3 m/s ahead and a yaw rate of 1 rad/s."""
    return 0.5 * (mass * ((3.0 - arm[1]) ** 2 + arm[0] ** 2) + moment)


def test_the_mass_matrix_is_regular(pair):
    car = rig_of(car_of(*pair)).car
    # The tangent of a step of zero length is the mass matrix alone, as for sigma points at the start.
    car.view("integration")[0] = 0.0
    car.call(car.kernels.step.factor)
    assert np.isfinite(car.workspace).all()


def test_energy_is_conserved_without_dampers(pair):
    coarse, fine = (rig_of(car_of(*pair)).set(**LOSSLESS).find_energy_drift(h) for h in (4e-3, 2e-3))
    assert coarse < 0.02
    assert fine < coarse / 3


@pytest.mark.parametrize("moving", [False, True], ids=["at rest", "under way"])
def test_forces_in_joints_accelerate_the_chassis_and_balance_the_corners(pair, moving):
    rig = rig_of(car_of(*pair))
    if moving:
        rig.roll(15.0).drive(0.4, rack=sine(0.01, 2.0), brake=lambda t: 30e5 * t)
    else:
        rig.drive(2.0)
    loads = JointLoads(rig.car)
    values = loads.calc().reshape(4, len(CORNER_LOADS))
    on_chassis = np.zeros(3)
    for n in range(4):
        found = Published(rig, n, pair[n // 2], dict(zip(CORNER_LOADS, values[n], strict=True)))
        # Forces of the anti-roll bar cancel over an axle.
        on_chassis -= sum(force for force, _ in found.acting())
        if not moving:
            assert found.balance() == pytest.approx(np.zeros(6), abs=0.05)
    v, second = rig.vehicle, Basics(rig.car, "qdd")
    axes = np.column_stack([second(name, "rate") for name in ("v1", "v2", "v3")])
    chassis = second("r1", "rate") + axes @ (v.chassis.center_of_mass - v.center_of_mass())
    needed = v.chassis.mass * chassis + v.rack.mass * second("rack", "rate")
    needed[2] += G * (v.chassis.mass + v.rack.mass)
    limit = 2e-4 * v.mass * G if moving else 0.01
    assert Carriers(rig).R_world_chassis @ on_chassis == pytest.approx(needed, abs=limit)
    assert np.abs(loads.residual).max() < (5e-3 if moving else 1e-3)
