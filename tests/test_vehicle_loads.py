"""Forces in the joints: statics by hand, each body's equations of motion, virtual work, braking, and Exudyn."""

import numpy as np
import pytest
from loads_rig import BODIES, UP, Corner, corners, loads_of, required
from vehicle_rig import G, Rig, motions, sine, vehicle

from vehicled.messages import CORNER_LOADS, LOAD_COLUMNS, WHEELS
from vehicled.vehicle.loads import JointLoads

CARS = ("prototype", "reference_vehicle", "ferrari_250lm", "saloon")
NO_AIR = {"aero.drag_area": 0.0, "aero.front_lift_area": 0.0, "aero.rear_lift_area": 0.0}


def under_way(name: str) -> Rig:
    """Steering and braking, with torque on the rear wheels, at 20 m/s."""
    rig = Rig(vehicle(name)).set(NO_AIR).roll(20.0)
    if rig.vehicle.tyre == "tmeasy":
        rig.set(tyre__trail=0.0, tyre__rolling_resistance=0.0)  # the model does not output these
    amplitude = -0.01 if name == "reference_vehicle" else 0.01
    rig.drive(0.5, rack=sine(amplitude, 2.0), brake=lambda t: 20e5 * t, torque=lambda t: 200.0 * t)
    return rig


# -- statics -----------------------------------------------------------------------------------------------


def solve_statics(c: Corner, torque: float = 0.0, bar: float = 0.0) -> dict[str, np.ndarray]:
    """All forces of a corner at rest from points, weights and the tyre's force, by one system of 18 equations.

    `torque`: of the final drive on the wheel about its axis, N·m. `bar`: of the anti-roll bar on the wishbone,
    downwards, N.
    """
    R = c.R_world_chassis
    columns: list[tuple[str, dict[str, tuple[np.ndarray, np.ndarray]]]] = []
    """By unknown: its name, and for each body the force and moment about the world's origin per unit."""

    def act(name: str, direction: np.ndarray, at: np.ndarray, on: str, other: str | None = None) -> None:
        wrench = direction, np.cross(at, direction)
        both = {on: wrench} | ({} if other is None else {other: (-wrench[0], -wrench[1])})
        columns.append((name, both))

    for side in ("lower", "upper"):
        wishbone = f"{side}_wishbone"
        for axis in R.T:
            act(f"{side}_ball_joint", axis, c.joint[side], "knuckle", wishbone)
            act(f"{side}_hinge", axis, c.hinge[side], wishbone)
        for axis in R.T[1:]:  # the hinges of these cars are along x
            columns.append((f"{side}_moment", {wishbone: (np.zeros(3), axis)}))
    act("tie_rod", (c.inner - c.outer) / np.linalg.norm(c.inner - c.outer), c.outer, "knuckle")
    act("strut", -c.strut, c.foot, "lower_wishbone")

    weights = {b: c.moving[b].mass * c.gravity for b in BODIES}
    known = {b: np.append(weights[b], np.cross(c.moving[b].place, weights[b])) for b in BODIES}
    known["knuckle"] = known["knuckle"] + known["wheel"] + np.append(c.tyre, np.cross(c.contact, c.tyre))
    known["knuckle"] = known["knuckle"] + np.append(np.zeros(3), c.spin_axis * torque)
    of_bar = -bar * R[:, 2]
    known["lower_wishbone"] += np.append(of_bar, np.cross(c.joint["lower"], of_bar))
    zero = np.zeros(3), np.zeros(3)
    matrix = [[np.concatenate(both.get(b, zero)) for b in BODIES[:3]] for _, both in columns]
    right = np.concatenate([-known[b] for b in BODIES[:3]])
    values = np.linalg.solve(np.array(matrix).reshape(len(columns), -1).T, right)
    found: dict[str, list[float]] = {}
    for (name, _), value in zip(columns, values, strict=True):
        found.setdefault(name, []).append(value)
    return {name: np.array(v) for name, v in found.items()}


