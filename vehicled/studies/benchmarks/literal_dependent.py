"""DIEKFpm and SCKF as a published toolbox computes them, with their defects; improved ones are in `dependent`.

States are all coordinates and rates, x = (q, q̇), propagated by forward Euler; the covariance by [I h·I; 0 I]. To
the plant noise of z, carried to q by R, each step adds a variance of one (SI) to every dependent coordinate and rate.
This keeps the constraints' equations regular, but makes predicted readings of gyroscopes far too uncertain: a NIS
near zero. Nothing keeps the covariance symmetric or definite, so that where a filter is about to break down, rounding
decides at which step.
"""

from __future__ import annotations

import numpy as np

from vehicled.filter import definite
from vehicled.filter.error_state import LinearObservation, StateUpdate, calc_update
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.benchmarks.literal import take_wrong_branch
from vehicled.studies.observers.interface import MechanismEstimate

_HOLD = 1e-3
"""‖(Φ, Φ̇)‖ at which constraints count as met."""
_PERFECT_LIMIT = 60
"""Limit of iterations, reached by a diverging run only; others need up to eleven."""
_PERFECT = 1e-3
"""Variance of a constraint as a measurement; multiplied by 1/e in each iteration."""
_SMOOTH, _SMOOTH_LIMIT, _SMOOTH_DECAY = 0.1, 5, np.exp(-10.0)
"""Initial noise of the constraints as a share of the violation's covariance, number of applications, and
factor on the noise."""
_DEPENDENT_VARIANCE = 1.0


class LiteralDependentEKF(MechanismEstimate):
    """Common part of both filters: prediction and constraints."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        *,
        start_variance: float,
        density: float,
        wrong_branch: bool,
    ) -> None:
        """`start_variance`: of every state; `density`: of the accelerations z̈, rad²/s³.

        `wrong_branch`: (Φ_q q̇)_q as in `take_wrong_branch`.
        """
        super().__init__(mechanism)
        self.sensors, self.h, self._wrong_branch = sensors, h, wrong_branch
        self.n = len(mechanism.q)
        self.covariance = start_variance * np.eye(2 * self.n)
        self.repairs = 0
        """Number of steps after which the covariance was not positive definite."""
        self._noise = np.diag(sensors.sigma**2)
        self._transition = np.eye(2 * self.n) + h * np.eye(2 * self.n, k=self.n)
        self._densities = density * h * np.array([h * h / 3.0, 1.0])
        across = np.ones(self.n)
        across[self.independent] = 0.0
        self._across = _DEPENDENT_VARIANCE * np.diag(np.tile(across, 2))

    @property
    def z_deviation(self) -> np.ndarray:
        """(f,) standard deviations of z; zero if the variance is not positive."""
        deviations: np.ndarray = np.sqrt(np.maximum(np.diag(self.covariance)[self.independent], 0.0))
        return deviations

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        """Advance by h; `readings` (k,) at the end, or None. Raises RunError if numbers become infinite."""
        m = self.mechanism
        with np.errstate(all="ignore"):
            self._predict()
            update = self._correct(readings)
            if not all(np.all(np.isfinite(x)) for x in (m.q, m.qd, self.covariance)):
                raise self.fail("state or covariance is not finite")
            problems.solve_dynamics(m)
        self.repairs += not definite.is_definite(self.covariance)
        return update

    def _correct(self, readings: np.ndarray | None) -> StateUpdate | None:
        """Correct state and covariance by readings, if any, and constraints."""
        raise NotImplementedError

    def _predict(self) -> None:
        m, f = self.mechanism, self._transition
        r, _ = problems.calc_velocity_map(m)
        m.q += self.h * m.qd
        m.qd += self.h * m.qdd
        m.t += self.h
        noise = np.kron(np.diag(self._densities), r @ r.T) + self._across
        self.covariance = f @ self.covariance @ f.T + noise

    def _get_state(self) -> np.ndarray:
        return np.concatenate([self.mechanism.q, self.mechanism.qd])

    def _move(self, correction: np.ndarray) -> None:
        self.mechanism.q += correction[: self.n]
        self.mechanism.qd += correction[self.n :]

    def _observe(self, readings: np.ndarray) -> LinearObservation:
        h_q, h_qd, _ = self.sensors.calc_jacobians(self.mechanism)
        innovation = readings - self.sensors.calc_readings(self.mechanism)
        return LinearObservation(innovation, np.hstack([h_q, h_qd]), self._noise)

    def _calc_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Φ, Φ̇ (2m,) and their derivatives with respect to q, q̇ (2m, 2n)."""
        m = self.mechanism
        jacobian, rate = m.calc_jacobian().copy(), m.calc_jacobian_rate().copy()
        if self._wrong_branch:
            take_wrong_branch(m, jacobian, rate)
        violation = np.concatenate([m.calc_constraints(), jacobian @ m.qd])
        return violation, np.block([[jacobian, np.zeros_like(jacobian)], [rate, jacobian]])


class LiteralPerfectMeasurementEKF(LiteralDependentEKF):
    """DIEKFpm: an iterated update with sensors and constraints; the covariance is that of the last iteration."""

    def _correct(self, readings: np.ndarray | None) -> StateUpdate | None:
        p, prior = self.covariance, self._get_state()
        update = None if readings is None else calc_update(p, self._observe(readings))
        for k in range(1, _PERFECT_LIMIT + 1):
            violation, jacobian = self._calc_rows()
            # Compared before the correction: there is one iteration more than needed.
            holds = np.linalg.norm(violation) <= _HOLD
            residual, variances = -violation, np.full(len(violation), _PERFECT * np.exp(-k))
            if readings is not None:
                observation = self._observe(readings)
                residual = np.concatenate([observation.innovation, residual])
                jacobian = np.vstack([observation.jacobian, jacobian])
                variances = np.concatenate([np.diag(self._noise), variances])
            gain = _solve_gain(p, jacobian, np.diag(variances))
            away = self._get_state() - prior
            self._move(gain @ (residual + jacobian @ away) - away)
            if holds:
                break
        self.covariance = p - gain @ jacobian @ p
        return update


class LiteralSmoothlyConstrainedKF(LiteralDependentEKF):
    """SCKF: sensors at the predicted state, then constraints as measurements with decreasing noise.

    In each application they are linearised again and reduce the covariance, also along the mechanism's
    motions, about which constraints contain no information.
    """

    def _correct(self, readings: np.ndarray | None) -> StateUpdate | None:
        update = None
        if readings is not None:
            update = calc_update(self.covariance, self._observe(readings))
            gain = _solve_gain(self.covariance, update.jacobian, self._noise)
            self._apply(gain, update.jacobian, update.innovation)
        violation, jacobian = self._calc_rows()
        noise = _SMOOTH * jacobian @ self.covariance @ jacobian.T
        for _ in range(_SMOOTH_LIMIT):
            if np.linalg.norm(violation) <= _HOLD:
                break
            self._apply(_solve_gain(self.covariance, jacobian, noise), jacobian, -violation)
            noise = noise * _SMOOTH_DECAY
            violation, jacobian = self._calc_rows()
        return update

    def _apply(self, gain: np.ndarray, jacobian: np.ndarray, innovation: np.ndarray) -> None:
        self.covariance = self.covariance - gain @ jacobian @ self.covariance
        self._move(gain @ innovation)


def _solve_gain(p: np.ndarray, jacobian: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """P Hᵀ (H P Hᵀ + R)⁻¹; P need not be symmetric to the last digit."""
    gain: np.ndarray = np.linalg.solve((jacobian @ p @ jacobian.T + noise).T, (p @ jacobian.T).T).T
    return gain
