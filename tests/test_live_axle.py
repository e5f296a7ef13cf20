"""A live axle on rods: closed forms, rod lengths, statics, conservation laws, and the same axle as a mechanism."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import vehicle_rig
import yaml
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from vehicle_rig import LOSSLESS, Basics, G, Rig, motions, sine, vehicle

import vehicled
from vehicled.messages import CORNER_LOADS, WHEELS
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.reading import settings
from vehicled.vehicle.hard_points import LiveAxlePoints
from vehicled.vehicle.kinematics import calc_strut_ratio
from vehicled.vehicle.loads import _LOADS, JointLoads
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.topology import calc_topology

MIRROR = np.array([1.0, -1.0, 1.0])
PROTOTYPE = settings.config_path("prototype").read_text(encoding="utf-8")
EXAMPLE = re.search(r"^  # rear:\n  #   suspension: live_axle\n(?:  #   .*\n)+", PROTOTYPE, re.MULTILINE)[0]
"""The live axle that the shipped file has as a comment."""
VEHICLE = re.search(r"^vehicle:\n(?:(?:[ #].*)?\n)*", PROTOTYPE, re.MULTILINE)[0]
_, OWN = re.split(r"^  rear:\n", VEHICLE, flags=re.MULTILINE)
KEPT = "".join(re.findall(r"^    (?:wheel|spring|damper|brake|tyre):.*\n(?:      .*\n)*", OWN, re.MULTILINE))
FILE = VEHICLE.replace(OWN, "") + re.sub("^  # ", "  ", EXAMPLE.partition("\n")[2], flags=re.MULTILINE) + KEPT


@lru_cache
def example() -> Vehicle:
    """The prototype with the axle of EXAMPLE and the tyre law of the reference vehicle."""
    v = settings.loads(FILE, vehicle_rig._Part, "example").vehicle
    tyre = vehicle("reference_vehicle").rear.tyre
    front, rear = (replace(a, tyre=replace(tyre, radius=a.tyre.radius)) for a in (v.front, v.rear))
    return replace(v, front=front, rear=rear)


def with_points(**points) -> Vehicle:
    v = example()
    return replace(v, rear=replace(v.rear, hard_points=replace(v.rear.hard_points, **points)))


def rig_of(v: Vehicle) -> Rig:
    """A rig whose code also computes joint loads, so that all tests share one compiled program."""
    return Rig(v, (_LOADS,))


def rods_of(p: LiveAxlePoints) -> np.ndarray:
    """(4, 2, 3) both ends of each rod, on the chassis first: left and right link, upper link, Panhard rod."""
    link = np.array([p.link_chassis, p.link_axle])
    upper, panhard = (p.upper_link_chassis, p.upper_link_axle), (p.panhard_chassis, p.panhard_axle)
    return np.array([link, link * MIRROR, upper, panhard])


class Axle:
    """Pose of the model's axle in chassis axes; `of` turns a point's design position into its present one."""

    def __init__(self, rig: Rig) -> None:
        basics = Basics(rig.car)
        chassis = np.column_stack([basics(v, "now") for v in ("v1", "v2", "v3")])
        axes = [basics(f"axle.{d}", "now") for d in ("forward", "left", "up")]
        self.R = chassis.T @ np.column_stack(axes)
        self._origin = rig.vehicle.center_of_mass()
        self._design = basics("axle.centre", "design")
        self._moved = chassis.T @ (basics("axle.centre", "now") - basics("r1", "now"))

    def of(self, point) -> np.ndarray:
        return self._origin + self._moved + self.R @ (np.array(point) - self._origin - self._design)


# -- geometry ------------------------------------------------------------------------------------------------


def test_the_axle_pose_agrees_with_rod_lengths_and_wheel_travel():
    """While the car bounces and rolls."""
    rig = rig_of(example()).set(stop__stiffness=0.0).roll(12.0)
    points = rig.vehicle.rear.hard_points
    change = np.zeros(12)
    change[[2, 4, 5]] = 0.06, 0.02, 0.04
    rig.car.correct(change)
    center, rods = np.array(points.wheel_center), rods_of(points)
    lengths = np.linalg.norm(rods[:, 1] - rods[:, 0], axis=1)
    found = []
    for _ in range(6):
        rig.drive(0.06)
        axle = Axle(rig)
        travel = [axle.of(c)[2] - center[2] for c in (center, center * MIRROR)]

        def placed(x, at) -> np.ndarray:
            return Rotation.from_rotvec(x[3:]).apply(at - center) + center + x[:3]

        def gaps(x, travel=travel) -> np.ndarray:
            ends = placed(x, rods[:, 1]) - rods[:, 0]
            heights = [placed(x, c)[2] - center[2] for c in (center, center * MIRROR)]
            return np.append(np.linalg.norm(ends, axis=1) - lengths, np.subtract(heights, travel))

        solved = least_squares(gaps, np.zeros(6), method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15).x
        assert axle.of(center) == pytest.approx(placed(solved, center), abs=1e-7)
        assert np.abs(axle.R - Rotation.from_rotvec(solved[3:]).as_matrix()).max() < 1e-6
        found.append(travel)
    assert np.ptp(found) > 0.04
    assert np.ptp(np.subtract(*np.transpose(found))) > 0.02


def lift(rig: Rig, travel: np.ndarray, steps: int = 100) -> None:
    """Integrate the wheels' travel from design position by the midpoint rule, with the chassis at rest."""
    car, by = rig.car, np.asarray(travel) / steps
    car.restart()
    places = [car.view(name) for name in ("q", "branch.q")]
    for _ in range(steps):
        begun = [place.copy() for place in places]
        car.correct_suspension(0.5 * by, np.zeros(4))
        middle = car.calc_travel_motion()
        for place, before in zip(places, begun, strict=True):
            place[:] = before
        car.correct_suspension(by, np.zeros(4), middle)


