"""The car as a mechanism: every operator for mechanisms applies, and agrees with the car's own program."""

from __future__ import annotations

import numpy as np
import pytest
from car_mechanism_rig import CARS, Pair, pair_of
from loads_rig import loads_of
from vehicle_rig import G, ramp

from vehicled.messages import WHEELS
from vehicled.multibody import body_operators, operators, problems, switches
from vehicled.multibody.body_operators import calc_point_map, calc_twist
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.motion_constraints import MotionConstraints
from vehicled.multibody.reactions import calc_reactions
from vehicled.vehicle.car_mechanism import CarMechanism
from vehicled.vehicle.hard_points import calc_spin_axis
from vehicled.vehicle.parameters import SwingArmAxle, Vehicle
from vehicled.vehicle.topology import calc_topology

OFTEN = "prototype"
"""The car of the fast tests. The mechanism of another car takes half a minute to make, so its tests are slow."""


@pytest.fixture(
    scope="module", params=[c if c == OFTEN else pytest.param(c, marks=pytest.mark.slow) for c in CARS]
)
def pair(request) -> Pair:
    return pair_of(request.param)


def under_way(pair: Pair):
    forces = pair.drive()
    assert np.abs(pair.car.corner_inputs[0, :2]).max() > 5e-3
    return pair.mechanism, forces


def largest(values) -> float:
    return float(np.nanmax(np.abs(values)))


def near(value, error: float):
    """Within an absolute error."""
    return pytest.approx(value, rel=0.0, abs=error)


# -- structure -----------------------------------------------------------------------------------------------


def test_the_mechanism_has_the_bodies_and_degrees_of_freedom_of_the_car(pair):
    counts, topology = operators.get_counts(pair.mechanism), calc_topology(pair.car)
    # In the mechanism, trailing links are rods without mass, not bodies.
    bodies = {n.replace(" ", "_") for n in topology.bodies if not n.startswith("trailing link")}
    assert bodies == set(pair.mechanism.compiled.bodies)
    assert counts.degrees_of_freedom == counts.coordinates - counts.constraints == 14
    assert topology.degrees_of_freedom == 14


def list_masses(v: Vehicle):
    """Mass, place and central inertia of all bodies, as the car's file has them."""
    for body in v.central_bodies().values():
        yield body.mass, body.center_of_mass - v.center_of_mass(), np.diag(body.inertia)
    for w in WHEELS:
        axle, mirror = v.axle(w), np.array([1.0, 1.0 if w[1] == "l" else -1.0, 1.0])
        bodies = [axle.arm] if isinstance(axle, SwingArmAxle) else axle.bodies().values()
        for body in bodies:
            yield body.mass, mirror * body.center_of_mass - v.center_of_mass(), np.diag(body.inertia)
        wheel, spin = axle.wheel, mirror * calc_spin_axis(axle.hard_points)
        inertia = wheel.transverse_inertia * (np.eye(3) - np.outer(spin, spin))
        inertia += wheel.axial_inertia * np.outer(spin, spin)
        yield wheel.mass, mirror * axle.hard_points.wheel_center - v.center_of_mass(), inertia


def test_mass_centre_and_inertia_at_the_start_are_those_of_the_car(pair):
    m, v = pair.mechanism, pair.rig.vehicle
    m.set_state(pair.start)
    found = operators.calc_mass_properties(m)
    assert found.mass == pytest.approx(v.mass, rel=1e-12)
    assert found.centre == near(np.zeros(3), 1e-12)
    inertia = np.zeros((3, 3))
    for mass, place, own in list_masses(v):
        inertia += own + mass * (place @ place * np.eye(3) - np.outer(place, place))
    assert found.inertia == near(inertia, 1e-9 * largest(inertia))


# -- kinematics ----------------------------------------------------------------------------------------------


