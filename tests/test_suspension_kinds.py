"""MacPherson struts and swing arms: geometry by an independent solver, statics, energy, forces, estimates."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from suspension_rig import Placed, place
from vehicle_rig import Basics, G, Rig, sine, vehicle

import vehicled
from vehicled.cli import main
from vehicled.messages import CORNER_LOADS, WHEELS
from vehicled.settings import config_path
from vehicled.studies.benchmarks.peers.wishbones import get_axle
from vehicled.vehicle.hard_points import AnyPoints, calc_spin_axis
from vehicled.vehicle.kinematics import calc_strut_ratio
from vehicled.vehicle.loads import JointLoads
from vehicled.vehicle.parameters import BodyParameters, Vehicle
from vehicled.vehicle.topology import calc_topology

QUICK = [("macpherson", "swing_arm")]
OTHERS = [("macpherson", "macpherson"), ("macpherson", "double_wishbone")]
OTHERS += [("double_wishbone", "macpherson"), ("double_wishbone", "swing_arm")]
PAIRS = [*QUICK, *(pytest.param(pair, marks=pytest.mark.slow) for pair in OTHERS)]
LOSSLESS = {
    "damper__bump": 0.0,
    "damper__rebound": 0.0,
    "stop__stiffness": 0.0,
    "tyre__vertical_damping": 0.0,
    "tyre__slip_stiffness_x": 1e-9,
    "tyre__slip_stiffness_y": 1e-9,
}


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


@lru_cache
def settled(pair: tuple[str, str]) -> Rig:
    """At rest; not to be changed."""
    return Rig(car_of(*pair))


def points_of(rig: Rig, n: int) -> AnyPoints:
    return rig.vehicle.axle(WHEELS[n]).hard_points


def mirror(n: int) -> np.ndarray:
    return np.array([1.0, 1.0 - 2.0 * (n % 2), 1.0])


class Carriers:
    """Wheel carriers as the model has them, in axes and places of the left design, and the chassis."""

    def __init__(self, rig: Rig, rates: str = "qd") -> None:
        self._rig, self.basics = rig, Basics(rig.car, rates)
        self.R_world_chassis = np.column_stack([self.basics(v, "now") for v in ("v1", "v2", "v3")])
        self.origin = rig.vehicle.center_of_mass()

    def columns(self, n: int, when: str) -> np.ndarray:
        b = self.basics
        lower, upper = (b(f"{side}.joint", when, n) for side in ("lower", "upper"))
        return np.column_stack([upper - lower, b("knuckle.forward", when, n), b("wheel.axis", when, n)])

    def __call__(self, n: int) -> Placed:
        b, R, flip = self.basics, self.R_world_chassis, np.diag(mirror(n))
        center = np.array(points_of(self._rig, n).wheel_center)
        turned = R.T @ self.columns(n, "now") @ np.linalg.inv(self.columns(n, "design"))
        design = b("lower.joint", "design", n)
        now = R.T @ (b("lower.joint", "now", n) - b("r1", "now"))
        now = now + turned @ (flip @ center - self.origin - design) + self.origin
        return Placed(flip @ turned @ flip, flip @ now, center)


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def pair(request):
    return request.param


# -- geometry ----------------------------------------------------------------------------------------------


def test_wheels_are_where_distances_between_hard_points_put_them(pair):
    compare_places(car_of(*pair))


def test_wheels_of_a_swing_axle_with_struts_ahead_are_there_too():
    compact = vehicle("compact")
    x, *_ = compact.rear.hard_points.wheel_center
    swing = replace(compact.rear.hard_points, hinge=(x + 0.05, 0.12, 0.31), hinge_axis=(1.0, 0.1, 0.05))
    compare_places(replace(compact, rear=replace(compact.rear, hard_points=swing)))


def compare_places(v: Vehicle) -> None:
    """Bouncing, rolling and steered, with wheels of the model where distances put them."""
    rig = Rig(v).set(stop__stiffness=0.0).roll(12.0)
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
            assert pytest.approx(expected.R, abs=1e-6) == found.R
    assert min(travels) < -0.03
    assert max(travels) > 0.03


@pytest.mark.parametrize("end", ["front", "rear"])
def test_the_motion_ratio_is_that_of_small_travels(end):
    points = getattr(vehicle("compact"), end).hard_points
    ends = {"front": ("strut_top", "strut_foot"), "rear": ("spring_chassis", "spring_arm")}[end]
    top, foot = (getattr(points, name) for name in ends)
    down, up = (np.linalg.norm(place(points, h).of(foot) - top) for h in (-1e-4, 1e-4))
    assert calc_strut_ratio(points) == pytest.approx((down - up) / 2e-4, rel=1e-6)


def test_roll_centres_are_those_of_poles_in_the_plane():
    compact = vehicle("compact")
    x = compact.rear.hard_points.wheel_center[0]
    ahead, behind = compact.front.hard_points, compact.rear.hard_points
    flat = {name: (0.0, *getattr(ahead, name)[1:]) for name in ("lower_hinge", "lower_ball_joint")}
    flat |= {name: (0.0, *getattr(ahead, name)[1:]) for name in ("strut_top", "strut_foot", "wheel_center")}
    struts = replace(ahead, **flat, camber=0.0)
    swing = replace(behind, hinge=(x, 0.15, 0.33), hinge_axis=(1.0, 0.0, 0.0), camber=0.0)
    front, rear = replace(compact.front, hard_points=struts), replace(compact.rear, hard_points=swing)
    rig = Rig(replace(compact, front=front, rear=rear))
    rig.car.restart()

    # The pole of a strut: on the line of the wishbone, and at right angles to the strut through its top.
    hinge, ball, top, foot = (np.array(flat[n][1:]) for n in list(flat)[:4])
    arm, strut = ball - hinge, top - foot
    pole = hinge + arm * (strut @ (top - hinge)) / (strut @ arm)
    for n, (y, z) in ((0, pole), (2, swing.hinge[1:])):
        half = points_of(rig, n).wheel_center[1]
        expected = z * half / (half - y)
        assert calc_roll_center(rig, n) == pytest.approx(expected, abs=1e-6)
    # A strut inclined inwards and a long wishbone: near the ground; that of a swing axle is high.
    assert 0.0 < calc_roll_center(rig, 0) < 0.15
    assert calc_roll_center(rig, 2) > 0.35


def calc_roll_center(rig: Rig, n: int) -> float:
    """Height over the ground, from the velocity of the wheel's lowest point over travel in the model."""
    names = [c[:-3] for c in rig.car.compiled.names.coordinates if c.endswith(" fl")]
    rates = dict(zip(names, rig.car.calc_travel_motion()[:, n], strict=False))
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