SYMMETRIC = {"upper_link_chassis": (-2.08, 0.0, 0.44), "upper_link_axle": (-2.5, 0.0, 0.46)}


@pytest.mark.parametrize("height", [0.07, -0.05])
def test_in_heave_the_axle_moves_sideways_along_the_arc_of_the_panhard_rod(height):
    """The links lie along the car, so that the axle does not steer; the rod ends on the wheels' axis."""
    p = example().rear.hard_points
    x, _, z = p.wheel_center
    link, rise = (-2.0, 0.47, 0.27), 0.03
    rod = {"panhard_chassis": (x, 0.45, z + rise), "panhard_axle": (x, -0.47, z)}
    rig = rig_of(with_points(link_chassis=link, link_axle=(-2.52, 0.47, 0.24), **rod, **SYMMETRIC))
    lift(rig, [0.0, 0.0, height, height])
    axle = Axle(rig)
    moved = axle.of(rod["panhard_axle"]) - rod["panhard_axle"]
    # From the rod's chassis end to its axle end, which is on the right and has moved forward with the links.
    arc = np.sqrt(0.92**2 + rise**2 - (height - rise) ** 2 - moved[0] ** 2) - 0.92
    assert moved[1:] == pytest.approx([-arc, height], abs=2e-7)
    assert axle.R[1] == pytest.approx([0.0, 1.0, 0.0], abs=1e-7)
    assert abs(arc) > 3e-4


