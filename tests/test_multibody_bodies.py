"""A rigid body moves the same, whichever points and vectors describe it."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_rig import G, mechanism

from vehicled.multibody import problems
from vehicled.multibody.checks import calc_topology

PLACES = {"P": "0.2 -0.1 0.3", "Q": "0.9 0.4 -0.2", "R": "-0.3 0.8 0.5", "S": "0.5 0.5 0.9"}
VECTORS = {"u": "1 2 2", "v": "2 -1 0.5", "w": "0.3 0.4 -1"}
SPATIAL = ["P", "PQ", "PQR", "PQRS", "Pu", "Puv", "Puvw", "PQu", "PQuv", "PQuvw", "PQRu", "PQRSuvw"]


def spatial(names):
    points = {n: PLACES[n] for n in names if n.isupper()}
    vectors = {n: VECTORS[n] for n in names if n.islower()}
    text = "space: spatial\ngravity: 0.1 0.2 -9.81 m/s²\n"
    text += f"points: {{{', '.join(f'{n}: {p} m' for n, p in points.items())}}}\n"
    if vectors:
        text += f"vectors: {{{', '.join(f'{n}: {v}' for n, v in vectors.items())}}}\n"
    return (
        text
        + f"""
bodies:
  body:
    kind: rigid
    points: [{", ".join(points)}]
    vectors: [{", ".join(vectors)}]
    markers: {{M: 0.7 -0.6 0.2 m}}
    mass: 3 kg
    center_of_mass: 0.1 0.2 0.3 m
    inertia: 0.4 0.7 0.9 kg·m²
    products: 0.05 -0.02 0.03 kg·m²
forces:
  push: {{kind: force, point: M, force: [2, -1, 3]}}
  twist: {{kind: torque, body: body, torque: [0.4, 0.6, -0.2]}}
"""
    )


INERTIA = np.array([[0.4, 0.05, 0.03], [0.05, 0.7, -0.02], [0.03, -0.02, 0.9]])
CENTRE, MARKER = np.array([0.1, 0.2, 0.3]), np.array([0.7, -0.6, 0.2])


@pytest.mark.parametrize("names", SPATIAL)
def test_spatial_body_obeys_the_newton_euler_equations(names):
    m = mechanism(spatial(names))
    topology = calc_topology(m)
    assert topology.degrees_of_freedom == 6
    assert topology.redundant == []
    # Angular velocity w, velocity v of the centre of mass.
    w, v = np.array([0.5, -1.0, 2.0]), np.array([0.3, 0.1, -0.2])
    for k, name in enumerate(m.coordinate_names[::3]):
        basic, part = name[:-2], slice(3 * k, 3 * k + 3)
        point = basic in PLACES
        arm = m.q[part] - (CENTRE if point else 0.0)
        m.qd[part] = np.cross(w, arm) + (v if point else 0.0)
    assert m.calc_jacobian() @ m.qd == pytest.approx(0.0, abs=1e-12)
    assert m.calc_kinetic_energy() == pytest.approx(0.5 * w @ INERTIA @ w + 1.5 * v @ v, rel=1e-12)
    problems.solve_dynamics(m)
    force, torque = np.array([2.0, -1.0, 3.0]), np.array([0.4, 0.6, -0.2])
    spin = np.linalg.solve(INERTIA, torque + np.cross(MARKER - CENTRE, force) - np.cross(w, INERTIA @ w))
    push = force / 3.0 + [0.1, 0.2, -9.81]
    arm = MARKER - CENTRE
    expected = push + np.cross(spin, arm) + np.cross(w, np.cross(w, arm))
    assert m.calc_point_accelerations()["M"] == pytest.approx(expected, abs=1e-8)
    assert m.calc_potential_energy() == pytest.approx(-3.0 * CENTRE @ [0.1, 0.2, -9.81])


@pytest.mark.parametrize("names", ["P", "PQ", "PQR", "Pu", "Puv", "PQu"])
def test_planar_body_obeys_the_newton_euler_equations(names):
    """The centre of mass is at none of the points."""
    points = {n: PLACES[n].rsplit(" ", 1)[0] for n in names if n.isupper()}
    vectors = {n: VECTORS[n].rsplit(" ", 1)[0] for n in names if n.islower()}
    text = f"""
space: planar
gravity: 0.3 -9.81 m/s²
points: {{{", ".join(f"{n}: {p} m" for n, p in points.items())}}}
vectors: {{{", ".join(f"{n}: {v}" for n, v in vectors.items())}}}
bodies:
  body:
    kind: rigid
    points: [{", ".join(points)}]
    vectors: [{", ".join(vectors)}]
    markers: {{M: 0.7 -0.6 m}}
    mass: 3 kg
    center_of_mass: 0.1 0.2 m
    inertia: 0.9 kg·m²
forces:
  push: {{kind: force, point: M, force: [2, -1]}}
  twist: {{kind: torque, body: body, torque: [0.4]}}
