"""Reactions against the Newton-Euler equations of free bodies, and against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_rig import G, mechanism, shipped
from operator_rig import CHAIN, JOINTS, SEEDS, chain, make, push
from rigid_reference import rigid_bodies, wrench_at

from vehicled.multibody import body_operators, problems, switches
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.reactions import (
    calc_generalised_reaction,
    calc_reactions,
    find_undetermined,
    find_undetermined_components,
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("joint", JOINTS)
def test_joint_reactions_satisfy_the_newton_euler_equations_of_each_body(joint, seed):
    """With random forces of every kind on both bodies."""
    m = chain(joint, seed)
    forces = push(m, np.random.default_rng(seed))
    k = int(m.independent[0])
    m.applied[k] -= 7.0
    problems.solve_dynamics(m)
    reactions = {r.joint: r for r in calc_reactions(m, forces)}
    assert reactions.keys() == {"base", "elbow"}
    assert (reactions["base"].body, reactions["elbow"].body) == ("first", "second")
    assert reactions["elbow"].point == ("T" if joint == "distance" else "Q")
    bodies, places = rigid_bodies(m), m.calc_point_positions()
    found = {name: np.zeros(6) for name in bodies}
    for r, opposite in ((reactions["base"], None), (reactions["elbow"], "first")):
        for name, sign in ((r.body, 1.0), (opposite, -1.0)):
            if name:
                found[name] += sign * wrench_at(r.force, places[r.point], bodies[name])
                found[name][3:] += sign * r.torque
    for name, b in bodies.items():
        known = wrench_at(forces.on_bodies[name][3:], np.zeros(3), b)
        known[3:] += forces.on_bodies[name][:3]
        known[2] -= b.mass * G
        if name == "second":
            known += wrench_at(forces.on_points["T"], places["T"], b)
        assert found[name] == pytest.approx(b.wrench_needed() - known, rel=1e-7, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["four_bar", "five_bar"])
def test_reactions_at_shared_points_satisfy_the_newton_euler_equations_of_each_bar(name, seed):
    m = make(name, seed)
    forces = push(m, np.random.default_rng(seed))
    point = next(iter(forces.on_points))
    m.applied[:] -= body_operators.calc_point_map(m, point).T @ forces.on_points.pop(point)
    forces.generalised[:] = m.applied
    problems.solve_dynamics(m)
    bodies, places = rigid_bodies(m), m.calc_point_positions()
    reactions = calc_reactions(m, forces)
    motor = m.coordinate_names[int(m.independent[0])]
    for body, b in bodies.items():
        found = sum(wrench_at(r.force, places[r.point], b) for r in reactions if r.body == body)
        known = wrench_at(forces.on_bodies[body][3:], np.zeros(3), b)
        known[3:] += forces.on_bodies[body][:3]
        known[1] -= b.mass * G
        if body in ("crank", "left_crank") and motor in ("theta", "theta1"):
            known[5] += 7.0
        assert found == pytest.approx(b.wrench_needed() - known, rel=1e-6, abs=1e-5)
    for p in m.description.points:
        ends = [r.force for r in reactions if r.point == p]
        assert len(ends) == 2
        assert ends[0] == pytest.approx(-ends[1], abs=1e-7)


@pytest.mark.parametrize("as_generalised", [False, True])
def test_force_on_a_points_coordinate_acts_on_the_pin(as_generalised):
    m = shipped("four_bar")
    forces = body_operators.Forces(m)
    forces.add_coordinate_force("P.x", 30.0)
    forces.add_torque("coupler", [0.0, 0.0, 40.0])
    if as_generalised:
        m.applied[:] = forces.generalised
    else:
        forces = None
        m.applied[m.index("P.x")] = 30.0
    problems.solve_dynamics(m)
    reactions = calc_reactions(m, forces)
    assert sum(r.force for r in reactions if r.point == "P") == pytest.approx([30.0, 0.0, 0.0], abs=1e-8)
    assert sum(r.force for r in reactions if r.point == "Q") == pytest.approx(0.0, abs=1e-8)


def test_shared_points_and_explicit_joints_have_the_same_reactions():
    """The four-bar, and one whose bodies have points of their own and explicit joints."""
    text = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m, B: 10 0 m}}
points: {A1: 0 0 m, P1: 1 1.73 m, P2: 1 1.73 m, Q2: 8.4 4.7 m, Q3: 8.4 4.7 m, B3: 10 0 m}
angles: {theta: {between: [x, [A1, P1]], start: 60 deg}}
bodies:
  crank: {kind: bar, points: [A1, P1], length: 2 m, mass: 2 kg}
  coupler: {kind: bar, points: [P2, Q2], length: 8 m, mass: 8 kg}
  rocker: {kind: bar, points: [Q3, B3], length: 5 m, mass: 5 kg}
joints:
  at_A: {kind: revolute, points: [A, A1]}
  at_P: {kind: revolute, points: [P1, P2]}
  at_Q: {kind: revolute, points: [Q2, Q3]}
  at_B: {kind: revolute, points: [B, B3]}
independent: [theta]
"""
    apart, shared = mechanism(text), shipped("four_bar")
    for m in (apart, shared):
        m.applied[m.index("theta")] = 30.0
        m.set_independent_state(np.array([0.8]), np.array([2.5])).require("state")
    by_joint = {r.joint: r for r in calc_reactions(apart)}
    by_point = {(r.joint, r.body): r.force for r in calc_reactions(shared)}
    assert len(by_joint) == 4
    assert len(by_point) == 6
    for joint, point, body in (
        ("at_A", "A", "crank"),
        ("at_P", "P", "coupler"),
        ("at_Q", "Q", "rocker"),
        ("at_B", "B", "rocker"),
    ):
        assert by_joint[joint].body == body
        assert by_joint[joint].force == pytest.approx(by_point[point, body], rel=1e-8, abs=1e-7)
        assert by_joint[joint].torque == pytest.approx(0.0, abs=1e-12)