def test_in_roll_the_axle_turns_about_the_panhard_rods_point_in_the_centre_plane():
    """The roll axis passes through that point, parallel to the links; their slope gives the roll steer."""
    p = example().rear.hard_points
    x, half, _ = p.wheel_center
    link = SYMMETRIC | {"link_chassis": (-2.0, 0.47, 0.29), "link_axle": (-2.52, 0.47, 0.24)}
    rig = rig_of(with_points(panhard_chassis=(x, 0.5, 0.36), panhard_axle=(x, -0.4, 0.30), **link))
    rig.car.restart()
    crossing = 0.30 + 0.06 * 0.4 / 0.9
    motion = rig.car.calc_travel_motion().axle @ np.array([0.0, 0.0, half, -half])
    centre, forward, left, _ = motion.reshape(4, 3)
    # 1 rad/s of roll, left side up.
    turning = np.array([left[2], -forward[2], forward[1]])
    assert turning == pytest.approx([1.0, 0.0, 0.05 / 0.52], abs=1e-9)
    place = np.array(rig.vehicle.rear.axle.center_of_mass)
    assert centre + np.cross(turning, np.array([x, 0.0, crossing]) - place) == pytest.approx(0.0, abs=1e-9)


def test_the_motion_ratio_is_that_of_small_heave():
    rig = rig_of(example())
    points = rig.vehicle.rear.hard_points
    lengths = []
    for h in (-1e-4, 1e-4):
        lift(rig, [0.0, 0.0, h, h], steps=1)
        lengths.append(np.linalg.norm(Axle(rig).of(points.spring_axle) - points.spring_chassis))
    assert calc_strut_ratio(points) == pytest.approx((lengths[0] - lengths[1]) / 2e-4, rel=1e-6)


# -- statics and dynamics ------------------------------------------------------------------------------------


def test_the_car_has_14_degrees_of_freedom_and_one_axle_body_for_both_rear_wheels():
    found = calc_topology(rig_of(example()).car)
    assert found.degrees_of_freedom == 14
    assert found.rank == len(found.constraints) == len(set(found.constraints))
    assert [b for b in found.bodies if b == "axle" or b[-2:] in ("rl", "rr")] == [
        *("axle", "trailing link rl", "trailing link rr", "wheel rl", "wheel rr")
    ]


@pytest.mark.parametrize("moving", [False, True], ids=["on a cross slope", "steered and braked"])
def test_forces_of_rods_springs_and_tyres_balance_weight_and_inertia_of_the_axle(moving):
    rig = rig_of(replace(example(), rear=replace(example().rear, anti_roll_bar=8e3)))
    if moving:
        rig.roll(15.0).drive(0.4, rack=sine(0.01, 2.0), brake=lambda t: 30e5 * t)
    else:
        rig.slope(0.15, np.pi / 2).drive(3.0)
    car, axle, rear = rig.car, Axle(rig), rig.vehicle.rear
    values = dict(zip(CORNER_LOADS, JointLoads(car).calc().reshape(4, -1)[2:].T, strict=True))
    basics = Basics(car)
    chassis = np.column_stack([basics(v, "now") for v in ("v1", "v2", "v3")])
    weight, normal = -G * chassis[2], chassis.T @ car.ground[:3]
    spin = axle.R[:, 1]
    ahead, down = np.cross(spin, normal), spin * (spin @ normal) - normal
    fx, fy, fz = (car.corner_output(f"tyre.f{a}")[2:] for a in "xyz")
    acting = [(rear.axle.mass * weight, axle.of(rear.axle.center_of_mass))]
    for n, mirror in ((0, np.ones(3)), (1, MIRROR)):
        center, foot, link = (
            axle.of(mirror * getattr(rear.hard_points, name))
            for name in ("wheel_center", "spring_axle", "link_axle")
        )
        strut = foot - mirror * rear.hard_points.spring_chassis
        spring = sum(values[f"{part}.force"][n] for part in ("spring", "damper", "stops"))
        tyre = ahead * fx[n] + np.cross(normal, ahead) * fy[n] + normal * fz[n]
        acting += [
            (spring * strut / np.linalg.norm(strut), foot),
            (rear.wheel.mass * weight, center),
            (tyre, center + rear.tyre.radius * down / np.linalg.norm(down)),
            (np.array([0.0, 0.0, values["anti_roll_bar.force"][n]]), link),
            (np.array([values[f"lower_ball_joint.f{a}"][n] for a in "xyz"]), link),
        ]
    rods = zip(rods_of(rear.hard_points)[2:], values["tie_rod.force"][::-1], strict=True)
    for (inner, outer), tension in rods:
        rod = inner - axle.of(outer)
        acting.append((tension * rod / np.linalg.norm(rod), axle.of(outer)))
    force = sum(force for force, _ in acting)
    if moving:
        second = Basics(car, "qdd")
        needed = rear.axle.mass * second("axle.centre", "rate")
        needed += sum(b.mass * b.velocity for b in [b for b in motions(rig, "qdd") if b.name == "wheel"][2:])
        assert force == pytest.approx(chassis.T @ needed, abs=2e-4 * rig.vehicle.mass * G)
        assert np.abs(force[:2]).min() > 30.0
    else:
        assert force == pytest.approx(0.0, abs=0.5)
        assert sum(np.cross(at, force) for force, at in acting) == pytest.approx(0.0, abs=0.5)
    assert abs(values["tie_rod.force"][0]) > 300.0
    hinge, joint = (
        np.array([values[f"{name}.f{a}"] for a in "xyz"]) for name in ("lower_hinge", "lower_ball_joint")
    )
    assert hinge == pytest.approx(joint, abs=1e-3)