def test_points_and_directions_are_those_of_the_car_with_travel_and_steering(pair):
    """All points and directions of all bodies follow from the chassis, the wheels' heights, and the rack."""
    under_way(pair)
    for order, name in enumerate(("q", "qd")):
        for prefix, values in zip(("", "branch."), pair.calc_coordinates(order), strict=True):
            theirs = pair.car.view(prefix + name)
            assert largest(values - theirs) < (1e-11, 3e-9)[order] * largest(theirs)
    travel = pair.car.corner_output("suspension.deflection")
    assert np.ptp(travel) > 0.01


def test_the_mechanism_follows_the_car_to_any_place_and_heading(pair):
    """It starts from its last state; the wheels have turned since then."""
    under_way(pair)
    pair.mechanism.q[pair.mechanism.index("spin_fl")] += 0.4
    change = np.zeros(12)
    change[[0, 1, 3, 4, 5]] = 2000.0, -900.0, 3.0, 0.1, -0.2
    pair.car.correct(change)
    pair.twin.follow()
    root, branch = pair.calc_coordinates(0)
    assert largest(root - pair.car.view("q")) < 1e-9
    assert largest(branch - pair.car.view("branch.q")) < 1e-9


def test_every_permitted_motion_has_the_kinetic_energy_of_the_car(pair):
    """The mass matrix on all motions that the joints permit, including those of turning wheels."""
    m, _ = under_way(pair)
    saved = pair.car.workspace.copy()
    motions, rng = problems.nullspace(m.calc_jacobian()), np.random.default_rng(1)
    try:
        for _ in range(20):
            m.qd[:] = motions @ rng.normal(size=14)
            pair.give(1)
            # Coordinates that only the other axle has are at rest.
            for n in range(4):
                for k, name in enumerate(pair.branch):
                    if pair.is_dummy(name[:-2], n):
                        pair.car.view("branch.qd")[k, n] = 0.0
            # In the car's program, a corner also has the bodies of the other axle, with 1e-6 kg·m².
            limit = 1e-7 if pair.name == "live axle" else 1e-9
            assert m.calc_kinetic_energy() == pytest.approx(pair.rig.energy()[0], rel=limit)
    finally:
        pair.car.workspace[:] = saved


def test_momentum_is_that_of_the_centre_of_mass_and_changes_by_external_forces(pair):
    m, forces = under_way(pair)
    mass = pair.rig.vehicle.mass
    momentum = operators.calc_central_momentum(m)
    assert momentum.linear == pytest.approx(mass * operators.calc_center_of_mass_velocity(m), rel=1e-12)
    weight = np.array([0.0, 0.0, -mass * G])
    outside = weight + sum(wrench[3:] for wrench in forces.on_bodies.values())
    outside += sum(forces.on_points.values())
    air = m.calc_loads()[[name in AIR for name in m.description.forces]].sum(axis=0)
    change = mass * operators.calc_center_of_mass_acceleration(m)
    assert change == near(outside + air, 1e-8 * mass * G)


AIR = ("drag", "front_lift", "rear_lift")


def test_potential_energy_is_that_of_weight_springs_and_bars(pair):
    """Off the ground, where tyres store no energy. A constant, that of springs in design position, may differ."""
    differences = []
    for height, roll in ((1.0, 0.0), (1.3, 0.08)):
        pair.car.workspace[:] = pair.rest
        pair.car.states[:] = 0.0
        change = np.zeros(12)
        change[2], change[5] = height, roll
        pair.car.correct(change)
        pair.rig.drive(0.15)
        assert not pair.car.corner_output("tyre.fz").any()
        pair.twin.follow()
        differences.append(pair.mechanism.calc_potential_energy() - pair.rig.energy()[1:].sum())
    assert differences[1] == near(differences[0], 1e-6)


# -- forces --------------------------------------------------------------------------------------------------


def test_accelerations_are_those_of_the_cars_equations_of_motion(pair):
    """With tyres, drive, brakes, air, dampers, bars: no motion that the joints permit has a residual."""
    m, _ = under_way(pair)
    pair.give(1, 2)
    root, branch = (r.copy() for r in pair.calc_residual())
    rates = m.qd.copy()
    for motion in problems.nullspace(m.calc_jacobian()).T:
        m.qd[:] = motion
        works = [np.nan_to_num(r * v) for r, v in zip((root, branch), pair.calc_coordinates(1), strict=True)]
        size = sum(np.abs(w).sum() for w in works)
        assert abs(sum(w.sum() for w in works)) < 2e-9 * size
    m.qd[:] = rates


