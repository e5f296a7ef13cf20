"""Motions, and equations without constraint forces."""

import numpy as np
import pytest
from identification_rig import SUSPENSION_REACH, draw_motion
from mechanism_rig import mechanism, shipped

from vehicled.errors import RunError, UsageError
from vehicled.identification import base
from vehicled.identification.elimination import calc_motion_basis
from vehicled.identification.motions import Motion, observe, project_motion, solve_motion
from vehicled.identification.regressors import Regressor, spring_columns
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism


@pytest.fixture(scope="module")
def suspension():
    return shipped("front_suspension")


def test_the_basis_is_orthonormal_and_eliminates_constraint_forces(suspension):
    basis = calc_motion_basis(suspension)
    assert basis.matrix.shape == (98, 5)
    assert basis.matrix.T @ basis.matrix == pytest.approx(np.eye(5), abs=1e-13)
    forces = suspension.calc_jacobian().T @ np.random.default_rng(0).normal(size=93)
    assert basis.matrix.T @ forces == pytest.approx(np.zeros(5), abs=1e-11)
    singular = np.linalg.svd(suspension.calc_jacobian(), compute_uv=False)
    assert basis.condition == pytest.approx(singular[0] / singular[-1])


def test_redundant_constraints_are_allowed():
    m = shipped("bricard")
    basis = calc_motion_basis(m)
    assert basis.matrix.shape == (len(m.q), 1)
    assert m.calc_jacobian() @ basis.matrix == pytest.approx(
        np.zeros((len(m.constraint_names), 1)), abs=1e-12
    )


SLIDER = """
space: planar
ground: {points: {A: 0 0 m}}
points: {P: 0.6 0.8 m, Q: 1.2 0 m}
bodies:
  crank: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}
  rod: {kind: bar, points: [P, Q], length: 1 m, mass: 1 kg}
joints: {guide: {kind: point_on_line, points: [A, Q], axis: x}}
"""


def test_a_singular_configuration_is_refused():
    """Crank and rod have the same length, with the slider at the crank's pivot: it may stay there while both turn."""
    m = mechanism(SLIDER)
    assert calc_motion_basis(m).condition < 10.0
    for name, value in {"P.x": 0.0, "P.y": 1.0, "Q.x": 0.0, "Q.y": 0.0}.items():
        m.q[m.index(name)] = value
    assert np.abs(m.calc_constraints()).max() == 0.0
    with pytest.raises(RunError, match="condition of the constraints"):
        calc_motion_basis(m)


@pytest.mark.parametrize("form", ["natural", "relative"])
@pytest.mark.parametrize("move", [-4.5, -1.5, 2.25, 5.5])
def test_a_motion_that_begins_far_away_keeps_the_assembly(form, move):
    """A crank that is turned by `move` at once reaches the same state as in small steps."""
    m = Mechanism.load("four_bar", form=form)
    home, z = m.get_state(), m.z
    for part in np.linspace(0.0, 1.0, 301):
        problems.solve_position(m, z + part * move).require("a small step")
    expected = m.q.copy()
    m.set_state(home)
    none = np.zeros((1, 1))
    motion = solve_motion(m, np.zeros(1), z[None] + move, none, none)
    assert motion.q[0] == pytest.approx(expected, abs=1e-9)


def test_constraints_that_contradict_each_other_are_refused():
    m = shipped("bricard")
    m.q += 0.1 * np.random.default_rng(0).normal(size=len(m.q))
    with pytest.raises(RunError, match=r"fewer than 1 degrees of freedom|conditioned by"):
        calc_motion_basis(m)


def test_forces_by_the_regressor_cause_the_motion(suspension):
    """Forward dynamics of the compiled model under these forces give the same accelerations."""
    m = suspension
    motion = draw_motion(m, 4, SUSPENSION_REACH)
    regressor = Regressor(m, spring_columns(m))
    w, forces = observe(regressor, motion).on_coordinates()
    for k in range(4):
        motion.put(m, k)
        m.applied[m.independent] = w[k] @ regressor.values
        problems.solve_dynamics(m)
        m.applied[:] = 0.0
        assert m.zdd == pytest.approx(motion.qdd[k][m.independent], rel=1e-8, abs=1e-8)
    assert w @ regressor.values == pytest.approx(forces, abs=1e-8)