def test_added_tyre_and_bar_forces_load_the_rods_as_the_axles_equilibrium_requires():
    """Six equilibrium equations of the axle give the added loads in four rods and two springs."""
    rig = rig_of(example()).slope(0.1, np.pi / 2)
    rig.drive(3.0)
    car, axle, points = rig.car, Axle(rig), rig.vehicle.rear.hard_points
    chassis = np.column_stack([Basics(car)(v, "now") for v in ("v1", "v2", "v3")])
    normal, spin = chassis.T @ car.ground[:3], axle.R[:, 1]
    ahead, down = np.cross(spin, normal), spin * (spin @ normal) - normal
    ahead, down = ahead / np.linalg.norm(ahead), down / np.linalg.norm(down)
    along, loads, bars = [-900.0, -400.0], [250.0, -100.0], [60.0, -60.0]
    needed, struts, columns = np.zeros(6), [], []

    def wrench(force: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.append(force, np.cross(at, force))

    for mirror, fx, fz in zip((np.ones(3), MIRROR), along, loads, strict=True):
        contact = axle.of(mirror * points.wheel_center) + rig.vehicle.rear.tyre.radius * down
        needed -= wrench(ahead * fx + normal * fz, contact)
        foot = axle.of(mirror * points.spring_axle)
        strut = foot - mirror * points.spring_chassis
        struts.append(wrench(strut / np.linalg.norm(strut), foot))
    for (_, outer), bar in zip(rods_of(points), bars, strict=False):  # the bar acts where the links end
        needed -= wrench(np.array([0.0, 0.0, -bar]), axle.of(outer))
    for inner, outer in rods_of(points):
        rod = inner - axle.of(outer)
        columns.append(wrench(rod / np.linalg.norm(rod), axle.of(outer)))
    left, right, upper, panhard, *springs = np.linalg.solve(np.array([*columns, *struts]).T, needed)
    joints = JointLoads(car)
    added = np.zeros((5, 4))
    added[:, 2:] = springs, [0.0, 0.0], bars, loads, along
    change = (joints.calc(added) - joints.calc()).reshape(4, -1)[2:].T
    found = dict(zip(CORNER_LOADS, change, strict=True))
    assert found["tie_rod.force"] == pytest.approx([panhard, upper], abs=0.5)
    for n, (column, tension) in enumerate(zip(columns, (left, right), strict=False)):
        link = np.array([found[f"lower_ball_joint.f{a}"][n] for a in "xyz"])
        assert link == pytest.approx(tension * column[:3], abs=0.5)
    assert np.abs([left, right, upper]).min() > 200.0
    brakes = [np.cross(rig.vehicle.rear.tyre.radius * down, ahead * fx) @ spin for fx in along]
    assert found["brake.torque"] == pytest.approx(brakes, rel=1e-3)


def test_energy_is_conserved_without_dampers():
    coarse, fine = (rig_of(example()).set(**LOSSLESS).find_energy_drift(h) for h in (4e-3, 2e-3))
    assert coarse < 0.02
    assert fine < coarse / 3


def test_momentum_in_flight_changes_by_gravity_alone_under_engine_torque():
    """The torques of the final drive and the propeller shaft are internal to the car."""
    rig = rig_of(example()).set(stop__stiffness=0.0, spring__preload=600.0)
    rig.set({"aero.drag_area": 0.0, "aero.front_lift_area": 0.0, "aero.rear_lift_area": 0.0})
    rig.car.ground[3] = -1e3
    change, wheels = np.zeros(12), np.zeros((2, 4))
    change[6:] = (20.0, -2.0, 1.0, 0.7, 0.4, 0.5)
    wheels[1] = 30.0, 24.0, 36.0, -15.0
    rig.car.correct(change, wheels)
    rig.drive(2e-3, 5e-4)
    found = []
    for _ in range(2):
        bodies = motions(rig)
        root = dict(zip(rig.car.compiled.names.parameters, rig.car.parameters, strict=True))
        axes = ("axle.forward", "axle.left", "axle.up")
        bodies.append(vehicle_rig._body(root, "axle", Basics(rig.car), 0, "axle.centre", axes))
        mass, linear = sum(b.mass for b in bodies), sum(b.mass * b.velocity for b in bodies)
        center = sum(b.mass * b.place for b in bodies) / mass
        found.append((linear, sum(b.angular_momentum for b in bodies) - np.cross(center, linear)))
        kinetic = sum(b.kinetic_energy for b in bodies)
        assert rig.energy()[0] == pytest.approx(kinetic, rel=1e-9)
        assert mass == pytest.approx(rig.vehicle.mass, rel=1e-12)
        log = rig.drive(0.4, 1e-3, torque=lambda t: 200.0)
    assert log.iterations.min() > 0
    (before, spin_before), (after, spin_after) = found
    assert after - before == pytest.approx([0.0, 0.0, -mass * G * 0.4], abs=mass * 1e-4)
    assert spin_after == pytest.approx(spin_before, rel=1e-4, abs=0.2)


def test_propeller_shaft_torque_loads_the_left_rear_wheel():
    """Under acceleration it rolls the axle against the chassis; the front axle takes the opposite moment."""
    rig = rig_of(example()).roll(10.0)
    rig.drive(2.0, torque=lambda t: min(t, 1.0) * 500.0)
    left, right = rig.car.corner_output("tyre.fz").reshape(2, 2).T
    tracks = [2 * a.hard_points.wheel_center[1] for a in (rig.vehicle.front, rig.vehicle.rear)]
    moments = (left - right) * tracks / 2
    assert moments[1] > 30.0
    assert moments[0] == pytest.approx(-moments[1], abs=20.0)


# -- its file and its estimator ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            r"panhard_chassis: .*\n +panhard_axle: .* m\b",
            "panhard_chassis: -2.660 0.030 0.310 m\n      panhard_axle: -2.140 0.030 0.350 m",
            "vehicle.rear.hard_points.panhard_axle: the rods do not hold the axle",
        ),
        (
            r"upper_link_chassis: .*\n +upper_link_axle: .* m\b",
            "upper_link_chassis: -2.080 0.030 0.272 m\n      upper_link_axle: -2.500 0.030 0.242 m",
            "vehicle.rear.hard_points.upper_link_axle: the rods do not hold the axle",
        ),
        (
            "link_chassis: -2.000 0.450 0.280",
            "link_chassis: -2.520 0.480 0.240",
            "vehicle.rear.hard_points.link_axle: expected at least 20 mm from link_chassis",
        ),
        (
            r" link_chassis: .*\n +link_axle: .* m\b",
            " link_chassis: -2.520 0.480 0.760 m\n      link_axle: -2.520 0.480 0.240 m",
            "vehicle.rear.hard_points.link_axle: the rods do not hold the axle",
        ),
        (
            "spring_axle: -2.550 0.520 0.280",
            "spring_axle: -2.540 0.500 0.620",
            "vehicle.rear.hard_points.spring_axle: expected at least 20 mm from spring_chassis",
        ),
        ("final_drive: 4.0", "final_drive: 0", "vehicle.rear.final_drive: expected"),
        (r"      link_axle: .*\n", "", "vehicle.rear.hard_points.link_axle: missing"),
        (r"    axle: .*\n", "", "vehicle.rear.axle: missing"),
    ],
)
def test_mistakes_in_the_file_are_reported_with_part_key_and_reason(old, new, error):
    text, count = re.subn(old, new, FILE)
    assert count == 1
    with pytest.raises(vehicled.UsageError) as found:
        settings.loads(text, vehicle_rig._Part, "mine")
    assert error in str(found.value)
    assert "\n" not in str(found.value)