def reactions_by_name(pair: Pair, forces) -> dict[str, np.ndarray]:
    """Force and torque in chassis axes."""
    m = pair.mechanism
    R = np.array([m.placement.vector(a, m.q) for a in ("ahead", "left", "up")])
    found = calc_reactions(m, forces)
    return {r.joint: np.concatenate([R @ r.force, R @ r.torque]) for r in found}


def compare_loads(pair: Pair, forces) -> None:
    """Compare reactions of the mechanism with joint forces of the car, for the same accelerations."""
    m, reactions = pair.mechanism, reactions_by_name(pair, forces)
    loads = m.calc_loads()
    names = list(m.description.forces)
    R = np.array([m.placement.vector(a, m.q) for a in ("ahead", "left", "up")])
    points = m.calc_point_positions()
    for w, theirs in zip(WHEELS, loads_of(pair.car), strict=True):
        scale = 1e-9 * max(largest(x) for x in theirs.values())
        for joint, sign in (("lower_hinge", 1), ("upper_hinge", 1), ("wheel_bearing", -1)):
            if f"{joint}_{w}" in reactions:
                assert sign * reactions[f"{joint}_{w}"] == near(theirs[joint], scale)
        for joint in ("lower_ball_joint", "upper_ball_joint"):
            if f"{joint}_{w}" in reactions:
                assert reactions[f"{joint}_{w}"][:3] == near(theirs[joint], scale)
        if f"tie_rod_{w}" in reactions:
            inner, outer = m.description.joints[f"tie_rod_{w}"].points
            rod = R @ (points[inner] - points[outer])
            tension = theirs["tie_rod"][0] * rod / np.linalg.norm(rod)
            assert reactions[f"tie_rod_{w}"][:3] == near(tension, scale)
        base, top = m.description.forces[f"spring_{w}"].points
        along = points[top] - points[base]
        along /= np.linalg.norm(along)
        for name in ("spring", "damper", "stops"):
            force = loads[names.index(f"{name}_{w}")] @ along
            assert force == near(theirs[name][0], scale)


def test_reactions_are_the_joint_forces_of_the_car_at_rest(pair):
    pair.car.workspace[:] = pair.rest
    pair.car.rest()
    forces = pair.twin.follow()
    # At rest, up to a remainder of settling.
    assert largest(operators.calc_center_of_mass_acceleration(pair.mechanism)) < 1e-4
    pair.give(2)
    compare_loads(pair, forces)
    carried = sum(w[3:] for w in forces.on_bodies.values())
    assert carried == near([0.0, 0.0, G * pair.rig.vehicle.mass], 1e-2)


def test_reactions_are_the_joint_forces_of_the_car_under_way(pair):
    _, forces = under_way(pair)
    pair.give(1, 2)
    compare_loads(pair, forces)


def test_the_mechanism_flies_as_the_car_does(pair):
    """Steps of the mechanism and of the car's own program, off the ground, steering and with turning wheels."""
    distances = []
    for h in (2e-3, 1e-3):
        pair.car.workspace[:] = pair.rest
        change = np.zeros(12)
        change[2], change[5], change[9:] = 1.0, 0.05, (0.6, -0.4, 0.8)
        pair.rig.roll(10.0)
        pair.car.correct(change)
        pair.rig.drive(4e-3, 1e-4)
        pair.twin.follow()
        m, stepper = pair.mechanism, make_stepper("ali3p", "trapezoidal")
        for k in range(round(0.06 / h)):
            for array in (pair.car.inputs, m.inputs[0]):
                array[:] = ramp(0.01, 0.05)((k + 1) * h)
            pair.car.corner_inputs[:3, :2] = pair.car.inputs[:, None]
            assert pair.car.step(h) > 0
            stepper.step(m, h).require("step")
        pair.car.report()
        assert not pair.car.corner_output("tyre.fz").any()
        root, branch = pair.calc_coordinates(0)
        theirs = (pair.car.view("q"), pair.car.view("branch.q"))
        distances.append(max(largest(root - theirs[0]), largest(branch - theirs[1])))
    assert distances[1] < 2e-6
    assert distances[1] < 0.4 * distances[0]