def test_it_has_14_degrees_of_freedom_and_its_own_bodies(pair):
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


def test_at_rest_wheels_carry_the_car_and_springs_do_the_virtual_work(pair):
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


def test_mass_and_inertia_are_those_of_all_bodies(pair):
    rig = Rig(car_of(*pair))
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
    """At 3 m/s ahead, turning with 1 rad/s."""
    return 0.5 * (mass * ((3.0 - arm[1]) ** 2 + arm[0] ** 2) + moment)


def test_the_mass_matrix_is_regular(pair):
    car = Rig(car_of(*pair)).car
    # The tangent of a step of no time is the mass matrix alone, as that of sigma points at the start is.
    car.view("integration")[0] = 0.0
    car.call(car.kernels.step.factor)
    assert np.isfinite(car.workspace).all()


def test_energy_is_conserved_without_dampers(pair):
    def drift(h: float) -> float:
        rig = Rig(car_of(*pair)).set(**LOSSLESS)
        change = np.zeros(12)
        change[[2, 4, 5]] = 0.005, 0.004, 0.006
        rig.car.correct(change)
        for _ in range(4):
            rig.car.step(1e-4)
        energies = [rig.energy()]
        for _ in range(round(1.0 / h)):
            assert rig.car.step(h) > 0
            energies.append(rig.energy())
        e = np.array(energies)
        return np.abs(e.sum(axis=1) - e[0].sum()).max() / np.ptp(e[:, 2])

    coarse, fine = drift(4e-3), drift(2e-3)
    assert coarse < 0.02
    assert fine < coarse / 3