def test_a_live_axle_cannot_be_steered():
    v = example()
    mistakes = dict(replace(v, front=v.rear).check())
    assert (
        mistakes["front.suspension"] == "live axles cannot be steered; expected double_wishbone or macpherson"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["errorEKF", "DEKF", "UKF"])
def test_an_estimator_follows_the_simulated_car_through_a_slalom(tmp_path, kind):
    path = tmp_path / "car.yaml"
    path.write_text(FILE, encoding="utf-8")
    configuration = vehicled.load_configuration(path)
    configuration = replace(configuration, filter=replace(configuration.filter, kind=kind))
    drive = vehicled.simulate("slalom", configuration, duration=3.0, seed=3)
    estimates = vehicled.estimate(drive, configuration)
    assert np.ptp(estimates["wz"]) > 0.15
    error = {c: s.rmse for c, s in vehicled.score(estimates, drive.truth).quantities.items()}
    assert error["horizontal"] < 0.15
    assert max(error["yaw"], error["sideslip"], error["roll"]) < 5e-3
    assert max(error[f"suspension.{w}.deflection"] for w in WHEELS) < 3e-3
    assert max(error[f"tyre.{w}.fz"] for w in WHEELS) < 300.0


# -- the same axle as a mechanism ----------------------------------------------------------------------------