@pytest.mark.parametrize("name", CARS)
def test_at_rest_forces_are_those_of_statics(name):
    rig = Rig(vehicle(name))
    rig.drive(2.0)
    all_corners = corners(rig)
    assert rig.car.corner_output("tyre.fz").sum() == pytest.approx(rig.vehicle.mass * G, rel=1e-6)
    for n, (corner, found) in enumerate(zip(all_corners, loads_of(rig.car), strict=True)):
        by_hand = solve_statics(corner)
        close = pytest.approx
        scale = 1e-6 * rig.vehicle.mass * G / 4
        assert rig.car.corner_output("suspension.force")[n] == close(by_hand["strut"][0], abs=scale)
        for side in ("lower", "upper"):
            ball, hinge = found[f"{side}_ball_joint"], found[f"{side}_hinge"]
            assert ball == close(by_hand[f"{side}_ball_joint"], abs=scale)
            assert hinge[:3] == close(by_hand[f"{side}_hinge"], abs=scale)
            assert hinge[4:] == close(by_hand[f"{side}_moment"], abs=scale)
            assert hinge[3] == close(0.0, abs=1e-9)
        assert found["tie_rod"] == close(by_hand["tie_rod"], abs=scale)


@pytest.mark.parametrize("along", [-900.0, 700.0], ids=["braked", "driven"])
@pytest.mark.parametrize("name", CARS)
def test_additional_forces_are_carried_as_in_statics(name, along):
    """Forces of the road on the tyres, and of bars and springs that balance them.

    Brakes or the final drive hold the wheels.
    """
    rig = Rig(vehicle(name))
    rig.drive(2.0)
    loads, struts, scale = [250.0, -150.0, 80.0, -120.0], [], 1e-6 * rig.vehicle.mass * G / 4
    bars = [70.0, -70.0, -40.0, 40.0]
    all_corners, by_hand, brakes = corners(rig), [], []
    for c, load, bar in zip(all_corners, loads, bars, strict=True):
        ahead = np.cross(c.spin_axis, UP) / np.linalg.norm(np.cross(c.spin_axis, UP))
        added = ahead * along + UP * load
        about_axle = np.cross(c.contact - c.centre, added) @ c.spin_axis
        c.tyre = c.tyre + added
        by_hand.append(solve_statics(c, -about_axle if along > 0.0 else 0.0, bar))
        struts.append(by_hand[-1]["strut"][0] - c.strut_force)
        brakes.append(about_axle if along < 0.0 else 0.0)
    joints = JointLoads(rig.car)
    given = np.array([np.multiply(struts, 0.75), np.multiply(struts, 0.25), bars, loads, [along] * 4])
    rows = joints.calc(given).reshape(4, len(CORNER_LOADS))
    assert np.abs(struts).min() > 50.0
    assert joints.residual == pytest.approx(0.0, abs=scale)
    assert rows[:, CORNER_LOADS.index("anti_roll_bar.force")] == pytest.approx(np.negative(bars), abs=scale)
    for c, row, expected, brake in zip(all_corners, rows, by_hand, brakes, strict=True):
        found = dict(zip(CORNER_LOADS, row, strict=True))

        def of(joint, kind="f", found=found):
            return np.array([found[f"{joint}.{kind}{a}"] for a in "xyz"])

        for side in ("lower", "upper"):
            joint, hinge = f"{side}_ball_joint", f"{side}_hinge"
            assert of(joint) == pytest.approx(expected[joint], abs=scale)
            assert of(hinge) == pytest.approx(expected[hinge], abs=scale)
            assert of(hinge, "m")[1:] == pytest.approx(expected[f"{side}_moment"], abs=scale)
        assert found["tie_rod.force"] == pytest.approx(expected["tie_rod"][0], abs=scale)
        bearing = c.R_world_chassis.T @ (c.tyre + c.moving["wheel"].mass * c.gravity)
        assert of("wheel_bearing") == pytest.approx(bearing, abs=scale)
        assert found["brake.torque"] == pytest.approx(brake, abs=scale)
        strut = found["spring.force"] + found["damper.force"] + found["stops.force"]
        assert strut == pytest.approx(expected["strut"][0], abs=scale)


