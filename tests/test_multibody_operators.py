"""Operators of a whole mechanism against computations for rigid bodies, without natural coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_rig import G, mechanism
from operator_rig import CHAIN, JOINTS, MECHANISMS, SEEDS, chain, make, planar, push
from rigid_reference import full, rigid_bodies

from vehicled.errors import UsageError
from vehicled.multibody import operators, problems
from vehicled.multibody.checks import calc_topology
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism


@pytest.fixture(params=[(name, seed) for name in (*MECHANISMS, "dumbbell") for seed in SEEDS], ids=str)
def m(request) -> Mechanism:
    return make(*request.param)


# -- whole mechanism ---------------------------------------------------------------------------------------


def test_counts_are_those_of_the_topology(m):
    counts, topology = operators.get_counts(m), calc_topology(m)
    assert counts.bodies == len(m.description.bodies)
    assert counts.coordinates == len(m.q)
    assert counts.constraints == len(topology.constraints)
    assert counts.degrees_of_freedom == topology.degrees_of_freedom == len(m.q) - topology.rank


def test_centre_of_mass_and_its_motion(m):
    bodies = rigid_bodies(m).values()
    total = sum(b.mass for b in bodies)
    assert operators.calc_total_mass(m) == pytest.approx(total, rel=1e-12)

    def mean(part):
        return sum(b.mass * getattr(b, part) for b in bodies) / total

    assert operators.calc_center_of_mass(m) == pytest.approx(mean("centre"), abs=1e-9)
    assert operators.calc_center_of_mass_velocity(m) == pytest.approx(mean("velocity"), abs=1e-9)
    acceleration = mean("acceleration")
    assert operators.calc_center_of_mass_acceleration(m) == pytest.approx(acceleration, rel=1e-8, abs=1e-7)


def test_inertia_is_the_sum_of_the_bodies_by_steiner(m):
    bodies = rigid_bodies(m).values()
    properties = operators.calc_mass_properties(m)
    what = (slice(2, 3), slice(2, 3)) if planar(m) else (slice(None), slice(None))
    for result, about in ((properties.inertia, np.zeros(3)), (properties.central_inertia, properties.centre)):
        expected = np.zeros((3, 3))
        for b in bodies:
            r = b.centre - about
            expected += b.inertia + b.mass * (r @ r * np.eye(3) - np.outer(r, r))
        assert result[what] == pytest.approx(expected[what], rel=1e-9, abs=1e-9)


def test_momentum_is_that_of_the_rigid_bodies(m):
    bodies = rigid_bodies(m).values()
    linear = sum(b.mass * b.velocity for b in bodies)
    centre = sum(b.mass * b.centre for b in bodies) / sum(b.mass for b in bodies)
    about = np.array([0.3, -0.7, 0.0 if planar(m) else 1.1])
    for result, point in (
        (operators.calc_momentum(m), np.zeros(3)),
        (operators.calc_momentum(m, about), about),
        (operators.calc_central_momentum(m), centre),
    ):
        angular = sum(b.angular_momentum + np.cross(b.centre - point, b.mass * b.velocity) for b in bodies)
        assert result.linear == pytest.approx(linear, abs=1e-8)
        assert result.angular == pytest.approx(angular, rel=1e-8, abs=1e-8)


def test_kinetic_and_potential_energy(m):
    bodies = rigid_bodies(m).values()
    kinetic = sum(0.5 * b.mass * b.velocity @ b.velocity + 0.5 * b.omega @ b.angular_momentum for b in bodies)
    gravity = full(m.description.gravity)
    potential = -sum(b.mass * gravity @ b.centre for b in bodies)
    if "strut" in m.description.forces:
        places = m.calc_point_positions()
        stretch = np.linalg.norm(places["spring_top"] - places["spring_foot"]) - 0.49624
        potential += 0.5 * 52e3 * stretch**2
    assert m.calc_kinetic_energy() == pytest.approx(kinetic, rel=1e-8)
    assert m.calc_potential_energy() == pytest.approx(potential, rel=1e-8)


def test_momentum_of_a_free_body_changes_by_its_weight_and_applied_forces():
    m = make("free")
    forces = push(m, np.random.default_rng(0))
    before = operators.calc_momentum(m)
    wrench = forces.on_bodies["body"]
    at = m.calc_point_positions()["M"].copy()
    pushed = forces.on_points["M"]
    weight = 2.0 * full(m.description.gravity)
    force = wrench[3:] + pushed + weight
    torque = wrench[:3] + np.cross(at, pushed) + np.cross(operators.calc_center_of_mass(m), weight)
    k = int(m.independent[0])
    m.applied[k] -= 7.0  # a force on a coordinate has no point of application
    problems.solve_dynamics(m)
    h = 1e-5
    make_stepper("matrix_r", "runge_kutta_4").step(m, h).require("step")
    after = operators.calc_momentum(m)
    assert (after.linear - before.linear) / h == pytest.approx(force, rel=1e-3, abs=1e-2)
    assert (after.angular - before.angular) / h == pytest.approx(torque, rel=1e-3, abs=5e-2)


def test_mechanism_without_mass_has_no_centre_of_mass():
    text = """