STIFFNESS, DAMPING = 30e3, 900.0


def describe(v: Vehicle, mass: float, inertia: tuple[float, ...], free: list[float]) -> str:
    """Chassis and axle with wheels as a mechanism without gravity; `free`: free lengths of the springs, m."""
    rear, p = v.rear, v.rear.hard_points
    strut = np.array([p.spring_chassis, p.spring_axle])
    ends = [*rods_of(p), strut, strut * MIRROR]
    # Wheels turn freely, so that their axial inertia takes no part.
    moments = np.diag([1.0, 0.0, 1.0]) * rear.wheel.transverse_inertia
    parts = [(rear.axle.mass, np.array(rear.axle.center_of_mass), np.diag(rear.axle.inertia))]
    parts += [(rear.wheel.mass, m * p.wheel_center, moments) for m in (np.ones(3), MIRROR)]
    total = sum(m for m, _, _ in parts)
    middle = sum(m * at for m, at, _ in parts) / total
    tensor = sum(i + m * (np.eye(3) * (r @ r) - np.outer(r, r)) for m, at, i in parts for r in [at - middle])
    wheels = {"left": p.wheel_center, "right": MIRROR * p.wheel_center}

    def write(values, unit: str) -> str:
        return " ".join([*(repr(float(x)) for x in values), unit])

    def body(k: int, mass: float, center, inertia, products, more) -> dict[str, object]:
        markers = {f"end{n}{k}": ends[n][k] for n in (3, 4, 5)} | more
        return {
            "kind": "rigid",
            "points": [f"end{n}{k}" for n in range(3)],
            "markers": {name: write(at, "m") for name, at in markers.items()},
            "mass": write([mass], "kg"),
            "center_of_mass": write(center, "m"),
            "inertia": write(inertia, "kg·m²"),
            "products": write(products, "kg·m²"),
        }

    products = tensor[[0, 1, 2], [1, 2, 0]]
    description = {
        "space": "spatial",
        "points": {f"end{n}{k}": write(ends[n][k], "m") for n in range(3) for k in (0, 1)},
        "bodies": {
            "chassis": body(0, mass, v.chassis.center_of_mass, inertia, np.zeros(3), {}),
            "axle": body(1, total, middle, np.diag(tensor), products, wheels),
        },
        "joints": {
            f"rod{n}": {
                "kind": "distance",
                "points": [f"end{n}0", f"end{n}1"],
                "length": write([np.linalg.norm(ends[n][1] - ends[n][0])], "m"),
            }
            for n in range(4)
        },
        "forces": {
            f"strut{n}": {
                "kind": "spring",
                "points": [f"end{n}0", f"end{n}1"],
                "stiffness": f"{STIFFNESS} N/m",
                "damping": f"{DAMPING} N·s/m",
                "free_length": f"{length!r} m",
            }
            for n, length in zip((4, 5), free, strict=True)
        },
    }
    return yaml.safe_dump(description, allow_unicode=True)


