"""Regressors against the compiled equations of motion, and against Newton and Euler."""

import numpy as np
import pytest
from identification_rig import draw_motion
from mechanism_rig import disturb, mechanism, shipped

from vehicled.errors import UsageError
from vehicled.identification import parameters
from vehicled.identification.elimination import calc_motion_basis
from vehicled.identification.regressors import (
    CoulombFriction,
    Damping,
    Regressor,
    Stiffness,
    ViscousFriction,
    spring_columns,
)
from vehicled.multibody.body_operators import calc_center_place, calc_pose, calc_twist_map

# Mechanisms whose only forces are weight, springs and dampers, with all kinds of bodies: rigid, bars, point masses.
PURE = ("front_suspension", "four_bar", "five_bar", "bricard", "flyball_governor", "simple_pendulum")


@pytest.mark.parametrize("name", PURE)
def test_regressor_times_parameters_is_the_equations_of_motion(name):
    """For any q, q̇, q̈, also if constraints are not met. Mass matrix and forces are those of the compiled model."""
    m = shipped(name)
    disturb(m, np.random.default_rng(2), 0.1)
    regressor = Regressor(m, spring_columns(m))
    left = regressor.calc() @ regressor.values
    right = m.mass @ m.qdd - m.calc_forces()
    assert left == pytest.approx(right, abs=1e-12 * max(1.0, np.abs(right).max()))


def test_the_suspension_has_150_inertial_parameters_and_4_of_springs():
    m = shipped("front_suspension")
    regressor = Regressor(m, spring_columns(m))
    assert (regressor.inertial, len(regressor.names)) == (150, 154)
    assert regressor.names[:2] == ["lower_wishbone_left.m", "lower_wishbone_left.mx"]
    assert regressor.names[150:] == [
        f"strut_{s}.{k}" for s in ("left", "right") for k in ("stiffness", "damping")
    ]


@pytest.mark.parametrize("name", ["front_suspension", "bricard"])
def test_the_regressor_agrees_with_newton_and_euler(name):
    """Σ Jᵀ (I α + ω × I ω, m (a − g)) of the bodies' twists, in the directions that the constraints allow."""
    m = shipped(name)
    motion = draw_motion(m, 3, 0.03)
    regressor = Regressor(m)
    gravity = np.array(m.description.gravity)
    for k in range(3):
        motion.put(m, k)
        total = np.zeros(len(m.q))
        for body, given in m.description.bodies.items():
            jacobian = calc_twist_map(m, body)
            rotation = calc_pose(m, body).R_world_body
            xy, yz, zx = given.products
            inertia = np.diag(given.inertia) + np.array([[0, xy, zx], [xy, 0, yz], [zx, yz, 0]])
            inertia = rotation @ inertia @ rotation.T
            turn = (jacobian @ m.qd)[:3]
            # ω = ½ Σ e × ė, so that its rate is ½ Σ e × ë: the same map of q̈.
            acceleration = jacobian @ m.qdd
            torque = inertia @ acceleration[:3] + np.cross(turn, inertia @ turn)
            total += jacobian.T @ np.concatenate([torque, given.mass * (acceleration[3:] - gravity)])
            assert calc_center_place(m, body) == pytest.approx(given.center_of_mass, abs=1e-12)
        basis = calc_motion_basis(m).matrix
        assert regressor.calc(basis) @ regressor.values == pytest.approx(basis.T @ total, abs=1e-9)


def test_a_regressor_on_a_basis_is_the_projected_regressor():
    m = shipped("five_bar")
    disturb(m, np.random.default_rng(0))
    regressor = Regressor(m, spring_columns(m))
    basis = np.random.default_rng(1).normal(size=(len(m.q), 2))
    assert regressor.calc(basis) == pytest.approx(basis.T @ regressor.calc(), abs=1e-12)


