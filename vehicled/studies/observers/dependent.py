"""DIEKFpm and SCKF, improved: Kalman filters on all coordinates q, q̇, with the constraints as further measurements.

After Sanjurjo et al.; the published forms are in `studies/benchmarks/literal_dependent`. Improvements of both: the
prediction is by any formulation instead of forward Euler of all coordinates; covariance and plant noise are those of
z, ż, mapped to q, q̇ by the constraints, instead of independent noise on every dependent coordinate, which makes the
covariance of predicted readings far too large (NIS near zero); and constraints never reduce the covariance of z, ż,
about which they contain no information. Dependent coordinates have a covariance of their own, `_across`, only while
constraints are applied.

The two differ in how a reading corrects: DIEKFpm iterates sensors and constraints together to the most probable state
on the constraints; SCKF uses sensors once, as predicted, and then returns to the constraints with annealed noise.
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
from vehicled.studies.observers.linearised import calc_exact_transition, calc_state_sensitivity
from vehicled.studies.observers.noise import PlantNoise

_PERFECT = 1e-9
"""Variance of a constraint as a measurement, relative to the variance of the state across the constraint."""
_HOLD = 1e-9
"""Largest |Φ| and |Φ̇|, relative to the largest coordinate or rate, with which constraints count as met."""
_LIMIT = 20
_SETTLED = 1e-9
"""Largest change of a state, relative to the largest coordinate or rate, at which an iterated update ends."""
_SMOOTH, _SMOOTH_COUNT, _SMOOTH_DECAY = 0.1, 3, np.exp(-10.0)
"""Initial noise of the constraints as a share of the violation's covariance; number of applications (three
leave 1e-9 of the violation); and factor on the noise from one application to the next."""


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

        Those of the other coordinates follow from the constraints. `stepper`: by default ALI3-P.
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
        readings = self.check_readings(self.sensors, readings)
        m = self.mechanism
        moving = self.propagate(self._get_moving(), *calc_exact_transition(m, self.h))
        if not self._stepper.step(m, self.h).converged:
            raise self.fail("the simulation did not converge")
        m.set_independent(self.independent)
        tangent = self._calc_tangent()
        self.covariance = self._carry(tangent, moving)
        update = None
        if readings is not None:
            update = self._update(readings)
            self.plant_noise.update(
                replace(update, jacobian=update.jacobian @ tangent, gain=update.gain[self.chosen])
            )
            self.covariance = self._carry(self._calc_tangent(), self.repair(self._get_moving()))
        problems.solve_dynamics(m)
        return update

    def _update(self, readings: np.ndarray) -> StateUpdate:
        """Correct the state and the covariance of z, ż by readings (k,); the constraints hold at the end."""
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
        m = self.mechanism
        h_q, h_qd, h_qdd = self.sensors.calc_jacobians(m)
        jacobian = np.hstack([h_q, h_qd])
        if h_qdd.any():  # accelerometers: what follows from the motion counts as of z, ż
            problems.solve_dynamics(m)
            along = jacobian @ self._calc_tangent()
            jacobian[:, self.chosen] += calc_state_sensitivity(m, self.sensors) - along
        innovation = readings - self.sensors.calc_readings(m)
        return LinearObservation(innovation, jacobian, self.noise)

    def _get_state(self) -> np.ndarray:
        return np.concatenate([self.mechanism.q, self.mechanism.qd])

    def _get_scale(self) -> float:
        return max(1.0, float(np.abs(self._get_state()).max()))

    def _move(self, correction: np.ndarray) -> None:
        n = len(self.mechanism.q)
        if not np.all(np.isfinite(correction)):
            raise self.fail("the correction is not finite")
        self.mechanism.q += correction[:n]
        self.mechanism.qd += correction[n:]

    def _calc_tangent(self) -> np.ndarray:
        """(2n, 2f) derivatives of q, q̇ with respect to z, ż."""
        m = self.mechanism
        r, s = problems.calc_velocity_map(m)
        qd_by_z = -s @ (m.calc_jacobian_rate() @ r)
        return np.block([[r, np.zeros_like(r)], [qd_by_z, r]])

    def _calc_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Φ, Φ̇ (2m,) and their derivatives with respect to q, q̇ (2m, 2n)."""
        m = self.mechanism
        jacobian = m.calc_jacobian()
        violation = np.concatenate([m.calc_constraints(), jacobian @ m.qd + m.calc_drift()])
        return violation, np.block([[jacobian, np.zeros_like(jacobian)], [m.calc_jacobian_rate(), jacobian]])

    def _hold(self) -> None:
        """Apply constraints as nearly perfect measurements, repeatedly until they are met."""
        bound = _HOLD * self._get_scale()
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
    """DIEKFpm, improved: an iterated update by sensors and constraints, which are perfect measurements.

    Each iteration linearises both at the state of the last one and starts from the prediction again (Bell and Cathey,
    *The iterated Kalman filter update as a Gauss–Newton method*, IEEE Transactions on Automatic Control 38(2), 1993),
    until the state settles: the published form ends when the constraints hold to 1e-3. The covariance is that of the
    readings linearised at the result, once.
    """

    def _update(self, readings: np.ndarray) -> StateUpdate:
        predicted = calc_update(self.covariance, self._observe(readings))
        moving, free, prior = self._get_moving(), self.covariance + self._across, self._get_state()
        for _ in range(_LIMIT):
            away, here = self._get_state() - prior, self._observe(readings)
            violation, rows = self._calc_rows()
            # An update with both equals the constraints first, then the sensors as predicted from there.
            gain = self._constraint_gain(rows, free)
            held, shift = free - gain @ rows @ free, gain @ (rows @ away - violation)
            innovation = here.innovation + here.jacobian @ (away - shift)
            update = calc_update(held, replace(here, innovation=innovation))
            correction = shift + update.gain @ innovation - away
            self._move(correction)
            if np.abs(correction).max() <= _SETTLED * self._get_scale():
                break
        self._hold()
        self.covariance = self._carry(self._calc_tangent(), moving)
        update = calc_update(self.covariance, self._observe(readings))
        self.covariance = calc_corrected(self.covariance, update, self.noise)
        return predicted


class SmoothlyConstrainedKF(_DependentEKF):
    """SCKF, improved: sensors once, linearised at the prediction; then constraints as weakened measurements.

    Their noise is a share of the violation's covariance at first and is reduced from one application to the next, so
    that the way back to the constraints follows their curvature (De Geeter, Van Brussel, De Schutter, Decréton, *A
    smoothly constrained Kalman filter*, IEEE Transactions on Pattern Analysis 19(10), 1997). The covariance along the
    way weighs the coordinates against each other, and is discarded then: in the published form, each application
    makes the filter more certain of z, ż, which breaks it down.
    """

    def _update(self, readings: np.ndarray) -> StateUpdate:
        update = calc_update(self.covariance, self._observe(readings))
        self.covariance = calc_corrected(self.covariance, update, self.noise)
        self._move(update.gain @ update.innovation)
        free = self.covariance + self._across
        violation, rows = self._calc_rows()
        noise = _SMOOTH * rows @ free @ rows.T
        for _ in range(_SMOOTH_COUNT):
            gain = np.linalg.solve(rows @ free @ rows.T + noise, rows @ free).T
            self._move(-gain @ violation)
            free = free - gain @ rows @ free
            noise = noise * _SMOOTH_DECAY
            violation, rows = self._calc_rows()
        self._hold()
        return update