def test_the_axle_described_as_a_mechanism_moves_the_same():
    """Released with unequal spring preload; the chassis is so heavy that its other parts hardly matter."""
    v, mass, inertia = example(), 2e4, (5e3, 1e4, 1e4)
    preload = {"rl": 1800.0, "rr": 600.0}
    p = v.rear.hard_points
    length = float(np.linalg.norm(np.subtract(p.spring_chassis, p.spring_axle)))
    free = [length + preload[w] / STIFFNESS for w in ("rl", "rr")]
    m = Mechanism.parse(describe(v, mass, inertia, free))
    stepper = make_stepper("ali3p", "trapezoidal")

    rig = rig_of(v).set(
        {"gravity.z": 0.0, "chassis.mass": mass}
        | dict(zip([f"chassis.i{a}{a}" for a in "xyz"], inertia, strict=True)),
        **{"stop__stiffness": 0.0, "spring__preload": 0.0, "spring__stiffness": STIFFNESS},
        **{"damper__bump": DAMPING, "damper__rebound": DAMPING, "anti_roll__stiffness": 0.0},
    )
    rig.car.set_parameters({}, {w: {"spring.preload": f} for w, f in preload.items()})
    rig.car.ground[3] = -100.0
    rig.car.restart()
    origin = rig.vehicle.center_of_mass() * (1.0, 1.0, 0.0)
    places = {"left": p.wheel_center, "right": MIRROR * p.wheel_center}
    ours, theirs = [], []
    for h in (1e-5, *[1e-3] * 400):
        assert rig.car.step(h) > 0
        stepper.step(m, h).require("step")
        axle, basics = Axle(rig), Basics(rig.car)
        chassis = np.column_stack([basics(d, "now") for d in ("v1", "v2", "v3")])
        at = {k: basics("r1", "now") + chassis @ (axle.of(x) - v.center_of_mass()) for k, x in places.items()}
        found = m.calc_point_positions()
        ours.append([at[k] + origin - x for k, x in places.items()])
        theirs.append([found[k] - x for k, x in places.items()])
    ours, theirs = np.array(ours), np.array(theirs)
    assert np.ptp(theirs[:, 0, 2]) > 0.03
    assert np.ptp(theirs[:, 0, 2] - theirs[:, 1, 2]) > 0.03
    assert np.ptp(theirs[:, 0, 1]) > 5e-4
    assert ours == pytest.approx(theirs, abs=3e-5)