def test_pin_force_of_a_pendulum_in_closed_form():
    """Along the bar, the weight's component less m θ̇² l/2; across it, a quarter of the weight's component."""
    m = shipped("pendulum")
    theta, rate = 0.4, 3.0
    m.set_independent_state(np.array([theta]), np.array([rate])).require("state")
    ((pin),) = calc_reactions(m)
    along, across = np.array([np.cos(theta), np.sin(theta), 0]), np.array([-np.sin(theta), np.cos(theta), 0])
    assert (pin.joint, pin.body, pin.point) == ("A", "bar", "A")
    assert pin.force @ along == pytest.approx(G * np.sin(theta) - 0.5 * rate**2, rel=1e-9)
    assert pin.force @ across == pytest.approx(0.25 * G * np.cos(theta), rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_part_of_the_suspension_corner_is_in_balance(seed):
    m = make("suspension_corner", seed, size=0.005)
    bodies, places, rates = rigid_bodies(m), m.calc_point_positions(), m.calc_point_velocities()
    reactions = calc_reactions(m)
    by_name = {(r.joint, r.body): r for r in reactions}
    found = {name: np.zeros(6) for name in bodies}
    for r in reactions:
        if r.point is None:
            found[r.body][3:] += r.torque
        else:
            found[r.body] += wrench_at(r.force, places[r.point], bodies[r.body])
    # A shared direction transmits no torque about itself; the tie rod's force acts along the rod.
    assert by_name["x", "lower_wishbone"].torque[0] == pytest.approx(0.0, abs=1e-9)
    rod, tension = by_name["tie_rod", "knuckle"], places["tie_outer"] - places["tie_inner"]
    assert np.cross(rod.force, tension) == pytest.approx(0.0, abs=1e-7)
    found["rack"] += wrench_at(-rod.force, places["tie_inner"], bodies["rack"])
    rack_force = -m.multipliers[m.constraint_names.index("drive rack_place")]
    found["rack"][1] += rack_force
    known = {name: np.array([0.0, 0.0, -b.mass * G, 0.0, 0.0, 0.0]) for name, b in bodies.items()}
    strut = places["spring_top"] - places["spring_foot"]
    length = np.linalg.norm(strut)
    shortening = rates["spring_foot"] @ strut / length
    pull = (52e3 * (length - 0.49624) - 3.8e3 * shortening) * strut / length
    known["lower_wishbone"] += wrench_at(pull, places["spring_foot"], bodies["lower_wishbone"])
    centre = places["wheel_center"]
    tyre = np.array([0.0, 0.0, max(0.0, 205e3 * (0.3075 - centre[2]))])
    known["knuckle"] += wrench_at(tyre, centre, bodies["knuckle"])
    for name, b in bodies.items():
        needed = b.wrench_needed() - known[name]
        last = 3 if name == "rack" else 6
        scale = max(1.0, np.abs(needed).max())
        assert found[name][:last] == pytest.approx(needed[:last], abs=1e-7 * scale)
    for ball in ("lower_ball", "upper_ball"):
        ends = [r.force for r in reactions if r.point == ball]
        assert len(ends) == 2
        assert ends[0] == pytest.approx(-ends[1], abs=1e-6)


def test_reaction_on_a_pin_names_the_pin():
    """The slider-crank's cylinder wall guides the pin of rod and piston."""
    m = make("slider_crank")
    m.set_independent_state(np.array([0.9]), np.array([100.0])).require("state")
    reactions = calc_reactions(m)
    wall = next(r for r in reactions if r.joint == "cylinder")
    assert (wall.body, wall.point) == (None, "Q")
    assert wall.force[0] == 0.0
    friction = -5.0 * m.qd[m.index("stroke")]
    on = {r.body: r.force for r in reactions if r.joint == "Q"}
    assert on["rod"] + on["piston"] == pytest.approx(
        wall.force + np.array([friction, 0, 0]), rel=1e-8, abs=1e-7
    )
    piston = rigid_bodies(m)["piston"]
    assert on["piston"] == pytest.approx(0.5 * (piston.acceleration + np.array([0, G, 0])), rel=1e-8)


def test_generalised_reactions_balance_inertia_and_other_forces():
    m = chain("revolute")
    joints = sum(calc_generalised_reaction(m, name) for name in ("base", "elbow", "first", "second"))
    assert m.mass @ m.qdd - m.calc_forces() == pytest.approx(joints, abs=1e-7)


REACHER = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 0.5 0.2 m, Q: 0.9 0.1 m, S: 1.2 0.3 m}
vectors: {v: 2 1}
angles: {elbow: {between: [[A, P], [P, Q]]}}
distances: {reach: {points: [P, S]}}
bodies:
  arm: {kind: bar, points: [A, P], mass: 2 kg}
  fore:
    kind: rigid
    points: [P, Q]
    markers: {M: 1.0 0.2 m}
    directions: {e: 2 1}
    mass: 1.5 kg
    center_of_mass: 0.7 0.2 m
    inertia: 0.04 kg·m²
  block: {kind: rigid, points: [S], vectors: [v], mass: 1 kg, center_of_mass: 1.25 0.3 m, inertia: 0.02 kg·m²}