def test_conversions_of_moments_and_parameters_are_inverse():
    values = np.random.default_rng(3).normal(size=10)
    assert parameters.to_parameters(parameters.to_moments(values, 4)) == pytest.approx(values)
    assert parameters.to_parameters(parameters.to_moments(values[:3], 2)) == pytest.approx(values[:3])
    # A body of two point masses by hand.
    masses, places = (2.0, 3.0), np.array([[0.1, 0.2, -0.3], [0.5, -0.1, 0.2]])
    moments = sum(k * np.outer([1.0, *r], [1.0, *r]) for k, r in zip(masses, places, strict=True))
    inertia = sum(k * (r @ r * np.eye(3) - np.outer(r, r)) for k, r in zip(masses, places, strict=True))
    first = sum(k * r for k, r in zip(masses, places, strict=True))
    expected = [5.0, *first, *inertia[np.triu_indices(3)]]
    assert parameters.to_parameters(moments) == pytest.approx(np.array(expected))


RUBBING = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m, C: 0.5 0.4 m}}
points: {P: 1 0 m}
angles: {theta: {between: [x, [A, P]], start: 20 deg, rate: -2 rad/s}}
bodies: {bar: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}}
parameters: {c: 0.7, f: 1.3, g: 0.4}
forces:
  viscous: {kind: on_coordinate, coordinate: theta, force: -c*rate(theta)}
  dry: {kind: on_coordinate, coordinate: theta, force: -f*tanh(1000*rate(theta))}
  line: {kind: actuator, points: [C, P], force: -g*tanh(1000*rate(length))}
  cord: {kind: spring, points: [C, P], stiffness: 30 N/m, damping: 0.2 N·s/m, free_length: 0.3 m}
  coil: {kind: torsion_spring, angle: theta, stiffness: 4 N·m/rad, damping: 0.1 N·m·s/rad, free_angle: 0.2 rad}
"""


def test_friction_and_springs_are_the_forces_of_the_description():
    m = mechanism(RUBBING)
    m.qdd[:] = np.random.default_rng(0).normal(size=len(m.q))
    columns = [
        ViscousFriction("theta"),
        CoulombFriction("theta"),
        CoulombFriction("cord"),
        *spring_columns(m),
    ]
    regressor = Regressor(m, columns)
    assert regressor.names[10:] == [
        "theta.viscous_friction",
        "theta.coulomb_friction",
        "cord.coulomb_friction",
        "cord.stiffness",
        "cord.damping",
        "coil.stiffness",
        "coil.damping",
    ]
    values = regressor.values.copy()
    values[10:13] = 0.7, 1.3, 0.4
    right = m.mass @ m.qdd - m.calc_forces()
    assert regressor.calc() @ values == pytest.approx(right, abs=1e-12)
    # Forces without a column count as known: here friction by expressions, if only springs have columns.
    regressor = Regressor(m, spring_columns(m))
    left = regressor.calc() @ regressor.values - regressor.calc_known_forces()
    assert left == pytest.approx(right, abs=1e-12)
    assert np.abs(regressor.calc_known_forces()).max() > 1.0


def test_unknown_coordinates_are_named():
    m = shipped("pendulum")
    with pytest.raises(UsageError, match="'phi' is neither a coordinate nor a spring"):
        ViscousFriction("phi").calc(m)


def test_a_spring_column_is_the_gradient_of_its_energy():
    m = shipped("front_suspension")
    random = np.random.default_rng(4)
    direction = random.normal(size=len(m.q))

    def energy(t: float) -> float:
        m.q[:] = home + t * direction
        apart = m.calc_point_positions()
        s = np.linalg.norm(apart["damper_top_left"] - apart["damper_foot_left"])
        return 0.5 * (s - m.get_parameter("strut_left.free_length")) ** 2

    home = m.q.copy()
    slope = (energy(1e-6) - energy(-1e-6)) / 2e-6
    m.q[:] = home
    assert Stiffness("strut_left").calc(m) @ direction == pytest.approx(slope, abs=1e-9)
    m.qd[:] = direction
    # The power of a damper with a coefficient of 1 is −ṡ².
    rate = Damping("strut_left").calc(m) @ direction
    assert rate > 0.0
    stretch = Stiffness("strut_left").calc(m) @ direction
    s = np.linalg.norm(np.subtract(*(m.calc_point_positions()[f"damper_{k}_left"] for k in ("top", "foot"))))
    assert rate == pytest.approx((stretch / (s - m.get_parameter("strut_left.free_length"))) ** 2)
