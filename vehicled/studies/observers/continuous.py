"""CEKF: multibody dynamics, trapezoidal rule and Kalman–Bucy correction solved together by Newton (Sanjurjo et al.).

A reading speaks for the step at whose end it is taken, so that its continuous intensity is R·h. The Riccati equation
is split into plant and measurement, and each part solved in closed form: P ← F P Fᵀ + Q and P⁻¹ ← P⁻¹ + Hᵀ R⁻¹ H. The
correction is implicit, at the end of the step with the gain P Hᵀ R⁻¹ of before the measurement: good sensors and long
pauses make it stiff, and an explicit one breaks down.
"""

from __future__ import annotations

import numpy as np

from vehicled.studies.observers.interface import Innovation, MechanismObserver

_LIMIT = 30
_TOLERANCE = 1e-10
"""On the last change of the state, relative to its size (at least 1)."""


class ContinuousEKF(MechanismObserver):
    """States z, ż (2f); the exact Jacobian of the dynamics."""

    def step(self, readings: np.ndarray | None) -> Innovation | None:
        m, h = self.mechanism, self.h
        self.covariance = self.spread(self.covariance, *self.calc_exact_transition())
        start, rate = self._state(), np.concatenate([self.zd, self.zdd])
        m.t += h
        end = start + h * rate
        # What the simulation alone would come to is what the innovation is told by.
        self._solve(end, start, rate, None)
        if readings is None:
            return None
        innovation = self.judge(self._observe(), readings)
        self._solve(self._state(), start, rate, (self.covariance, readings))
        sensitivity = self._observe()
        self.fuse(sensitivity, Innovation(innovation.value, self.judge(sensitivity, readings).covariance))
        return innovation

    def _solve(
        self,
        end: np.ndarray,
        start: np.ndarray,
        rate: np.ndarray,
        correction: tuple[np.ndarray, np.ndarray] | None,
    ) -> None:
        """Newton on x⁺ − x − h/2 (ẋ + ẋ⁺) − P Hᵀ R⁻¹ (o − h(x⁺)) = 0 from `end`; `correction`: P and o, if any."""
        m, h, f = self.mechanism, self.h, len(self.independent)
        for _ in range(_LIMIT):
            if not (np.all(np.isfinite(end)) and m.set_independent_state(end[:f], end[f:]).converged):
                raise self.fail(f"no position for z = {end[:f]}")
            residual = end - start - 0.5 * h * (rate + np.concatenate([self.zd, self.zdd]))
            tangent = np.eye(2 * f) - 0.5 * h * self.calc_slope()
            if correction is not None:
                p, readings = correction
                sensitivity = self._observe()
                gain = np.linalg.solve(self.noise, sensitivity @ p).T
                residual -= gain @ (readings - self.sensors.calc_readings(m))
                tangent += gain @ sensitivity
            change = np.linalg.solve(tangent, residual)
            end = end - change
            if np.abs(change).max() <= _TOLERANCE * max(1.0, float(np.abs(end).max())):
                m.set_independent_state(end[:f], end[f:])
                return
        raise self.fail("Newton's iteration did not converge")

    def _state(self) -> np.ndarray:
        return np.concatenate([self.z, self.zd])

    def _observe(self) -> np.ndarray:
        by_z, by_zd, _ = self.calc_sensitivity()
        return np.hstack([by_z, by_zd])