joints:
  slide: {kind: prismatic, points: [M, S], axes: [e, v]}
forces:
  muscle: {kind: torsion_spring, angle: elbow, stiffness: 20 N·m/rad, damping: 0.3 N·m·s/rad}
  cable: {kind: on_coordinate, coordinate: reach, force: -12 - 3*rate(reach)}
"""


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_forces_on_angles_and_distances_act_on_the_bodies_that_they_connect(seed, locked):
    """A torque between two bars that share a point, a cable from that point to a slider on the second."""
    m, rng = mechanism(REACHER), np.random.default_rng(seed)
    problems.assemble(m, m.q + 0.05 * rng.normal(size=m.q.shape)).require("start")
    if locked:
        switches.lock(m, "reach")
    problems.solve_velocity(m, rng.normal(size=len(m.independent)))
    problems.solve_dynamics(m)
    bodies, places = rigid_bodies(m), m.calc_point_positions()
    reactions = calc_reactions(m)
    elbow, reach = m.index("elbow"), m.index("reach")
    torque = -20.0 * m.q[elbow] - 0.3 * m.qd[elbow]
    pull = -12.0 - 3.0 * m.qd[reach] - (m.multipliers[-1] if locked else 0.0)
    cable = pull * (places["S"] - places["P"]) / np.linalg.norm(places["S"] - places["P"])
    known = {name: np.array([0.0, -b.mass * G, 0.0, 0.0, 0.0, 0.0]) for name, b in bodies.items()}
    known["arm"][5] -= torque
    known["fore"][5] += torque
    known["block"] += wrench_at(cable, places["S"], bodies["block"])
    for r in reactions:
        known[r.body] += wrench_at(r.force, places[r.point], bodies[r.body])
        known[r.body][3:] += r.torque
    slide = next(r for r in reactions if r.joint == "slide")
    assert (slide.body, slide.point) == ("block", "S")
    assert slide.force[:2] @ m.q[m.index("v.x") : m.index("v.y") + 1] == pytest.approx(0.0, abs=1e-9)
    known["fore"] -= wrench_at(slide.force, places["S"], bodies["fore"])
    known["fore"][3:] -= slide.torque
    for name, b in bodies.items():
        assert known[name] == pytest.approx(b.wrench_needed(), rel=1e-7, abs=1e-7)
    at_pin = sum(r.force for r in reactions if r.point == "P")
    assert at_pin == pytest.approx(-cable, abs=1e-8)


def test_torque_on_a_spatial_angle_is_not_part_of_its_hinges_reaction():
    text = (
        CHAIN.format(joint=JOINTS["spherical"], v="0 1 0", w="0 0 1")
        + """