class Published:
    """Forces of one corner as published, in chassis axes and places of the design frame."""

    def __init__(self, rig: Rig, n: int, kind: str, values: dict[str, float]) -> None:
        self._rig, self._n, self._kind, self._values = rig, n, kind, values
        self._carriers = Carriers(rig)
        self._points, self._now, self._side = points_of(rig, n), self._carriers(n), mirror(n)

    def _vector(self, name: str) -> np.ndarray:
        return np.array([self._values[f"{name}{a}"] for a in "xyz"])

    def _on_arm(self, point, side: str = "lower") -> np.ndarray:
        """Where a point of the left one is: arms turn about their hinges as far as their ends say."""
        p = self._points
        if self._kind == "swing_arm":
            return self._now.of(point)
        hinge, axis = (np.array(getattr(p, f"{side}_{what}")) for what in ("hinge", "axis"))
        joint = np.array(getattr(p, f"{side}_ball_joint"))
        turned = self._now.of(joint) - hinge
        axis = axis / np.linalg.norm(axis)
        along = axis * (axis @ turned)
        sine = axis @ np.cross(joint - hinge - along, turned - along)
        cosine = (joint - hinge - along) @ (turned - along)
        return hinge + Rotation.from_rotvec(axis * np.arctan2(sine, cosine)).apply(point - hinge)

    def acting(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Forces of chassis and rack on the corner, and where."""
        p, side = self._points, self._side
        hinge = p.hinge if self._kind == "swing_arm" else p.lower_hinge
        found = [(self._vector("lower_hinge.f"), side * hinge)]
        if self._kind != "swing_arm":
            rack = self._rig.car.inputs[0] if self._n < 2 else 0.0
            inner, outer = side * p.tie_rod_inner + (0.0, rack, 0.0), side * self._now.of(p.tie_rod_outer)
            rod = (inner - outer) / np.linalg.norm(inner - outer)
            found.append((self._values["tie_rod.force"] * rod, inner))
        if self._kind == "macpherson":
            return [*found, (self._vector("upper_ball_joint.f"), side * p.strut_top)]
        if self._kind == "double_wishbone":
            found.append((self._vector("upper_hinge.f"), side * p.upper_hinge))
        foot = p.spring_arm if self._kind == "swing_arm" else p.spring_wishbone
        strut = side * (self._on_arm(foot) - p.spring_chassis)
        force = self._rig.car.corner_output("suspension.force")[self._n]
        return [*found, (force * strut / np.linalg.norm(strut), side * p.spring_chassis)]

    def balance(self) -> np.ndarray:
        """(6,) sum of all forces and moments on the corner at rest."""
        R, car, axle = self._carriers.R_world_chassis, self._rig.car, self._rig.vehicle.axle(WHEELS[self._n])
        up, spin = R.T[:, 2], self._side * (self._now.R @ calc_spin_axis(axle.hard_points))
        center = self._side * self._now.center
        down = spin * (spin @ up) - up
        contact = center + down / np.linalg.norm(down) * axle.tyre.radius
        acting = [*self.acting(), (car.corner_output("tyre.fz")[self._n] * up, contact)]
        acting.append((-G * axle.wheel.mass * up, center))
        for name, body in axle.bodies().items():
            there = self._now.of(body.center_of_mass)
            if name != "knuckle":
                there = self._on_arm(body.center_of_mass, name.partition("_")[0])
            acting.append((-G * body.mass * up, self._side * there))
        moments = self._vector("lower_hinge.m") + self._vector("upper_hinge.m")
        return np.append(sum(f for f, _ in acting), moments + sum(np.cross(at, f) for f, at in acting))


@pytest.mark.parametrize("moving", [False, True], ids=["at rest", "under way"])
def test_forces_in_joints_move_the_chassis_and_balance_the_corners(pair, moving):
    rig = Rig(car_of(*pair))
    if moving:
        rig.roll(15.0).drive(0.4, rack=sine(0.01, 2.0), brake=lambda t: 30e5 * t)
    else:
        rig.drive(2.0)
    loads = JointLoads(rig.car)
    values = loads.calc().reshape(4, len(CORNER_LOADS))
    on_chassis = np.zeros(3)
    for n in range(4):
        found = Published(rig, n, pair[n // 2], dict(zip(CORNER_LOADS, values[n], strict=True)))
        # The anti-roll bar adds up to nothing over an axle.
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
    assert np.abs(loads.residual).max() < (1.0 if moving else 1e-3)


# -- the car in use ------------------------------------------------------------------------------------------


def test_an_estimator_follows_its_twin_through_a_slalom(capsys):
    configuration = vehicled.load_configuration("compact")
    drive = vehicled.simulate("slalom", configuration, duration=2.5, seed=3)
    estimates = vehicled.estimate(drive, configuration)
    assert all(np.isfinite(estimates[c]).all() for c in estimates.columns if c not in ("lat", "lon", "alt"))
    assert np.ptp(estimates["wz"]) > 0.15
    error = {c: s.rmse for c, s in vehicled.score(estimates, drive.truth).quantities.items()}
    assert error["horizontal"] < 0.1
    assert max(error["yaw"], error["sideslip"], error["roll"]) < 5e-3
    assert max(error[f"suspension.{w}.deflection"] for w in WHEELS) < 3e-3
    assert max(error[f"tyre.{w}.fz"] for w in WHEELS) < 300.0

    assert main(["check", "compact"]) == 0
    described = capsys.readouterr().out
    assert re.search(r"^degrees of freedom +14 = 79 − 65$", described, re.MULTILINE)
    assert "arm rl rr" in described


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["DEKF", "UKF"])
def test_other_filters_follow_it_too(kind):
    configuration = vehicled.load_configuration("compact")
    configuration = replace(configuration, filter=replace(configuration.filter, kind=kind))
    drive = vehicled.simulate("slalom", configuration, duration=3.0, seed=3)
    estimator = vehicled.Estimator(configuration)
    for step in vehicled.read_log(drive, configuration):
        estimate = estimator.step(step.t, step.measurements)
        assert not [i for i in estimator.innovations() if i.reason == "gate" and i.t > 10**9]
    assert np.isfinite(estimate["vx"])
    error = {
        c: s.rmse
        for c, s in vehicled.score(vehicled.estimate(drive, configuration), drive.truth).quantities.items()
    }
    assert max(error["yaw"], error["sideslip"]) < 5e-3
    assert max(error[f"suspension.{w}.deflection"] for w in WHEELS) < 3e-3


COMPACT = config_path("compact").read_text(encoding="utf-8")
FRONT, REAR = re.findall(r"^  (?:front|rear):\n((?:    .*\n)+)", COMPACT, re.MULTILINE)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            r" +strut_top: .*\n",
            "",
            "vehicle.front.hard_points.strut_top: missing; expected 3 numbers and a unit (m)",
        ),
        (
            r"strut_top: .* m\b",
            "strut_top: 0 0.545 0.3 m",
            "vehicle.front.hard_points.strut_top: the strut cannot be assembled: its top must lie above strut_foot",
        ),
        (
            r"strut_top: .* m\b",
            "strut_top: 1.5 0.545 0.5 m",
            "vehicle.front.hard_points.strut_top: the strut lies: expected its axis within 60° of the vertical",
        ),
        (
            r"lower_ball_joint: .* m\b",
            "lower_ball_joint: 0 1.5 0.5 m",
            "vehicle.front.hard_points.strut_top: the strut cannot slide: its axis lies across the line to",
        ),
        (
            r"lower_ball_joint: .* m\b",
            "lower_ball_joint: 0.5 0.360 0.215 m",
            "vehicle.front.hard_points.lower_ball_joint: lies on the hinge axis: expected at least 20 mm from it",
        ),
        (
            r"tie_rod_outer: .* m\b",
            "tie_rod_outer: 0.005 0.690 0.190 m",
            "vehicle.front.hard_points.tie_rod_outer: the tie rod does not hold the knuckle",
        ),
        (
            r"hinge_axis: .* m\b",
            "hinge_axis: 0 0 1 m",
            "vehicle.rear.hard_points.hinge_axis: the wheel has no travel: wheel_center cannot move up or down",
        ),
        (
            r"hinge_axis: .* m\b",
            "hinge_axis: 0 0 0 m",
            "vehicle.rear.hard_points.hinge_axis: expected a direction",
        ),
        (
            re.escape(FRONT),
            REAR.replace("-2.", "0.").replace("*tyre", re.findall(r"tyre: (&tyre(?:\n      .*)+)", FRONT)[0]),
            "vehicle.front.suspension: swing arms cannot be steered; expected double_wishbone or macpherson",
        ),
        (
            r"      hinge: ",
            "      tie_rod_inner: 0 0 0 m\n      hinge: ",
            "rear.hard_points.tie_rod_inner: unknown key",
        ),
        (
            r"suspension: macpherson",
            "suspension: leaf",
            "expected double_wishbone, macpherson or swing_arm, got 'leaf'",
        ),
        (r"    suspension: macpherson\n", "", "vehicle.front.hard_points.strut_top: unknown key"),
    ],
)
def test_mistakes_name_part_key_and_reason(tmp_path, old, new, error):
    text, count = re.subn(old, lambda _: new, COMPACT, count=1)
    assert count == 1
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(vehicled.UsageError) as found:
        vehicled.load_configuration(path)
    assert error in str(found.value)
    assert "\n" not in str(found.value)


def test_other_engines_say_that_they_have_no_such_axle():
    with pytest.raises(vehicled.UsageError, match=r"vehicle\.front\.suspension: .* got macpherson"):
        get_axle(vehicle("compact"), "fr")
