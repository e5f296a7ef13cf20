"""Constraints of velocities alone and of accelerations alone: a skate on a slope, and inverse dynamics."""

import numpy as np
import pytest
from mechanism_rig import mechanism
from operator_rig import make

from vehicled.multibody import problems, switches
from vehicled.multibody.body_operators import calc_point_map
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.motion_constraints import MotionConstraints

G, MASS, TURNING = 2.5, 3.0, 1.7
SKATE = f"""
space: planar
gravity: {G} 0 m/s²
points: {{P: 0 0 m, Q: 1 0 m}}
velocities: {{Q: 0 {TURNING} m/s}}
bodies:
  skate:
    kind: rigid
    points: {{P: 0 0 m, Q: 1 0 m}}
    mass: {MASS} kg
    center_of_mass: 0 0 m
    inertia: 0.4 kg·m²
independent: [P.x, P.y, Q.y]
"""
"""A turning skate on a slope along x; its edge lies along P–Q, below its centre of mass."""


def across(m: Mechanism) -> np.ndarray:
    """(1, n) row that gives the velocity of P across the edge."""
    first, second = calc_point_map(m, "P"), calc_point_map(m, "Q")
    along = (second - first) @ m.q
    return np.array([-along[1], along[0], 0.0])[None] @ first


def test_a_skate_on_a_slope_moves_along_cycloids():
    """The skate turns at a constant rate w, slides at g/w sin wt, and descends no further than g/2w²."""
    m = mechanism(SKATE)
    constraints = MotionConstraints(m)
    constraints.add_velocity(across)
    assert constraints.calc_violation() == pytest.approx([0.0])

    def rates(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        m.q[:], m.qd[:] = q, qd
        return constraints.calc_accelerations().qdd

    h = 2e-3
    for _ in range(1000):
        q, qd = m.q.copy(), m.qd.copy()
        a = rates(q, qd)
        b = rates(q + 0.5 * h * qd, qd + 0.5 * h * a)
        c = rates(q + 0.5 * h * qd + 0.25 * h * h * a, qd + 0.5 * h * b)
        d = rates(q + h * qd + 0.5 * h * h * b, qd + h * c)
        m.q[:], m.qd[:] = q + h * qd + h * h / 6 * (a + b + c), qd + h / 6 * (a + 2 * b + 2 * c + d)
    turned, size = 2.0 * TURNING, G / (2.0 * TURNING**2)
    place = m.calc_point_positions()["P"]
    expected = [size * np.sin(turned) ** 2, size * (turned - 0.5 * np.sin(2.0 * turned)), 0.0]
    assert place == pytest.approx(expected, abs=1e-7)
    assert constraints.calc_violation() == pytest.approx([0.0], abs=1e-7)
    # The force across the edge takes the weight's component across it and the centripetal force.
    force = constraints.calc_accelerations().forces
    assert force == pytest.approx([-MASS * G * -2.0 * np.sin(turned)], abs=1e-6)


@pytest.mark.parametrize("name", ["four_bar", "slider_crank", "suspension_corner"])
def test_the_force_of_a_prescribed_acceleration_is_that_of_inverse_dynamics(name):
    m = make(name)
    k = int(m.independent[0])
    row = np.eye(len(m.q))[k : k + 1]
    constraints = MotionConstraints(m)
    constraints.add_acceleration(lambda _: row, 3.0)
    found = constraints.calc_accelerations()
    switches.prescribe(m, m.coordinate_names[k], m.q[k], m.qd[k], 3.0)
    problems.solve_dynamics(m)
    assert found.qdd == pytest.approx(m.qdd, abs=1e-9 * np.abs(m.qdd).max())
    assert found.forces[0] == pytest.approx(-m.multipliers[-1], rel=1e-8)


def test_a_velocity_constraint_takes_a_velocity_and_its_rate():
    """The crank has 0.7 rad/s and 0.2 rad/s²."""
    m = make("four_bar")
    k = m.index("theta")
    row = np.eye(len(m.q))[k : k + 1]
    constraints = MotionConstraints(m)
    constraints.add_velocity(lambda _: row, 0.7, 0.2)
    constraints.project_velocities()
    assert m.qd[k] == pytest.approx(0.7, abs=1e-12)
    assert constraints.calc_accelerations().qdd[k] == pytest.approx(0.2, abs=1e-10)


@pytest.mark.parametrize("rate", [1.0, 1e3, 1e5])
def test_the_rate_of_a_constraints_row_is_accurate_at_any_speed(rate):
    """If cos θ · θ̇ is constant, θ̈ = tan θ θ̇². A mechanism of micrometres reaches 1e5 rad/s."""
    m = Mechanism.load("pendulum", form="relative")
    m.q[0], m.qd[0] = 0.5, rate
    constraints = MotionConstraints(m)
    constraints.add_velocity(lambda mechanism: np.cos(mechanism.q)[None], rate * np.cos(0.5))
    assert constraints.calc_accelerations().qdd[0] == pytest.approx(np.tan(0.5) * rate**2, rel=1e-6)