space: planar
points: {P: 1 0 m}
bodies: {ball: {kind: point_mass, point: P, mass: 1 kg}}
"""
    m = mechanism(text)
    m.set_parameters({"ball.mass": 0.0})
    with pytest.raises(UsageError, match="no body has a mass, so that there is no centre of mass"):
        operators.calc_center_of_mass(m)


# -- accelerations -----------------------------------------------------------------------------------------


def test_accelerations_satisfy_the_equations_of_motion_and_leave_the_state_unchanged(m):
    push(m, np.random.default_rng(5))
    before = m.workspace.copy()
    qdd, multipliers = operators.calc_accelerations(m)
    balance = m.mass @ qdd + m.calc_jacobian().T @ multipliers - m.calc_forces()
    assert balance == pytest.approx(0.0, abs=1e-7 * np.abs(m.calc_forces()).max())
    assert m.calc_jacobian() @ qdd == pytest.approx(m.calc_gamma(), abs=1e-7)
    for name in ("q", "qd", "qdd", "lambda", "time"):
        place = m.layout.places[name]
        inside = slice(place.offset, place.offset + place.count)
        assert np.array_equal(before[inside], m.workspace[inside])


def test_unconstrained_bodies_fall_and_spin_freely():
    m = chain("revolute")
    m.qdd[:] = operators.calc_unconstrained_accelerations(m)
    for b in rigid_bodies(m).values():
        assert b.acceleration == pytest.approx([0.0, 0.0, -G], abs=1e-8)
        assert b.wrench_needed()[3:] == pytest.approx(0.0, abs=1e-8)


def test_accelerations_without_a_joint_equal_those_of_a_description_without_it():
    m = chain("revolute", seed=4)
    qdd, multipliers = operators.calc_accelerations(m, without=["elbow"])
    rows = [k for k, name in enumerate(m.constraint_names) if name.startswith("elbow: ")]
    assert len(rows) == 5
    assert not multipliers[rows].any()
    text = CHAIN.format(joint=JOINTS["revolute"], v="0 1 0", w="0 0 1")
    alone = mechanism("\n".join(line for line in text.splitlines() if "elbow" not in line))
    alone.q[:], alone.qd[:] = m.q, m.qd
    problems.solve_dynamics(alone)
    assert qdd == pytest.approx(alone.qdd, abs=1e-8)
    with pytest.raises(UsageError, match="unknown constraint 'knee'; known here: first: "):
        operators.calc_accelerations(m, without=["knee"])


def test_mass_factorisation_solves_as_the_dense_matrix(m):
    solver = operators.MassFactorisation(m)
    rng = np.random.default_rng(0)
    massive = m.mass.any(axis=1)
    v = rng.normal(size=(len(m.q), 3)) * massive[:, None]
    dense = np.zeros_like(v)
    dense[massive] = np.linalg.solve(m.mass[np.ix_(massive, massive)], v[massive])
    assert solver.solve(v) == pytest.approx(dense, rel=1e-8, abs=1e-10)
    assert solver.solve(v[:, 0]) == pytest.approx(dense[:, 0], rel=1e-8, abs=1e-10)
    if not massive.all():
        idle = int(np.flatnonzero(~massive)[0])
        v[idle] = 1.0
        with pytest.raises(UsageError, match=f"^{m.coordinate_names[idle]} has no mass"):
            solver.solve(v)


# -- independent coordinates -------------------------------------------------------------------------------


def test_maps_between_independent_and_all_coordinates(m):
    maps = operators.calc_coordinate_maps(m)
    f = len(m.independent)
    assert maps.d @ maps.r == pytest.approx(np.eye(f), abs=1e-12)
    assert maps.calc_independent(m.q) == pytest.approx(m.z, abs=0)
    assert maps.calc_rates(maps.calc_independent(m.qd)) == pytest.approx(m.qd, abs=1e-9)
    zdd = maps.calc_independent(m.qdd)
    assert maps.calc_accelerations(zdd) == pytest.approx(m.qdd, rel=1e-7, abs=1e-6)
    # R and b by central differences of the position problem, along z and along time.
    t, q, z, inputs, e = m.t, m.q.copy(), m.z, m.inputs.copy(), 1e-6

    def position(dz: np.ndarray, dt: float) -> np.ndarray:
        m.q[:], m.t = q, t + dt
        m.inputs[:, 0] = inputs[:, 0] + dt * inputs[:, 1]
        problems.solve_position(m, z + dz).require("position")
        return m.q.copy()

    for k, unit in enumerate(np.eye(f)):
        slope = (position(e * unit, 0.0) - position(-e * unit, 0.0)) / (2 * e)
        assert maps.r[:, k] == pytest.approx(slope, rel=1e-5, abs=1e-7)
    still = np.zeros(f)
    slope = (position(still, e) - position(still, -e)) / (2 * e)
    assert maps.b == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_driven_coordinates_contribute_to_the_velocities():
    maps = operators.calc_coordinate_maps(make("suspension_corner"))
    assert np.abs(maps.b).max() > 1e-3


def test_independent_forces_have_the_power_of_the_generalised_forces():
    m = make("five_bar")
    maps = operators.calc_coordinate_maps(m)
    forces = np.random.default_rng(3).normal(size=len(m.q))
    assert maps.calc_independent_forces(forces) @ m.zd == pytest.approx(forces @ m.qd)


def test_covariances_are_those_of_mapped_samples():
    m = make("five_bar")
    maps = operators.calc_coordinate_maps(m)
    rng = np.random.default_rng(6)
    samples = rng.normal(size=(40, 2)) @ np.array([[0.3, 0.1], [0.0, 0.2]])
    mapped = []
    for zd in samples:
        problems.solve_velocity(m, zd)
        mapped.append(m.qd.copy())
    p = np.cov(samples.T)
    assert maps.calc_covariance(p) == pytest.approx(np.cov(np.array(mapped).T), abs=1e-10)
    assert maps.calc_independent_covariance(maps.calc_covariance(p)) == pytest.approx(p, abs=1e-12)