# -- operators -----------------------------------------------------------------------------------------------


def test_points_have_the_velocities_of_the_car(pair):
    m, _ = under_way(pair)
    car = pair.car
    velocity, axes = car.view("qd")[:3], car.view("q")[3:12].reshape(3, 3)
    turning = np.cross(axes, car.view("qd")[3:12].reshape(3, 3)).sum(axis=0) / 2
    assert calc_twist(m, "chassis", (0.0, 0.0, 0.0)) == near([*turning, *velocity], 1e-8)
    name = "travel_rl_on_chassis"
    there = axes.T @ m.description.bodies["chassis"].markers[name]
    expected = velocity + np.cross(turning, there)
    assert calc_point_map(m, name) @ m.qd == near(expected, 1e-8)


def test_the_factorised_mass_matrix_solves_its_equations(pair):
    m, _ = under_way(pair)
    v = m.mass @ np.random.default_rng(2).normal(size=len(m.q))
    solved = operators.MassFactorisation(m).solve(v)
    assert m.mass @ solved == near(v, 1e-9 * largest(v))


def test_newton_euler_equations_hold_for_a_wheel_and_for_all_motions(pair):
    """Newton-Euler equations of a turning wheel, including gyroscopic torque, and of all permitted motions."""
    m, forces = under_way(pair)
    motions = problems.nullspace(m.calc_jacobian())
    required = sum(
        body_operators.calc_twist_map(m, b).T @ body_operators.calc_required_wrench(m, b)
        for b in m.compiled.bodies
    )
    inertial = motions.T @ (m.mass @ m.qdd)
    assert motions.T @ required == near(inertial, 1e-9 * largest(m.mass @ m.qdd))
    reaction = next(r for r in calc_reactions(m, forces) if r.joint == "wheel_bearing_fl")
    center = m.calc_point_positions()["wheel_fl_center"]
    outside, weight = forces.on_bodies["wheel_fl"].copy(), np.array([0.0, 0.0, -G])
    outside[:3] -= np.cross(center, outside[3:])
    wheel = pair.rig.vehicle.front.wheel
    axis = m.placement.vector("wheel_bearing_fl_axis_on_wheel", m.q)
    drive_and_brake = axis * (m.inputs[1, 0] - m.inputs[5, 0])
    force = reaction.force + wheel.mass * weight
    acting = outside + np.concatenate([reaction.torque + drive_and_brake, force])
    found = body_operators.calc_required_wrench(m, "wheel_fl")
    assert acting == near(found, 1e-8 * largest(acting))
    # The wheel turns about its axle, which itself turns with steering, yaw and roll.
    gyroscopic = body_operators.calc_gyroscopic_wrench(m, "wheel_fl")
    assert np.linalg.norm(gyroscopic) > 0.5
    w = calc_twist(m, "wheel_fl")[:3]
    axial = wheel.axial_inertia - wheel.transverse_inertia
    assert gyroscopic[:3] == near(axial * (w @ axis) * np.cross(w, axis), 1e-9 * largest(acting))


