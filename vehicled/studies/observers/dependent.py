"""DIEKFpm and SCKF: Kalman filters on all coordinates q, q̇, with the constraints as further measurements.

After Sanjurjo et al., but not as published, on two points. There plant noise is added to every dependent coordinate
independently and remains, so that the covariance of predicted readings is far too large (NIS near zero). Here
covariance and plant noise are those of z, ż, mapped to q, q̇ by the constraints; dependent coordinates have a
covariance of their own only while constraints are applied. And the prediction is by any formulation: with forward
Euler of all coordinates, motions that the sensors do not observe are wrong. In this form the two filters differ
only in the order in which sensors and constraints are applied, and their estimates agree closely.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vehicled.filter.error_state import LinearObservation, StateUpdate, calc_corrected, calc_update
from vehicled.multibody import problems
from vehicled.multibody.formulations import Ali3p, Stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import MechanismObserver
from vehicled.studies.observers.linearised import calc_exact_transition
from vehicled.studies.observers.noise import PlantNoise

_PERFECT = 1e-9
"""Variance of a constraint as a measurement, relative to the variance of the state across the constraint."""
_HOLD = 1e-9
"""Largest |Φ| and |Φ̇| with which constraints hold, relative to the largest coordinate or rate."""
_LIMIT = 20


class _DependentEKF(MechanismObserver):
    """States q, q̇ (2n); their covariance is propagated by the exact Jacobian of the dynamics on z, ż."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        plant_noise: np.ndarray | PlantNoise,
        stepper: Stepper | None = None,
    ) -> None:
        """`covariance`, `plant_noise` (an array: of one step): (2f, 2f) of z, ż.

        Those of the other coordinates follow from the constraints. `stepper`: ALI3-P when left out.
        """
        super().__init__(mechanism, sensors, h, covariance, plant_noise)
        self._stepper = Ali3p() if stepper is None else stepper
        n = len(mechanism.q)
        self.chosen = np.concatenate([self.independent, n + self.independent])
        """Indices (2f,) of z, ż among the states."""
        across = np.ones(2 * n)
        across[self.chosen] = 0.0
        self._across = np.diag(across)
        self.covariance = self._carry(self._calc_tangent(), self.covariance)

    @property
    def z_deviation(self) -> np.ndarray:
        sigmas: np.ndarray = np.sqrt(np.maximum(np.diag(self.covariance)[self.independent], 0.0))
        return sigmas

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        m = self.mechanism
        moving = self.propagate(self._get_moving(), *calc_exact_transition(m, self.h))
        if not self._stepper.step(m, self.h).converged:
            raise self.fail("the simulation did not converge")
        m.set_independent(self.independent)
        tangent = self._calc_tangent()
        self.covariance = self._carry(tangent, moving)
        update = None
        if readings is not None:
            update = self._update(self._observe(readings))
            self.plant_noise.update(
                replace(update, jacobian=update.jacobian @ tangent, gain=update.gain[self.chosen])
            )
            self._hold()
            self.covariance = self._carry(self._calc_tangent(), self.repair(self._get_moving()))
        problems.solve_dynamics(m)
        return update

    def _update(self, observation: LinearObservation) -> StateUpdate:
        """Correct state and covariance by readings with derivatives (k, 2n)."""
        raise NotImplementedError

    def _get_moving(self) -> np.ndarray:
        """(2f, 2f) covariance of z, ż."""
        block: np.ndarray = self.covariance[np.ix_(self.chosen, self.chosen)]
        return block

    @staticmethod
    def _carry(tangent: np.ndarray, moving: np.ndarray) -> np.ndarray:
        p = tangent @ moving @ tangent.T
        symmetric: np.ndarray = 0.5 * (p + p.T)
        return symmetric

    def _observe(self, readings: np.ndarray) -> LinearObservation:
        h_q, h_qd, _ = self.sensors.calc_jacobians(self.mechanism)
        innovation = readings - self.sensors.calc_readings(self.mechanism)
        return LinearObservation(innovation, np.hstack([h_q, h_qd]), self.noise)

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
        violation = rows @ covariance @ rows.T
        violation += _PERFECT * np.diag(np.diag(violation))
        return np.linalg.solve(violation, rows @ covariance).T


class PerfectMeasurementEKF(_DependentEKF):
    """DIEKFpm: sensors once, beside the constraints; constraints alone until they hold."""

    def _update(self, observation: LinearObservation) -> StateUpdate:
        violation, rows = self._calc_rows()
        free = self.covariance + self._across
        # An update with both is equivalent to the constraints first, and then the sensors as predicted from there.
        gain = self._constraint_gain(rows, free)
        moved = -gain @ violation
        held = free - gain @ rows @ free
        innovation = observation.innovation - observation.jacobian @ moved
        update = calc_update(held, replace(observation, innovation=innovation))
        self.covariance = calc_corrected(held, update, self.noise)
        self._move(moved + update.gain @ update.innovation)
        return update


class SmoothlyConstrainedKF(_DependentEKF):
    """SCKF: sensors first, at the state as predicted; then the constraints.

    A covariance that satisfies the constraints needs no weakened ones: they reverse no part of a correction.
    """

    def _update(self, observation: LinearObservation) -> StateUpdate:
        update = calc_update(self.covariance, observation)
        self.covariance = calc_corrected(self.covariance, update, self.noise)
        self._move(update.gain @ update.innovation)
        return update