@pytest.mark.parametrize("name", ["suspension_corner", "slider_crank", "squeezer"])
def test_accelerations_of_forward_dynamics_satisfy_the_equations(name):
    """No drives are measured. Tyres, friction, torques and driven coordinates of the description are included."""
    m = shipped(name)
    m.inputs[:] = 0.01
    random = np.random.default_rng(6)
    problems.solve_position(m, m.z + 0.01).require("start")
    problems.solve_velocity(m, random.normal(size=len(m.independent)))
    problems.solve_dynamics(m)
    motion = Motion(np.array([m.t]), m.q[None].copy(), m.qd[None].copy(), m.qdd[None].copy())
    regressor = Regressor(m, spring_columns(m))
    observed = observe(regressor, motion, np.zeros((1, len(m.independent))))
    assert observed.stacked @ regressor.values == pytest.approx(observed.forces.ravel(), rel=1e-9, abs=1e-9)
    assert np.abs(observed.forces).max() > 1e-3


def test_measured_drives_are_included_as_generalised_forces(suspension):
    regressor = Regressor(suspension, spring_columns(suspension))
    motion = draw_motion(suspension, 3, SUSPENSION_REACH)
    own = observe(regressor, motion)
    _, needed = own.on_coordinates()
    measured = observe(regressor, motion, needed)
    assert measured.forces == pytest.approx(own.forces, abs=1e-9)
    with pytest.raises(UsageError, match=r"drives: expected \(3, 5\), got \(2, 5\)"):
        observe(regressor, motion, needed[:2])


def test_rates_and_accelerations_of_a_solved_motion_are_derivatives():
    m = shipped("five_bar")
    t = np.linspace(0.0, 1.0, 401)
    home = m.z
    amplitude = np.array([0.1, 0.2])
    z = home + amplitude * np.sin(3.0 * t)[:, None]
    zd, zdd = 3.0 * amplitude * np.cos(3.0 * t)[:, None], -9.0 * amplitude * np.sin(3.0 * t)[:, None]
    motion = solve_motion(m, t, z, zd, zdd)
    assert motion.q[:, m.independent] == pytest.approx(z)
    h = t[1] - t[0]
    assert np.gradient(motion.q, h, axis=0)[1:-1] == pytest.approx(motion.qd[1:-1], abs=1e-4)
    assert np.gradient(motion.qd, h, axis=0)[1:-1] == pytest.approx(motion.qdd[1:-1], abs=1e-3)


def test_a_motion_that_cannot_be_followed_is_refused():
    m = shipped("four_bar")
    far = np.array([[1e3]])
    m.set_independent(np.array([m.index(m.coordinate_names[0])]))
    with pytest.raises(RunError, match=r"^no position at t = 0 s with P\.x = 1000 m; expected"):
        solve_motion(m, np.zeros(1), far, 0.0 * far, 0.0 * far)


def test_inexact_kinematics_raise_the_rank_and_projection_corrects_it(suspension):
    m = suspension
    motion = draw_motion(m, 34, SUSPENSION_REACH)
    random = np.random.default_rng(5)
    loose = Motion(
        motion.t, *(a + 1e-6 * random.normal(size=a.shape) for a in (motion.q, motion.qd, motion.qdd))
    )
    tight = project_motion(m, loose)
    assert tight.q == pytest.approx(motion.q, abs=1e-4)
    regressor = Regressor(m)
    w_loose, w_tight = (observe(regressor, x).stacked for x in (loose, tight))
    assert len(base.find_null(w_tight)) == 35
    assert len(base.find_null(w_loose)) < 35
    assert base.calc_double_rank(w_tight) <= 83 < base.calc_double_rank(w_loose)
    for k in range(0, 34, 11):
        tight.put(m, k)
        assert np.abs(m.calc_constraints()).max() < 1e-12
        assert m.calc_jacobian() @ m.qd + m.calc_drift() == pytest.approx(np.zeros(93), abs=1e-10)
        assert m.calc_jacobian() @ m.qdd == pytest.approx(m.calc_gamma(), abs=1e-8)