def test_spring_damper_and_stops_add_up_to_the_force_along_the_strut():
    rig = Rig(vehicle("prototype")).roll(5.0)
    rig.set(stop__bump=0.004, stop__droop=0.004)
    rig.drive(0.4, brake=lambda t: 80e5)
    rig.car.report()
    parts = [np.array([c[f"{p}"][0] for c in loads_of(rig.car)]) for p in ("spring", "damper", "stops")]
    assert all(np.abs(p).max() > 1.0 for p in parts)
    assert sum(parts) == pytest.approx(rig.car.corner_output("suspension.force"), rel=1e-12)


# -- equations of motion ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CARS)
def test_every_body_of_a_corner_accelerates_by_the_forces_on_it(name):
    """Virtual work of all forces and of inertia, for displacements and rotations of each body by itself."""
    rig = under_way(name)
    random = np.random.default_rng(1)
    for corner, found in zip(corners(rig), loads_of(rig.car), strict=True):
        at = {"lower_wishbone": corner.hinge["lower"], "upper_wishbone": corner.hinge["upper"]}
        for body, lack in corner.lacks(found).items():
            displacement, rotation = random.normal(size=3), random.normal(size=3)
            if body == "wheel":
                # About the axle, torques of the driveline act as well.
                rotation -= corner.spin_axis * (corner.spin_axis @ rotation)
            moment = lack.about(at.get(body, corner.centre))
            # Forces are thousands of N. The limit is for the error of the step's accelerations.
            assert lack.force @ displacement + moment @ rotation == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("name", CARS)
def test_the_chassis_accelerates_by_the_forces_of_its_joints(name):
    """Six equations that are not used in the computation of the forces."""
    rig = under_way(name)
    bodies = motions(rig), motions(rig, "qdd")
    gravity = np.array([0.0, 0.0, -rig.vehicle.gravity])
    lack = required(bodies[0][0], bodies[1][0], gravity)
    rack_needs = required(bodies[0][1], bodies[1][1], gravity)
    force, moment = lack.force + rack_needs.force, lack.moment + rack_needs.moment
    total = 0.0
    for corner, found in zip(corners(rig), loads_of(rig.car), strict=True):
        wrench = corner.on_chassis(found)
        force, moment = force - wrench.force, moment - wrench.moment
        total += np.linalg.norm(wrench.force)
    # The final drive is part of the chassis.
    moment = moment + bodies[0][0].rotation[:, 1] * rig.car.corner_inputs[3].sum()
    moment = moment - np.cross(bodies[0][0].place, force)
    assert total > 8000.0
    assert force == pytest.approx(np.zeros(3), abs=2e-5 * total)
    assert moment == pytest.approx(np.zeros(3), abs=2e-5 * total)


def test_the_residual_of_the_redundant_equation_vanishes_with_the_step():
    """The residual is a moment on the lower wishbone about its hinge; usual moments are about 1 kN·m."""
    left = []
    for h in (4e-3, 2e-3, 1e-3):
        rig = Rig(vehicle("prototype")).roll(20.0)
        rig.drive(0.5, h, rack=sine(0.01, 2.0), brake=lambda t: 20e5 * t)
        loads = JointLoads(rig.car)
        loads.calc()
        left.append(np.abs(loads.residual).max())
    assert left[0] < 0.05
    assert left[1] < 0.5 * left[0]
    assert left[2] < 0.5 * left[1]


