"""Joints: their constraints, the motions they permit, and their reactions."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_rig import G, advance, mechanism, shipped

from vehicled.multibody import problems
from vehicled.multibody.checks import calc_topology

# A body with skew axes, held by one joint at P; at the start, u and n lie along the joint's directions.
SPATIAL = """
space: spatial
gravity: 0 0 -9.81 m/s²
ground: {{points: {{O: 0.3 -0.2 0.5 m}}, vectors: {{a: 1 2 2, b: 2 1 -2, c: 2 -2 1}}}}
points: {{P: 0.3 -0.2 0.5 m}}
vectors: {{u: {u}, n: 2 1 -2}}
bodies:
  body:
    kind: rigid
    points: [P]
    vectors: [u, n]
    mass: 2 kg
    center_of_mass: 0.8 0.1 0.4 m
    inertia: 0.2 0.3 0.4 kg·m²
joints:
  joint: {{{joint}}}
"""
AXIS, NORMAL = np.array([1.0, 2.0, 2.0]) / 3, np.array([2.0, 1.0, -2.0]) / 3
ARM = np.array([0.5, 0.3, -0.1])
"""From the joint to the centre of mass."""


def held(joint, u="1 2 2"):
    return mechanism(SPATIAL.format(joint=joint, u=u))


def twists(m):
    """(f, 6) velocity of P and angular velocity of each motion that the constraints permit."""
    motions = problems.nullspace(m.calc_jacobian())
    result = []
    for motion in motions.T:
        m.qd[:] = motion
        result.append(np.concatenate([motion[:3], angular_velocity(m)]))
    return np.array(result)


def angular_velocity(m):
    """½ Σ dⁱ × ḋ_i of the body's frame."""
    frame = m.compiled.model.parts["body"].frame
    rows, rates = [], []
    index = {c.q: k for k, c in enumerate(m.compiled.model.system.coordinates)}
    for direction in frame.directions:
        ((basic, _),) = direction.terms.items()
        place = [index[a] for a in basic.position]
        rows.append(m.q[place])
        rates.append(m.qd[place])
    reciprocal = np.linalg.inv(np.array(rows).T)
    return 0.5 * sum(np.cross(a, b) for a, b in zip(reciprocal, rates, strict=True))


def span(vectors):
    """(6, 6) projector onto what the vectors span."""
    q, _ = np.linalg.qr(np.array(vectors, dtype=float).T)
    return q @ q.T


def turn(axis):
    return np.concatenate([np.zeros(3), axis])


def shift(axis):
    return np.concatenate([axis, np.zeros(3)])


CROSS = np.cross(AXIS, NORMAL)
JOINTS = {
    "spherical": ("kind: spherical, points: [O, P]", [turn(e) for e in np.eye(3)]),
    "revolute": ("kind: revolute, points: [O, P], axes: [a, u]", [turn(AXIS)]),
    "cylindrical": ("kind: cylindrical, points: [O, P], axes: [a, u]", [turn(AXIS), shift(AXIS)]),
    "prismatic": ("kind: prismatic, points: [O, P], axes: [a, u], normals: [b, n]", [shift(AXIS)]),
    "rigid": ("kind: rigid, points: [O, P], axes: [a, u], normals: [b, n]", []),
    "point_on_line": (
        "kind: point_on_line, points: [O, P], axis: a",
        [shift(AXIS), *(turn(e) for e in np.eye(3))],
    ),
    # u lies along a, at right angles to c: the body turns about both, but not about a × c.
    "universal": ("kind: universal, points: [O, P], axes: [c, u]", [turn(AXIS), turn(CROSS)]),
}


@pytest.mark.parametrize("name", JOINTS)
def test_joint_permits_exactly_the_motions_of_its_kind(name):
    joint, allowed = JOINTS[name]
    m = held(joint)
    topology = calc_topology(m)
    assert topology.redundant == []
    assert topology.degrees_of_freedom == len(allowed)
    assert sum(n.startswith("joint: ") for n in topology.constraints) == 6 - len(allowed)
    found = twists(m)
    assert len(found) == len(allowed)
    if allowed:
        assert span(found) == pytest.approx(span(allowed), abs=1e-9)


@pytest.mark.parametrize("name", JOINTS)
def test_reaction_does_no_work_in_motions_that_the_joint_permits(name):
    """Force and moment on the body at P, from λ of the joint alone."""
    joint, allowed = JOINTS[name]
    m = held(joint)
    force, moment = reaction(m)
    wrench = np.concatenate([force, moment])
    for twist in allowed:
        assert wrench @ twist == pytest.approx(0.0, abs=1e-8)