"""
    m = mechanism(text)
    topology = calc_topology(m)
    assert (topology.degrees_of_freedom, topology.redundant) == (3, [])
    w, v = 1.7, np.array([0.3, 0.1])

    def turn(a):
        return np.array([-a[1], a[0]])

    for k, name in enumerate(m.coordinate_names[::2]):
        part = slice(2 * k, 2 * k + 2)
        point = name[:-2] in PLACES
        m.qd[part] = w * turn(m.q[part] - (CENTRE[:2] if point else 0.0)) + (v if point else 0.0)
    assert m.calc_jacobian() @ m.qd == pytest.approx(0.0, abs=1e-12)
    assert m.calc_kinetic_energy() == pytest.approx(0.5 * 0.9 * w * w + 1.5 * v @ v, rel=1e-12)
    problems.solve_dynamics(m)
    arm, force = (MARKER - CENTRE)[:2], np.array([2.0, -1.0])
    spin = (0.4 + arm[0] * force[1] - arm[1] * force[0]) / 0.9
    expected = force / 3.0 + [0.3, -9.81] + spin * turn(arm) - w * w * arm
    assert m.calc_point_accelerations()["M"][:2] == pytest.approx(expected, abs=1e-9)


def test_mass_matrix_of_a_uniform_bar():
    """m/3 at the ends and m/6 between them, in the plane and in space."""
    for space, zero in (("planar", "0 0"), ("spatial", "0 0 0")):
        far = "1" + zero[1:]
        text = f"""
space: {space}
points: {{P: {zero} m, Q: {far} m}}
bodies: {{bar: {{kind: bar, points: [P, Q], length: 1 m, mass: 6 kg}}}}
"""
        n = len(zero.split())
        expected = np.kron([[2.0, 1.0], [1.0, 2.0]], np.eye(n))
        assert mechanism(text).mass == pytest.approx(expected, abs=1e-12)


def test_a_body_hinged_to_the_ground_accelerates_as_a_physical_pendulum():
    """One of its two points is fixed to the ground; the other's acceleration is calculated by hand."""
    text = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 2 0 m}
bodies:
  body: {kind: rigid, points: {A: 0 0 m, P: 2 0 m}, mass: 4 kg, center_of_mass: 0.5 0.7 m, inertia: 1 kg·m²}
"""
    m = mechanism(text)
    polar = 1.0 + 4.0 * (0.25 + 0.49)
    assert m.qdd == pytest.approx([0.0, 2 * (-4 * G * 0.5) / polar], abs=1e-9)


def test_geometry_in_the_bodys_axes_needs_only_rough_positions():
    """Points in the body's axes are exact; the start positions in the ground's axes are off by decimetres."""
    rng = np.random.default_rng(8)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    rotation *= np.linalg.det(rotation)
    local = {n: np.array([float(x) for x in PLACES[n].split()]) for n in "PQRS"}
    rough = {n: rotation @ p + [3.0, -1.0, 2.0] + 0.1 * rng.normal(size=3) for n, p in local.items()}
    points = ", ".join(f"{n}: {' '.join(f'{x:.4f}' for x in p)} m" for n, p in rough.items())
    inside = ", ".join(f"{n}: {p} m" for n, p in PLACES.items())
    m = mechanism(f"""
space: spatial
points: {{{points}}}
bodies:
  body:
    kind: rigid
    points: {{{inside}}}
    mass: 1 kg
    center_of_mass: 0 0 0 m
    inertia: 1 1 1 kg·m²
""")
    found = m.calc_point_positions()
    for a in "PQRS":
        for b in "PQRS":
            apart = np.linalg.norm(local[a] - local[b])
            assert np.linalg.norm(found[a] - found[b]) == pytest.approx(apart, abs=1e-9)
        assert np.linalg.norm(found[a] - rough[a]) < 0.3
    assert np.linalg.det([found[n] - found["P"] for n in "QRS"]) == pytest.approx(
        np.linalg.det([local[n] - local["P"] for n in "QRS"])
    )


def test_hinges_shared_by_bodies_need_no_constraints_of_their_own():
    """A spatial double pendulum with skew hinges: bodies share points and vectors, no constraint is redundant."""
    text = """
space: spatial
gravity: 0 0 -9.81 m/s²
ground: {points: {A: 0 0 0 m}}
points: {P: 1 0 0 m, Q: 1 1 0 m}
vectors: {u: 0 0.6 0.8}
bodies:
  upper:
    kind: rigid
    points: [A, P]
    vectors: [y, u]
    mass: 1 kg
    center_of_mass: 0.5 0 0 m
    inertia: 0.01 0.1 0.1 kg·m²
  lower:
    kind: rigid
    points: [P, Q]
    vectors: [u]
    mass: 1 kg
    center_of_mass: 1 0.5 0 m
    inertia: 0.1 0.01 0.1 kg·m²
"""
    topology = calc_topology(mechanism(text))
    assert (topology.degrees_of_freedom, topology.redundant) == (2, [])
    assert not any("joint" in name for name in topology.constraints)