angles: {turn: {between: [b, n], about: a, start: 0.3 rad}}
forces: {spring: {kind: torsion_spring, angle: turn, stiffness: 20 N·m/rad}}
"""
    )
    m = mechanism(text)
    problems.solve_velocity(m, np.random.default_rng(0).normal(size=4))
    problems.solve_dynamics(m)
    base, elbow = calc_reactions(m)
    bodies, places = rigid_bodies(m), m.calc_point_positions()
    b = bodies["first"]
    axis = np.array([1.0, 2.0, 2.0]) / 3
    assert base.torque @ axis == pytest.approx(0.0, abs=1e-9)
    known = wrench_at(base.force, places["P"], b) - wrench_at(elbow.force, places["Q"], b)
    known[3:] += base.torque - 20.0 * m.q[m.index("turn")] * axis
    known[2] -= b.mass * G
    assert abs(m.q[m.index("turn")]) > 0.05
    assert known == pytest.approx(b.wrench_needed(), rel=1e-8, abs=1e-8)


def test_reactions_of_a_driven_crank_in_closed_form_after_steps_of_any_formulation():
    """A balanced crank of 0.1 m turns at 20 rad/s, and moves a piston of 1.5 kg by a massless rod of 0.5 m."""
    text = """
space: planar
ground: {points: {O: 0 0 m}}
points: {K: 0.1 0 m, S: 0.6 0 m}
angles: {crank: {between: [x, [O, K]]}}
distances: {stroke: {points: [O, S], along: x}}
bodies:
  wheel: {kind: rigid, points: [O, K], mass: 1 kg, center_of_mass: 0 0 m, inertia: 0.01 kg·m²}
  piston: {kind: point_mass, point: S, mass: 1.5 kg}
joints:
  rod: {kind: distance, points: [K, S]}
  guide: {kind: point_on_line, points: [O, S], axis: x}
drives: {crank: 20*t}
"""
    for formulation, integrator in (("ali3p", "trapezoidal"), ("lagrange", "runge_kutta_4")):
        m = mechanism(text)
        stepper = make_stepper(formulation, integrator)
        for _ in range(100):
            stepper.step(m, 1e-3).require("crank")
        theta, sine = 20.0 * m.t, 0.1 * np.sin(20.0 * m.t)
        along = np.sqrt(0.5**2 - sine**2)  # the rod's extent along the stroke
        slope = -sine - sine * 0.1 * np.cos(theta) / along  # derivative of the stroke by the angle
        bend = -0.1 * np.cos(theta) - (
            0.01 * np.cos(2 * theta) * along**2 + (0.1 * np.cos(theta) * sine) ** 2
        ) / (along**3)
        pull = 1.5 * 20.0**2 * bend  # N, on the piston
        torque = calc_generalised_reaction(m, "drive crank")[m.index("crank")]
        guide = next(r.force for r in calc_reactions(m) if r.joint == "guide")
        assert torque == pytest.approx(pull * slope, rel=1e-6)
        assert guide == pytest.approx([0.0, pull * sine / along, 0.0], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("between", "per_turn"), [("x, e", 0.05), ("e, x", -0.05)])
@pytest.mark.parametrize(("about", "share"), [("z", 1.0), ("f", 0.0)])
@pytest.mark.parametrize("coordinates", ["natural", "relative"])
def test_torque_about_the_azimuth_of_an_oblique_direction(coordinates, about, share, between, per_turn):
    """A nut of 2 kg and 0.02 kg·m² falls on a screw of 0.05 m/rad; its angle is that of the oblique direction `e`.

    The azimuth of e = (1, 0, 1) about the ground's z also changes by −1 rad per rad of turn about x. The screw's
    force on this angle is therefore the torque I α (−1, 0, 1), of which the joint takes the part about x. An angle
    about the nut's own axis `f` does not change with a turn about x, so that the joint takes no torque.
    """
    m = mechanism(f"""