def reaction(m):
    """Force and moment of the joint on the body at P, from their virtual power in rigid motions."""
    rows = [k for k, n in enumerate(m.constraint_names) if n.startswith("joint")]
    generalised = -m.calc_jacobian()[rows].T @ m.multipliers[rows]
    wrench = []
    vectors = m.q.reshape(-1, 3)[1:]
    for e in np.eye(6):
        motion = np.concatenate([e[:3], np.cross(e[3:], vectors).ravel()])
        wrench.append(generalised @ motion)
    return np.array(wrench[:3]), np.array(wrench[3:])


def test_reaction_of_a_clamped_body_balances_its_weight():
    m = held(JOINTS["rigid"][0])
    force, moment = reaction(m)
    weight = np.array([0.0, 0.0, -2 * G])
    assert force == pytest.approx(-weight, abs=1e-9)
    assert moment == pytest.approx(-np.cross(ARM, weight), abs=1e-9)
    assert m.qdd == pytest.approx(0.0, abs=1e-9)


def test_body_on_a_hinge_accelerates_as_a_pendulum():
    """(I + m d²) φ̈ is the moment of the weight about the axis."""
    m = held(JOINTS["revolute"][0])
    inertia = np.diag([0.2, 0.3, 0.4]) + 2 * (ARM @ ARM * np.eye(3) - np.outer(ARM, ARM))
    about = AXIS @ np.cross(ARM, [0.0, 0.0, -2 * G]) / (AXIS @ inertia @ AXIS)
    centre = m.qdd.reshape(-1, 3)[2]
    # n turns with the body: n̈ = φ̈ a × n at rest.
    assert centre == pytest.approx(about * np.cross(AXIS, NORMAL), abs=1e-9)


def test_universal_joint_transmits_rotation_unevenly():
    """tan θ₂ = tan θ₁ cos β of a Cardan joint between shafts at β = 30°, and its rate."""
    text = """
space: spatial
ground: {points: {O: 0 0 0 m}, vectors: {w: 0.8660254037844386 0 0.5}}
points: {P: 0 0 0 m}
vectors: {e: 0 1 0, f: -0.5 0 0.8660254037844386}
angles:
  first: {between: [y, e], about: x, start: 0 deg}
  second: {between: [y, f], about: w, start: 90 deg}
bodies:
  input: {kind: rigid, points: [O], vectors: [e, x], mass: 1 kg, center_of_mass: 0 0 0 m, inertia: 1 1 1 kg·m²}
  output: {kind: rigid, points: [P], vectors: [f, w], mass: 1 kg, center_of_mass: 0 0 0 m, inertia: 1 1 1 kg·m²}
joints:
  cross: {kind: universal, points: [O, P], axes: [e, f]}
drives: {first: 2*t}
"""
    m = mechanism(text)
    assert calc_topology(m).degrees_of_freedom == 0
    for _ in range(100):
        m.t += 0.01
        problems.solve_position(m, m.z).require("cardan")
        problems.solve_velocity(m, m.zd)
        one, two = m.q[m.index("first")], m.q[m.index("second")] - np.pi / 2
        bend = np.cos(np.pi / 6)
        assert np.tan(two) == pytest.approx(np.tan(one) * bend, rel=1e-9)
        ratio = bend / (np.cos(one) ** 2 + (np.sin(one) * bend) ** 2)
        assert m.qd[m.index("second")] == pytest.approx(2.0 * ratio, rel=1e-9)


PLANAR = """
space: planar
gravity: 0 -9.81 m/s²
ground: {{points: {{O: 0.3 -0.2 m}}, vectors: {{a: 3 4}}}}
points: {{P: 0.3 -0.2 m, Q: 1.3 0.1 m}}
vectors: {{u: 3 4}}
bodies:
  body:
    kind: rigid
    points: [P, Q]
    vectors: [u]
    mass: 2 kg
    center_of_mass: 0.8 0.1 m
    inertia: 0.4 kg·m²
joints:
  joint: {{{joint}}}
"""


@pytest.mark.parametrize(
    ("joint", "dof"),
    [
        ("kind: revolute, points: [O, P]", 1),
        ("kind: spherical, points: [O, P]", 1),
        ("kind: prismatic, points: [O, P], axes: [a, u]", 1),
        ("kind: rigid, points: [O, P], axes: [a, u]", 0),
        ("kind: point_on_line, points: [O, P], axis: a", 2),
        ("kind: distance, points: [O, Q]", 2),
        ("kind: equation, expression: P.x + 2*P.y", 2),
    ],
)
def test_planar_joint_leaves_the_degrees_of_freedom_of_its_kind(joint, dof):
    m = mechanism(PLANAR.format(joint=joint))
    topology = calc_topology(m)
    assert (topology.degrees_of_freedom, topology.redundant) == (dof, [])


