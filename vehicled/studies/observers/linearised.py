"""Derivatives of a mechanism's motion and of its sensors' readings with respect to z, ż, at the state it is in."""

from __future__ import annotations

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet


def calc_sensitivity(m: Mechanism, sensors: SensorSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k, f) each: derivatives of the readings with respect to z, ż and z̈.

    A displacement dz moves q by R dz and, with constant ż, changes q̇ by −S Φ̇_q R dz; both change the q̈
    that the constraints require, with constant z̈.
    """
    r, s = problems.calc_velocity_map(m)
    h_q, h_qd, h_qdd = sensors.calc_jacobians(m)
    qd_by_z = -s @ (m.calc_jacobian_rate() @ r)
    by_z, by_zd = h_q @ r + h_qd @ qd_by_z, h_qd @ r
    if h_qdd.any():
        by_q, by_qd = m.calc_acceleration_by_q(), m.calc_acceleration_by_qd()
        by_z = by_z - h_qdd @ s @ (by_q @ r + by_qd @ qd_by_z)
        by_zd = by_zd - h_qdd @ s @ (by_qd @ r)
    return by_z, by_zd, h_qdd @ r


def calc_state_sensitivity(m: Mechanism, sensors: SensorSet) -> np.ndarray:
    """(k, 2f) derivatives of the readings with respect to z, ż; z̈ follows by the equations of motion.

    An accelerometer on a pendulum shows how z̈ depends on the angle, not only how gravity does.
    """
    by_z, by_zd, by_zdd = calc_sensitivity(m, sensors)
    by_state = np.hstack([by_z, by_zd])
    if by_zdd.any():
        by_state += by_zdd @ np.hstack(calc_dynamics_jacobians(m))
    return by_state


def calc_dynamics_jacobians(m: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """∂z̈/∂z and ∂z̈/∂ż of the equations of motion, not of an integrator's accelerations, which are kept."""
    memory = m.qdd.copy(), m.multipliers.copy()
    problems.solve_dynamics(m)
    jacobians = problems.calc_acceleration_jacobians(m)
    m.qdd[:], m.multipliers[:] = memory
    return jacobians


def calc_slope(m: Mechanism) -> np.ndarray:
    """(2f, 2f) derivatives of ż, z̈ with respect to z, ż, exact; q̈ and λ must be those of `solve_dynamics`."""
    by_z, by_zd = problems.calc_acceleration_jacobians(m)
    f = len(by_z)
    return np.block([[np.zeros((f, f)), np.eye(f)], [by_z, by_zd]])


def calc_exact_transition(m: Mechanism, h: float) -> tuple[np.ndarray, np.ndarray]:
    """(2f, 2f) F over a step of h (s) from the present state, to the second order in h, and the slope.

    q̈ and λ as in `calc_slope`.
    """
    slope = calc_slope(m)
    return np.eye(len(slope)) + h * slope + 0.5 * h**2 * slope @ slope, slope