def test_constraints_against_lateral_slip_of_wheels_do_no_work(pair):
    """Constraints on velocities hold the rear wheels; a constraint on accelerations brakes the car by 3 m/s²."""
    m, _ = under_way(pair)
    before = m.get_state()

    def across(m: Mechanism) -> np.ndarray:
        axes = (m.placement.vector(f"wheel_bearing_{w}_axis_on_wheel", m.q) for w in ("rl", "rr"))
        maps = (calc_point_map(m, f"wheel_{w}_center") for w in ("rl", "rr"))
        return np.array([axis @ at for axis, at in zip(axes, maps, strict=True)])

    def forward(m: Mechanism) -> np.ndarray:
        return (m.placement.vector("ahead", m.q) @ calc_point_map(m, "origin"))[None]

    constraints = MotionConstraints(m)
    constraints.add_velocity(across)
    constraints.add_acceleration(forward, -3.0)
    assert largest(constraints.calc_violation()) > 0.01
    constraints.project_velocities()
    assert constraints.calc_violation() == near(np.zeros(2), 1e-10)
    assert m.calc_jacobian() @ m.qd + m.calc_drift() == near(np.zeros(len(m.constraint_names)), 1e-9)
    found = constraints.calc_accelerations()
    assert forward(m) @ found.qdd == near([-3.0], 1e-9)
    sideways, ahead = found.forces[:2], found.forces[2]
    assert abs(ahead) > 0.05 * pair.rig.vehicle.mass
    assert sideways @ (across(m) @ m.qd) == near(0.0, 1e-6)
    m.applied[:] += across(m).T @ sideways + forward(m)[0] * ahead
    problems.solve_dynamics(m)
    assert m.qdd == near(found.qdd, 1e-9 * largest(found.qdd))
    # After a small step, the wheels still do not slip.
    step = 1e-5
    m.q[:] += step * m.qd + 0.5 * step**2 * m.qdd
    m.qd[:] += step * m.qdd
    assert constraints.calc_violation() == near(np.zeros(2), 1e-6)
    m.set_state(before)


def test_a_locked_wheel_is_held_by_the_torque_that_its_motion_requires(pair):
    m, forces = under_way(pair)
    before = m.get_state()
    k, w = m.index("spin_rr"), "rr"
    switches.prescribe(m, "spin_rr", m.q[k], m.qd[k], 0.0)
    problems.solve_dynamics(m)
    assert len(m.independent) == 13
    assert m.qdd[k] == near(0.0, 1e-9)
    # Euler's equation of the wheel about its axis: axial inertia times absolute acceleration.
    axis = m.placement.vector(f"wheel_bearing_{w}_axis_on_wheel", m.q)
    inertia = pair.rig.vehicle.rear.wheel.axial_inertia
    outside = forces.on_bodies[f"wheel_{w}"]
    center = m.calc_point_positions()[f"wheel_{w}_center"]
    acting = axis @ (outside[:3] - np.cross(center, outside[3:])) + m.inputs[4, 0] - m.inputs[8, 0]
    torque = -m.multipliers[m.constraint_names.index("hold spin_rr")]
    assert inertia * pair.calc_spin(w, 2) == near(acting + torque, 1e-7)
    m.set_state(before)


def test_a_released_rack_is_held_again_by_a_lock(pair):
    m, _ = under_way(pair)
    before = m.get_state()
    drive = -m.multipliers[m.constraint_names.index("drive rack_travel")]
    switches.disable(m, "drive rack_travel")
    problems.solve_dynamics(m)
    assert len(m.independent) == 15
    assert abs(m.qdd[m.index("rack_travel")] - before.qdd[m.index("rack_travel")]) > 1.0
    switches.prescribe(m, "rack_travel", *pair.car.inputs)
    problems.solve_dynamics(m)
    assert len(m.independent) == 14
    assert m.qdd == near(before.qdd, 1e-8 * largest(before.qdd))
    held = -m.multipliers[m.constraint_names.index("hold rack_travel")]
    assert held == pytest.approx(drive, rel=1e-6)
    m.set_state(before)


@pytest.mark.slow
def test_natural_and_relative_coordinates_have_the_same_accelerations():
    pair = pair_of("prototype")
    natural, forces = under_way(pair)
    twin = CarMechanism(pair.car, "relative")
    relative = twin.follow()
    for name, a in natural.calc_point_accelerations().items():
        assert twin.mechanism.calc_point_accelerations()[name] == near(a, 1e-8)
    ours, theirs = (
        {r.joint: r.force for r in calc_reactions(m, f)}
        for m, f in ((natural, forces), (twin.mechanism, relative))
    )
    for joint in natural.description.joints:
        assert theirs[joint] == near(ours[joint], 1e-8 * largest(list(ours.values())))
