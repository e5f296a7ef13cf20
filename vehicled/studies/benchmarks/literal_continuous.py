"""CEKF as a published toolbox computes it, with its defects; the improved one is in `continuous`.

The Riccati equation is integrated by one explicit Euler step with the variances R of single readings in place of an
intensity: readings that are good beside the covariance make it indefinite, and from there it grows beyond all bounds.
Its slope of z̈ is not the derivative: A21 = −2 M̄⁻¹ Rᵀ M (∂R/∂z z̈), of which each column has only the term of its own
coordinate, and A22 = −M̄⁻¹ Rᵀ M Ṙ, half of what it should be (Cuadrado et al.). Steps begin with the accelerations of
the simulation, without the correction.
"""

from __future__ import annotations

import numpy as np

from vehicled.filter import definite
from vehicled.filter.error_state import StateUpdate
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import MechanismEstimate
from vehicled.studies.observers.linearised import calc_slope, calc_state_sensitivity

_LIMIT, _TOLERANCE = 100, 1e-8
"""Limit and tolerance of Newton's iteration for a step; on ‖Δx‖, in rad and rad/s."""
_POSITION_LIMIT, _POSITION_TOLERANCE = 30, 1e-13
"""Limit and tolerance of Newton's iteration for the position; on ‖Φ‖."""


class LiteralContinuousEKF(MechanismEstimate):
    """States z, ż (2f)."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        *,
        start_variances: tuple[float, float],
        density: float,
    ) -> None:
        """`start_variances`: of each z and each ż; `density`: of the accelerations z̈, rad²/s³."""
        super().__init__(mechanism)
        self.sensors, self.h = sensors, h
        unit = np.eye(len(self.independent))
        self.covariance = np.kron(np.diag(start_variances), unit)
        self.repairs = 0
        """Number of steps after which the covariance was not positive definite."""
        self._density = np.kron(np.diag([0.0, density]), unit)
        self._weight = np.diag(sensors.sigma**-2.0)
        """R⁻¹"""

    @property
    def z_deviation(self) -> np.ndarray:
        """(f,) standard deviations of z; zero if the variance is not positive."""
        return np.sqrt(np.maximum(np.diag(self.covariance)[: len(self.independent)], 0.0))

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        """Advance by h; `readings` (k,) at the end, or None.

        Returns None: it has no covariance of innovations. Raises RunError if the covariance becomes infinite
        or Newton's iteration fails.
        """
        with np.errstate(all="ignore"):
            self._step(readings)
        self.repairs += not definite.is_definite(self.covariance)
        return None

    def _step(self, readings: np.ndarray | None) -> None:
        m, h, p = self.mechanism, self.h, self.covariance
        start, rate = np.concatenate([self.z, self.zd]), np.concatenate([self.zd, self.zdd])
        slope, before = self._calc_slope(), calc_state_sensitivity(m, self.sensors)
        growth = slope @ p + p @ slope.T + self._density
        if readings is not None:
            growth -= p @ before.T @ self._weight @ before @ p
        self.covariance = p + h * growth
        if not np.all(np.isfinite(self.covariance)):
            raise self.fail("the covariance is not finite")
        m.t += h
        end = start + h * rate
        self._place(end)
        gain = self.covariance @ calc_state_sensitivity(m, self.sensors).T @ self._weight
        for _ in range(_LIMIT):
            residual = 2.0 / h * (end - start) - rate - np.concatenate([self.zd, self.zdd])
            tangent = 2.0 / h * np.eye(len(end)) - calc_slope(m)
            if readings is not None:
                residual += gain @ (self.sensors.calc_readings(m) - readings)
                tangent += gain @ calc_state_sensitivity(m, self.sensors)
            change = _divide(tangent, residual)
            end = end - change
            self._place(end)
            if np.linalg.norm(change) < _TOLERANCE:
                return
        raise self.fail("Newton's iteration did not converge")

    def _calc_slope(self) -> np.ndarray:
        """(2f, 2f) slope of z, ż, as published."""
        m, f = self.mechanism, len(self.independent)
        r, s = problems.calc_velocity_map(m)
        zdd, mass = self.zdd, r.T @ m.mass
        own = np.column_stack([self._calc_map_rate(r[:, k], r, s)[:, k] for k in range(f)])
        by_z = -2.0 * np.linalg.solve(mass @ r, mass @ own * zdd)
        by_zd = -np.linalg.solve(mass @ r, mass @ self._calc_map_rate(m.qd.copy(), r, s))
        return np.block([[np.zeros((f, f)), np.eye(f)], [by_z, by_zd]])

    def _calc_map_rate(self, qd: np.ndarray, r: np.ndarray, s: np.ndarray) -> np.ndarray:
        """(n, f) Ṙ = −S Φ̇_q R for the rates q̇ (n,)."""
        m = self.mechanism
        kept = m.qd.copy()
        m.qd[:] = qd
        rate: np.ndarray = -s @ (m.calc_jacobian_rate() @ r)
        m.qd[:] = kept
        return rate

    def _place(self, state: np.ndarray) -> None:
        """Set z, ż of the mechanism, however far away; raises RunError if there is no such position."""
        m, f = self.mechanism, len(self.independent)
        m.q[self.independent] = state[:f]
        for _ in range(_POSITION_LIMIT):
            phi = m.calc_constraints()
            if np.linalg.norm(phi) <= _POSITION_TOLERANCE:
                break
            m.q[m.dependent] -= problems.dependent_solve(m, m.calc_jacobian(), phi)
            if not np.all(np.isfinite(m.q)):
                raise self.fail(f"no position for z = {state[:f]}")
        else:
            raise self.fail(f"no position for z = {state[:f]}")
        problems.solve_velocity(m, state[f:])
        problems.solve_dynamics(m)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a⁻¹ b; by least squares if the matrix is singular to rounding, as in the toolbox's language."""
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(a, b, rcond=None)[0])
