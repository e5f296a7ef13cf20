"""DIEKFpm and SCKF: Kalman filters on all coordinates q, q̇, with the constraints as further measurements.

After Sanjurjo et al.; there plant noise goes to every dependent coordinate by itself and stays, so that the sensors
look much worse than they are (NIS near zero). Here uncertainty and plant noise live where the constraints let the
mechanism move; only while constraints are applied the dependent coordinates count as uncertain by themselves. And the
prediction is by any formulation: forward Euler of all coordinates follows a wrong motion where sensors leave it free.
"""

from __future__ import annotations

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.formulations import Ali3p, Stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import Innovation, MechanismObserver
from vehicled.studies.observers.noise import PlantNoise

_PERFECT = 1e-9
"""Variance of a constraint as a measurement, over what the state strays by across it."""
_HOLD = 1e-9
"""Largest |Φ| and |Φ̇| with which constraints hold, relative to the largest coordinate or rate."""
_LIMIT = 20


class _DependentEKF(MechanismObserver):
    """States q, q̇ (2n); their covariance spreads by the exact Jacobian of the dynamics on z, ż."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        plant_noise: np.ndarray | PlantNoise,
        stepper: Stepper | None = None,
    ):
        """`covariance`, `plant_noise` (an array: of one step): (2f, 2f) of z, ż; the others' follow from the
        constraints. `stepper`: ALI3-P when left out."""
        super().__init__(mechanism, sensors, h, covariance, plant_noise)
        self._stepper = Ali3p() if stepper is None else stepper
        n = len(mechanism.q)
        self._chosen = np.concatenate([self.independent, n + self.independent])
        across = np.ones(2 * n)
        across[self._chosen] = 0.0
        self._across = np.diag(across)
        self.covariance = self._carry(self._calc_tangent(), self.covariance)

    @property
    def z_deviation(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self.covariance)[self.independent], 0.0))

    def step(self, readings: np.ndarray | None) -> Innovation | None:
        m = self.mechanism
        moving = self.spread(self._get_moving(), *self.calc_exact_transition())
        if not self._stepper.step(m, self.h).converged:
            raise self.fail("the simulation did not converge")
        m.set_independent(self.independent)
        tangent = self._calc_tangent()
        self.covariance = self._carry(tangent, moving)
        innovation = None
        if readings is not None:
            sensitivity = self._observe()
            innovation, gain = self._take(sensitivity, readings)
            self.plant_noise.learn(
                sensitivity @ tangent, gain[self._chosen], innovation.value, innovation.covariance
            )
            self._hold()
            self.covariance = self._carry(self._calc_tangent(), self.repair(self._get_moving()))
        problems.solve_dynamics(m)
        return innovation

    def _take(self, sensitivity: np.ndarray, readings: np.ndarray) -> tuple[Innovation, np.ndarray]:
        """Correct state and covariance by readings with derivatives (k, 2n). The gain (2n, k) too."""
        raise NotImplementedError

    def _get_moving(self) -> np.ndarray:
        """(2f, 2f) covariance of z, ż."""
        return self.covariance[np.ix_(self._chosen, self._chosen)]

    @staticmethod
    def _carry(tangent: np.ndarray, moving: np.ndarray) -> np.ndarray:
        p = tangent @ moving @ tangent.T
        return 0.5 * (p + p.T)

    def _observe(self) -> np.ndarray:
        h_q, h_qd, _ = self.sensors.calc_jacobians(self.mechanism)
        return np.hstack([h_q, h_qd])

    def _move(self, correction: np.ndarray) -> None:
        n = len(self.mechanism.q)
        if not np.all(np.isfinite(correction)):
            raise self.fail("the correction is not finite")
        self.mechanism.q += correction[:n]
        self.mechanism.qd += correction[n:]

    def _calc_tangent(self) -> np.ndarray:
        """(2n, 2f) derivatives of q, q̇ by z, ż."""
        m = self.mechanism
        r, s = problems.calc_velocity_map(m)
        qd_by_z = -s @ (m.calc_jacobian_rate() @ r)
        return np.block([[r, np.zeros_like(r)], [qd_by_z, r]])

    def _calc_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Φ, Φ̇ (2m,) and their derivatives by q, q̇ (2m, 2n)."""
        m = self.mechanism
        jacobian = m.calc_jacobian()
        violation = np.concatenate([m.calc_constraints(), jacobian @ m.qd + m.calc_drift()])
        return violation, np.block([[jacobian, np.zeros_like(jacobian)], [m.calc_jacobian_rate(), jacobian]])

    def _hold(self) -> None:
        """Constraints as nearly perfect measurements, again and again until they hold."""
        m = self.mechanism
        bound = _HOLD * max(1.0, float(np.abs(m.q).max()), float(np.abs(m.qd).max()))
        for _ in range(_LIMIT):
            violation, rows = self._calc_rows()
            if np.abs(violation).max(initial=0.0) <= bound:
                return
            self._move(-self._constraint_gain(rows, self._across) @ violation)
        raise self.fail(f"the constraints do not hold: {np.abs(violation).max():.3g}")

    @staticmethod
    def _constraint_gain(rows: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        seen = rows @ covariance @ rows.T
        seen += _PERFECT * np.diag(np.diag(seen))
        return np.linalg.solve(seen, rows @ covariance).T


class PerfectMeasurementEKF(_DependentEKF):
    """DIEKFpm: sensors once, beside the constraints; constraints alone until they hold."""

    def _take(self, sensitivity: np.ndarray, readings: np.ndarray) -> tuple[Innovation, np.ndarray]:
        m = self.mechanism
        violation, rows = self._calc_rows()
        straying = self.covariance + self._across
        # Both at once are the constraints first, and then the sensors as they look from there.
        gain = self._constraint_gain(rows, straying)
        moved = -gain @ violation
        held = straying - gain @ rows @ straying
        seen = sensitivity @ held
        innovation = Innovation(
            readings - self.sensors.calc_readings(m) - sensitivity @ moved, seen @ sensitivity.T + self.noise
        )
        sensor_gain = np.linalg.solve(innovation.covariance, seen).T
        self.covariance = held - sensor_gain @ seen
        self._move(moved + sensor_gain @ innovation.value)
        return innovation, sensor_gain


class SmoothlyConstrainedKF(_DependentEKF):
    """SCKF: sensors first, at the state as predicted; then the constraints.

    Uncertainty that keeps to the constraints needs no weakening of them: they undo nothing that the sensors said.
    """

    def _take(self, sensitivity: np.ndarray, readings: np.ndarray) -> tuple[Innovation, np.ndarray]:
        innovation = self.judge(sensitivity, readings)
        seen = sensitivity @ self.covariance
        gain = np.linalg.solve(innovation.covariance, seen).T
        self.covariance = self.covariance - gain @ seen
        self._move(gain @ innovation.value)
        return innovation, gain