space: spatial
coordinates: {coordinates}
gravity: 0 0 -9.81 m/s²
ground: {{points: {{O: 0 0 0 m}}}}
points: {{P: 0 0 1 m}}
vectors: {{e: 1 0 1, f: 0 0 1}}
distances: {{s: {{points: [O, P], along: z}}}}
angles: {{th: {{between: [{between}], about: {about}}}}}
bodies:
  nut:
    kind: rigid
    points: [P]
    vectors: [e, f]
    mass: 2 kg
    center_of_mass: 0 0 1 m
    inertia: 0.01 0.01 0.02 kg·m²
joints:
  slide: {{kind: cylindrical, points: [O, P], axes: [z, f]}}
  screw: {{kind: equation, expression: "s - 1 - {per_turn}*th"}}
""")
    fall = -G / (1 + 0.02 / (2 * 0.05**2))
    assert m.qdd[m.index("s")] == pytest.approx(fall, rel=1e-12)
    (slide,) = (r for r in calc_reactions(m) if r.joint == "slide")
    assert slide.torque == pytest.approx([share * 0.02 * fall / 0.05, 0.0, 0.0], rel=1e-9, abs=1e-12)


CRANKS = """
space: planar
gravity: 0 -9.81 m/s²
coordinates: FORM
ground: {points: {A: 0 0 m, B: 1 0 m, C: 3 0 m}}
points: {A1: 0 0 m, P1: 0 1 m, B1: 1 0 m, Q1: 1 1 m, C1: 3 0 m, R1: 3 1 m, P: 0 1 m, Q: 1 1 m, R: 3 1 m,
  T: 2 1 m, T1: 2 1 m, E1: 2 0.3 m}
bodies:
  first: {kind: rigid, points: {A1: 0 0 m, P1: 0 1 m}, mass: 1 kg, center_of_mass: 0 0.5 m, inertia: 0.1 kg·m²}
  second: {kind: rigid, points: {B1: 0 0 m, Q1: 0 1 m}, mass: 1 kg, center_of_mass: 0 0.5 m, inertia: 0.1 kg·m²}
  third: {kind: rigid, points: {C1: 0 0 m, R1: 0 1 m}, mass: 1 kg, center_of_mass: 0 0.5 m, inertia: 0.1 kg·m²}
  coupler: {kind: rigid, points: {P: 0 0 m, Q: 1 0 m, R: 3 0 m, T: 2 0 m}, mass: 3 kg, center_of_mass: 1.5 0 m,
    inertia: 2 kg·m²}
  bob: {kind: rigid, points: {T1: 0 0 m, E1: 0 -0.7 m}, mass: 2 kg, center_of_mass: 0 -0.5 m, inertia: 0.1 kg·m²}
joints:
  at_A: {kind: revolute, points: [A, A1]}
  at_B: {kind: revolute, points: [B, B1]}
  at_C: {kind: revolute, points: [C, C1]}
  at_P: {kind: revolute, points: [P1, P]}
  at_Q: {kind: revolute, points: [Q1, Q]}
  at_R: {kind: revolute, points: [R1, R]}
  at_T: {kind: revolute, points: [T, T1]}
"""


def test_reactions_of_three_parallel_cranks_are_undetermined_unlike_that_of_a_hung_body():
    """Three forces along parallel cranks have only two equations, of force and of moment. Natural and relative
    coordinates give different forces there, and the same forces where these are unique."""
    found = []
    for form in ("natural", "relative"):
        m = mechanism(CRANKS.replace("FORM", form))
        assert find_undetermined(m) == [f"at_{p}" for p in "ABCPQR"]
        found.append({r.joint: r.force for r in calc_reactions(m)})
    natural, relative = found
    assert natural["at_T"] == pytest.approx(relative["at_T"], abs=1e-8)
    assert np.linalg.norm(natural["at_A"] - relative["at_A"]) > 0.1
    tension = [sum(f[f"at_{p}"] for p in "ABC") for f in found]
    assert tension[0] == pytest.approx(tension[1], abs=1e-8)


DOOR = """
space: spatial
gravity: 0 0 -9.81 m/s²
coordinates: FORM
ground: {points: {A: 0 0 0 m, B: 0 0 2 m}}
points: {A1: 0 0 0 m, B1: 0 0 2 m, E: 1 0 1 m}
vectors: {axis: 0 0 1}
bodies:
  door: {kind: rigid, points: [A1, B1, E], vectors: [axis], mass: 20 kg, center_of_mass: 0.5 0 1 m,
    inertia: 8 9 2 kg·m²}