def test_planar_slide_falls_along_its_axis():
    m = mechanism(PLANAR.format(joint="kind: prismatic, points: [O, P], axes: [a, u]"))
    along = np.array([0.6, 0.8])
    assert m.qdd[:2] == pytest.approx(-G * 0.8 * along, abs=1e-9)
    assert m.qdd[2:4] == pytest.approx(-G * 0.8 * along, abs=1e-9)
    assert m.qdd[4:] == pytest.approx(0.0, abs=1e-9)


def test_driven_coordinate_follows_its_expression():
    text = """
space: planar
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m}
angles: {theta: {between: [x, [A, P]]}}
parameters: {pace: 3 rad/s}
inputs: [more]
bodies: {bar: {kind: bar, points: [A, P], length: 1 m, mass: 3 kg}}
drives: {theta: 0.5*sin(pace*t) + more}
"""
    m = mechanism(text)
    assert m.qd[2] == pytest.approx(1.5)
    advance(m, 1e-3, 0.7)
    assert m.q[2] == pytest.approx(0.5 * np.sin(2.1), abs=1e-10)
    assert m.qd[2] == pytest.approx(1.5 * np.cos(2.1), abs=1e-9)
    assert m.qdd[2] == pytest.approx(-4.5 * np.sin(2.1), abs=1e-7)
    # The torque of the drive: I θ̈ with I = m l²/3.
    torque = -m.multipliers[m.constraint_names.index("drive theta")]
    assert torque == pytest.approx(m.qdd[2], rel=2e-3)
    m.inputs[0] = 0.2, -0.1, 0.4
    problems.solve_position(m, m.z).require("drive")
    problems.solve_velocity(m, m.zd)
    problems.solve_dynamics(m)
    assert m.q[2] == pytest.approx(0.5 * np.sin(2.1) + 0.2, abs=1e-10)
    assert m.qd[2] == pytest.approx(1.5 * np.cos(2.1) - 0.1)
    assert m.qdd[2] == pytest.approx(-4.5 * np.sin(2.1) + 0.4)


def test_rack_steers_the_suspension_corner():
    """The rack moves the tie rod's inner end along y; the outer end follows, and the lower ball joint stays."""
    m = shipped("suspension_corner")
    before = m.calc_point_positions()
    places = {n: p.copy() for n, p in before.items()}
    m.inputs[0] = 0.01, 0.0, 0.0
    problems.solve_position(m, m.z).require("rack")
    after = m.calc_point_positions()
    assert after["tie_inner"] - places["tie_inner"] == pytest.approx([0.0, 0.01, 0.0], abs=1e-10)
    assert after["lower_ball"] == pytest.approx(places["lower_ball"], abs=1e-12)
    rods = [np.linalg.norm(p["tie_outer"] - p["tie_inner"]) for p in (places, after)]
    assert rods[0] == pytest.approx(rods[1], abs=1e-12)
    assert (after["tie_outer"] - places["tie_outer"])[1] == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize("kind", ["prismatic", "cylindrical"])
def test_a_body_may_slide_on_one_of_its_markers(kind):
    """On a slope of 3 in 5; the marker is 0.25 m up the slope from the joint's point on the ground."""
    normals = ", normals: [n, m]" if kind == "prismatic" else ""
    m = mechanism(f"""
space: spatial
coordinates: relative
gravity: 0 0 -10 m/s²
ground: {{points: {{O: 0 0 0 m}}, vectors: {{n: 0 1 0, slope: 0.8 0 0.6}}}}
points: {{P: 0.2 0.1 0.25 m, Q: 0.2 1.1 0.25 m}}
bodies:
  block:
    kind: rigid
    points: [P, Q]
    markers: {{M: 0.2 0 0.15 m}}
    directions: {{along: 0.8 0 0.6, m: 0 1 0}}
    mass: 2 kg
    center_of_mass: 0.2 0 0.15 m
    inertia: 0.1 0.2 0.2 kg·m²
joints: {{guide: {{kind: {kind}, points: [O, M], axes: [slope, along]{normals}}}}}
""")
    slide = m.index("block.slide")
    assert m.q[slide] == pytest.approx(0.25)
    problems.solve_dynamics(m)
    assert m.qdd[slide] == pytest.approx(-6.0)
