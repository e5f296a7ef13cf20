"""Pose, twist, wrench and forces of a body against formulas of rigid bodies."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_rig import mechanism
from operator_rig import FREE, MECHANISMS, SEEDS, in_plane, make
from rigid_reference import rigid_bodies, wrench_at

from vehicled.errors import UsageError
from vehicled.multibody import body_operators, operators, problems
from vehicled.multibody.mechanism import Mechanism


@pytest.fixture(params=[(name, seed) for name in (*MECHANISMS, "dumbbell") for seed in SEEDS], ids=str)
def m(request) -> Mechanism:
    return make(*request.param)


@pytest.fixture(params=[(name, seed) for name in MECHANISMS for seed in SEEDS[:2]], ids=str)
def oriented(request) -> Mechanism:
    return make(*request.param)


def test_pose_and_twist_of_every_body(oriented):
    m = oriented
    for name, b in rigid_bodies(m).items():
        if not m.placement.bodies[name].has_orientation:
            with pytest.raises(UsageError, match=f"{name} has no orientation"):
                body_operators.calc_pose(m, name)
            continue
        pose = body_operators.calc_pose(m, name)
        assert pose.R_world_body == pytest.approx(b.R, abs=1e-9)
        assert pose.origin_world == pytest.approx(b.origin, abs=1e-9)
        twist = body_operators.calc_twist(m, name)
        assert twist == pytest.approx(np.concatenate([b.omega, b.velocity]), abs=1e-8)
        (place,) = in_plane(m, np.array([0.3, -0.5, 0.7]))
        twist = body_operators.calc_twist(m, name, place)
        assert twist == pytest.approx(np.concatenate([b.omega, b.velocity_of(place)]), abs=1e-8)


def test_twist_is_the_rate_of_the_pose(oriented):
    """By central differences along the motion of constant q̈."""
    m = oriented
    body, place = next(iter(m.placement.bodies)), np.array([0.2, 0.1, 0.0])
    twist = body_operators.calc_twist(m, body, place)
    q, qd, qdd, e = m.q.copy(), m.qd.copy(), m.qdd.copy(), 1e-5
    ends = []
    for t in (e, -e):
        m.q[:] = q + t * qd + 0.5 * t * t * qdd
        ends.append(body_operators.calc_pose(m, body))
    turned = ends[0].R_world_body @ ends[1].R_world_body.T
    turn = np.array([turned[2, 1] - turned[1, 2], turned[0, 2] - turned[2, 0], turned[1, 0] - turned[0, 1]])
    assert twist[:3] == pytest.approx(turn / (4 * e), rel=1e-5, abs=1e-6)
    places = [p.R_world_body @ place + p.origin_world for p in ends]
    assert twist[3:] == pytest.approx((places[0] - places[1]) / (2 * e), rel=1e-6, abs=1e-7)


def test_spatial_acceleration_is_the_rate_of_the_twist(oriented):
    """By central differences along the motion of constant q̈."""
    m = oriented
    body = [name for name, b in m.placement.bodies.items() if b.has_orientation][-1]
    place = np.array([0.2, 0.1, 0.0])
    found = body_operators.calc_spatial_acceleration(m, body, place)
    q, qd, qdd, e = m.q.copy(), m.qd.copy(), m.qdd.copy(), 1e-5
    ends = []
    for t in (e, -e):
        m.q[:], m.qd[:] = q + t * qd + 0.5 * t * t * qdd, qd + t * qdd
        ends.append(body_operators.calc_twist(m, body, place))
    assert found == pytest.approx((ends[0] - ends[1]) / (2 * e), rel=1e-6, abs=1e-6 * np.abs(found).max())


def test_acceleration_is_the_sum_of_the_independent_coordinates_and_coriolis_parts(oriented):
    m = oriented
    body = [name for name, b in m.placement.bodies.items() if b.has_orientation][-1]
    place = np.array([0.2, 0.1, 0.0])
    maps = operators.calc_coordinate_maps(m)
    direct = body_operators.calc_twist_map(m, body, place) @ maps.r @ m.zdd
    whole = body_operators.calc_spatial_acceleration(m, body, place)
    by_rates = body_operators.calc_coriolis_acceleration(m, body, place)
    assert direct + by_rates == pytest.approx(whole, abs=1e-9 * np.abs(whole).max())


def test_required_wrenches_do_the_virtual_work_of_the_inertia_forces(oriented):
    """d'Alembert's principle in every motion that the constraints permit, gyroscopic torques included."""
    m = oriented
    motions = problems.nullspace(m.calc_jacobian())
    total = np.zeros(len(m.q))
    for body, placed in m.placement.bodies.items():
        if placed.has_orientation:
            wrench = body_operators.calc_required_wrench(m, body)
            total += body_operators.calc_twist_map(m, body).T @ wrench
        else:
            total += np.einsum("kin,ki->n", placed.map, placed.moments @ placed.accelerate(m.qdd))
    inertial = motions.T @ (m.mass @ m.qdd)
    assert motions.T @ total == pytest.approx(inertial, abs=1e-9 * np.abs(m.mass @ m.qdd).max())


def test_the_gyroscopic_torque_alone_turns_a_body_under_its_own_weight():
    m = make("free")
    turning = body_operators.calc_spatial_acceleration(m, "body")[:3]
    gyroscopic = body_operators.calc_gyroscopic_wrench(m, "body")
    assert np.linalg.norm(gyroscopic) > 0.01
    assert body_operators.calc_inertia(m, "body") @ turning == pytest.approx(-gyroscopic[:3], abs=1e-10)
    required = body_operators.calc_required_wrench(m, "body")
    assert required == pytest.approx([0.0, 0.0, 0.0, 0.6, -0.4, -19.62], abs=1e-9)


def test_wrench_and_twist_are_dual(oriented):
    """(Jᵀ w)·q̇ = w·(J q̇) for any q̇, and a wrench has the power of the three point forces it sums."""
    m, rng = oriented, np.random.default_rng(8)
    for name, b in rigid_bodies(m).items():
        if not m.placement.bodies[name].has_orientation:
            continue
        places = [*in_plane(m, *rng.normal(size=(3, 3)))]
        pushes = [*in_plane(m, *rng.normal(size=(3, 3)))]
        forces = body_operators.Forces(m)
        for place, force in zip(places, pushes, strict=True):
            forces.add_force(name, place, force)
        worlds = [b.R @ place + b.origin for place in places]
        wrench = sum(wrench_at(f, x, b) for f, x in zip(pushes, worlds, strict=True))
        jacobian = body_operators.calc_twist_map(m, name)
        swapped = np.concatenate([wrench[3:], wrench[:3]])
        any_rate = rng.normal(size=len(m.q))
        assert (jacobian.T @ swapped) @ any_rate == pytest.approx(swapped @ (jacobian @ any_rate))
        power = wrench[:3] @ b.velocity + wrench[3:] @ b.omega
        assert (jacobian.T @ swapped) @ m.qd == pytest.approx(power, rel=1e-8, abs=1e-8)
        assert forces.generalised @ m.qd == pytest.approx(power, rel=1e-8, abs=1e-8)


def test_point_map_gives_velocity_and_acceleration(m):
    velocities, accelerations = m.calc_point_velocities(), m.calc_point_accelerations()
    for name in m.compiled.points:
        jacobian = body_operators.calc_point_map(m, name)
        assert jacobian @ m.qd == pytest.approx(velocities[name], abs=1e-10)
        assert jacobian @ m.qdd == pytest.approx(accelerations[name], rel=1e-9, abs=1e-9)
    with pytest.raises(UsageError, match="unknown point 'nowhere'; known here: "):
        body_operators.calc_point_map(m, "nowhere")
    with pytest.raises(UsageError, match="unknown body 'nobody'; known here: "):
        body_operators.calc_twist(m, "nobody")


def test_forces_act_like_the_same_loads_in_a_description():
    text = (
        FREE
        + """
forces:
  turn: {kind: torque, body: body, torque: [1, -2, 3]}
  push: {kind: force, point: M, force: [4, 5, -6]}
  pull: {kind: on_coordinate, coordinate: u.y, force: 7}
"""
    )
    loaded, m = mechanism(text), mechanism(FREE)
    forces = body_operators.Forces(m)
    forces.add_torque("body", [1, -2, 3])
    forces.add_force("body", [0.4, 0.5, 0.6], [4, 5, -6])
    forces.add_coordinate_force("u.y", 7)
    m.applied[:] = forces.generalised
    assert m.calc_forces() == pytest.approx(loaded.calc_forces(), abs=1e-12)
    problems.solve_dynamics(m)
    assert m.qdd == pytest.approx(loaded.qdd, abs=1e-9)
    by_name = body_operators.Forces(m)
    by_name.add_point_force("M", [4, 5, -6])
    by_place = body_operators.Forces(m)
    by_place.add_force("body", [0.4, 0.5, 0.6], [4, 5, -6])
    assert by_name.generalised == pytest.approx(by_place.generalised, abs=1e-12)