# -- virtual work ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prototype", "reference_vehicle"])
def test_joints_do_no_work_in_motions_that_they_permit(name):
    """Displacements of the chassis and travel of the wheels, by the model's positions."""
    rig = under_way(name)
    car, eps = rig.car, 1e-6
    before = car.workspace.copy()
    random = np.random.default_rng(2)
    chart, travel = random.normal(size=6), random.normal(size=4)

    def displaced(sign: float) -> list[Corner]:
        car.workspace[:] = before
        car.correct_suspension(sign * eps * travel, np.zeros(4))
        car.correct(np.append(sign * eps * chart, np.zeros(6)))
        return corners(rig)

    ahead, back = displaced(1.0), displaced(-1.0)
    car.workspace[:] = before
    for now, a, b, found in zip(corners(rig), ahead, back, loads_of(car), strict=True):
        R = now.R_world_chassis

        def turned(one, other, at):
            """δθ of a body's rotation."""
            w = (one - other) @ at.T / (2 * eps)
            return 0.5 * np.array([w[2, 1] - w[1, 2], w[0, 2] - w[2, 0], w[1, 0] - w[0, 1]])

        def on_body(c, body, design):
            return c.moving[body].place + c.moving[body].rotation @ (
                c.vector(design) - c.vector(f"{body}.com")
            )

        chassis = turned(a.R_world_chassis, b.R_world_chassis, R)
        for side in ("lower", "upper"):
            wishbone = f"{side}_wishbone"
            apart = [
                on_body(c, "knuckle", f"{side}.joint") - on_body(c, wishbone, f"{side}.joint") for c in (a, b)
            ]
            ball = R @ found[f"{side}_ball_joint"]
            assert ball @ (apart[0] - apart[1]) / (2 * eps) == pytest.approx(0.0, abs=1e-3)
            hinge = R @ found[f"{side}_hinge"][:3], R @ found[f"{side}_hinge"][3:]
            apart = [on_body(c, wishbone, f"{side}.hinge") - c.hinge[side] for c in (a, b)]
            own = turned(*(c.moving[wishbone].rotation for c in (a, b, now)))
            assert np.abs(own - chassis).max() > 0.1  # it turns on its hinge
            work = hinge[0] @ (apart[0] - apart[1]) / (2 * eps) + hinge[1] @ (own - chassis)
            assert work == pytest.approx(0.0, abs=1e-3)
        length = [np.linalg.norm(c.outer - c.inner) for c in (a, b)]
        assert found["tie_rod"][0] * (length[0] - length[1]) / (2 * eps) == pytest.approx(0.0, abs=1e-3)


# -- braking -----------------------------------------------------------------------------------------------


def test_ball_joints_and_tie_rod_carry_the_brake_torque():
    rig = Rig(vehicle("prototype")).set(NO_AIR).roll(25.0)
    rig.drive(0.5)

    def about_axle() -> np.ndarray:
        found = []
        for c, forces in zip(corners(rig), loads_of(rig.car), strict=True):
            R = c.R_world_chassis
            rod = (c.inner - c.outer) / np.linalg.norm(c.inner - c.outer)
            moment = np.cross(c.outer - c.centre, rod * forces["tie_rod"][0])
            for side in ("lower", "upper"):
                moment = moment + np.cross(c.joint[side] - c.centre, R @ forces[f"{side}_ball_joint"])
            found.append(moment @ c.spin_axis)
        return np.array(found)

    rolling = about_axle()
    pressure = 30e5
    rig.drive(1.0, brake=lambda t: pressure)
    torque = rig.car.get_corner_parameter("brake.gain") * pressure
    assert [c["brake"][0] for c in loads_of(rig.car)] == pytest.approx(torque, rel=1e-6)
    assert torque[0] > 300.0
    # The difference is due to the knuckle's inertia about the axle, as the body pitches.
    assert rolling - about_axle() == pytest.approx(torque, abs=0.02 * torque.min())
    # The whole torque decelerates the car at the contacts.
    assert rig.car.corner_output("tyre.fx").sum() == pytest.approx(
        -(torque / rig.car.rolling_radius).sum(), rel=0.05
    )


# -- Exudyn ------------------------------------------------------------------------------------------------


def test_forces_are_those_of_exudyn():
    """Both converge to the same forces: the difference halves with the step, and is a thousandth of them."""
    pytest.importorskip("exudyn")
    from loads_figures import STEP, calc_rms

    (coarse, forces), (fine, _) = calc_rms(STEP), calc_rms(STEP / 2)
    assert forces.max() > 2000.0
    assert (coarse < 1e-3 * forces + 0.2).all()
    assert (fine < 0.6 * coarse + 0.02).all()


def test_columns_are_by_wheel_and_in_order():
    assert len(LOAD_COLUMNS) == len(WHEELS) * len(CORNER_LOADS)
    assert LOAD_COLUMNS[0] == "lower_ball_joint.fl.fx"
    assert LOAD_COLUMNS[-1] == "brake.rr.torque"