joints:
  lower: {kind: spherical, points: [A, A1]}
  upper: JOINT
"""


@pytest.mark.parametrize("form", ["natural", "relative"])
@pytest.mark.parametrize(
    ("joint", "undetermined"),
    [
        ("{kind: spherical, points: [B, B1]}", ["lower", "upper"]),
        ("{kind: point_on_line, points: [B, B1], axis: z}", []),
    ],
)
def test_the_weight_of_a_door_is_undetermined_on_two_ball_joints_but_not_with_a_guide(
    form, joint, undetermined
):
    """Two ball joints can share the weight in any ratio; a guide along z takes none of it."""
    m = mechanism(DOOR.replace("FORM", form).replace("JOINT", joint))
    assert find_undetermined(m) == undetermined
    forces = {r.joint: r.force for r in calc_reactions(m)}
    assert sum(forces.values())[2] == pytest.approx(20.0 * G, rel=1e-9)
    assert forces["upper"][0] == pytest.approx(-20.0 * G * 0.5 / 2.0, rel=1e-9)
    if not undetermined:
        assert forces["lower"][2] == pytest.approx(20.0 * G, rel=1e-9)


def rotate(text: str, degrees: float) -> str:
    """The description of a door whose line of hinges leans by an angle in the plane of x and z."""
    sine, cosine = np.sin(np.radians(degrees)), np.cos(np.radians(degrees))
    top, away = f"{2 * sine} 0 {2 * cosine} m", f"{cosine + sine} 0 {cosine - sine} m"
    text = (
        text.replace("0 0 2 m", top)
        .replace("1 0 1 m", away)
        .replace("axis: 0 0 1", f"axis: {sine} 0 {cosine}")
    )
    return text.replace("mass: 0.5 0 1 m", f"mass: {0.5 * cosine + sine} 0 {cosine - 0.5 * sine} m")


@pytest.mark.parametrize("form", ["natural", "relative"])
@pytest.mark.parametrize(("degrees", "along"), [(0.0, "z"), (90.0, "x"), (30.0, "xz")])
def test_of_two_ball_joints_only_the_force_along_their_line_is_undetermined(form, degrees, along):
    m = mechanism(
        rotate(DOOR, degrees).replace("FORM", form).replace("JOINT", "{kind: spherical, points: [B, B1]}")
    )
    forces = [f"force.{axis}" for axis in along]
    assert find_undetermined_components(m) == {"lower": forces, "upper": forces}


def test_components_not_listed_as_undetermined_are_the_same_in_both_forms():
    """Both forms solve the same equations for different unknowns, and agree in all determined components."""
    differ = 0
    for text in (DOOR.replace("JOINT", "{kind: spherical, points: [B, B1]}"), CRANKS):
        reactions, named = [], []
        for form in ("natural", "relative"):
            m = mechanism(text.replace("FORM", form))
            named.append(find_undetermined_components(m))
            reactions.append({r.joint: np.concatenate([r.force, r.torque]) for r in calc_reactions(m)})
        assert named[0] == named[1]
        for joint, one in reactions[0].items():
            free = named[0].get(joint, [])
            for k, axis in enumerate("xyz"):
                apart = abs(one[k] - reactions[1][joint][k])
                assert apart < 1e-7 or f"force.{axis}" in free, (joint, axis)
                differ += apart > 0.1
            assert np.abs(one[3:] - reactions[1][joint][3:]).max() < 1e-7
            assert not any(name.startswith("torque") for name in free)
    assert differ, "the mechanisms have nothing undetermined"


def test_lateral_force_and_torque_of_two_guides_of_a_block_are_undetermined():
    """Both guides along x take lateral force and torque; neither takes force along x."""
    m = mechanism(BLOCK)
    held = ["force.y", "torque.z"]
    assert find_undetermined_components(m) == {"front": held, "rear": held}


BLOCK = """
space: planar
ground: {points: {A: 0 0 m, B: 2 0 m}}
points: {P: 0 0 m, Q: 2 0 m}
vectors: {u: 1 0}
bodies:
  block: {kind: rigid, points: [P, Q], vectors: [u], mass: 1 kg, center_of_mass: 1 0 m, inertia: 1 kg·m²}
joints:
  front: {kind: prismatic, points: [A, P], axes: [x, u]}
  rear: {kind: prismatic, points: [B, Q], axes: [x, u]}
"""
