"""CEKF: multibody dynamics, trapezoidal rule and Kalman–Bucy correction solved together by Newton (Sanjurjo et al.).

A reading stands for the step at whose end it is taken, so that its continuous intensity is R·h. The Riccati equation
is split into plant and measurement, and each part solved in closed form: P ← F P Fᵀ + Q and P⁻¹ ← P⁻¹ + Hᵀ R⁻¹ H. The
correction is implicit, at the end of the step, with the gain P Hᵀ R⁻¹ before the measurement: good sensors and long
pauses make it stiff, and an explicit one breaks down.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vehicled.filter.error_state import LinearObservation, StateUpdate, calc_corrected, calc_update
from vehicled.studies.observers.interface import MechanismObserver
from vehicled.studies.observers.linearised import calc_exact_transition, calc_slope, calc_state_sensitivity

_LIMIT = 30
_TOLERANCE = 1e-10
"""Tolerance on the last change of the state, relative to its size (at least 1)."""


class ContinuousEKF(MechanismObserver):
    """States z, ż (2f); the exact Jacobian of the dynamics."""

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        """Advance by h; the correction is part of the step's equations. Raises as `Observer.step`."""
        readings = self.check_readings(self.sensors, readings)
        m, h = self.mechanism, self.h
        self.covariance = self.propagate(self.covariance, *calc_exact_transition(m, h))
        start, rate = self._state(), np.concatenate([self.zd, self.zdd])
        m.t += h
        end = start + h * rate
        # Innovations are those of the simulation without correction.
        self._solve(end, start, rate, None)
        if readings is None:
            return None
        p = self.covariance
        predicted = calc_update(p, self._observe(readings))
        self._solve(self._state(), start, rate, (p, readings))
        observation = replace(self._observe(readings), innovation=predicted.innovation)
        corrected = calc_update(p, observation)
        self.covariance = self.repair(calc_corrected(p, corrected, self.noise))
        self.plant_noise.update(corrected)
        return predicted

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
            tangent = np.eye(2 * f) - 0.5 * h * calc_slope(m)
            if correction is not None:
                p, readings = correction
                observation = self._observe(readings)
                gain = np.linalg.solve(self.noise, observation.jacobian @ p).T
                residual -= gain @ observation.innovation
                tangent += gain @ observation.jacobian
            change = np.linalg.solve(tangent, residual)
            end = end - change
            if np.abs(change).max() <= _TOLERANCE * max(1.0, float(np.abs(end).max())):
                m.set_independent_state(end[:f], end[f:])
                return
        raise self.fail("Newton's iteration did not converge")

    def _state(self) -> np.ndarray:
        return np.concatenate([self.z, self.zd])

    def _observe(self, readings: np.ndarray) -> LinearObservation:
        m, sensors = self.mechanism, self.sensors
        return LinearObservation(
            readings - sensors.calc_readings(m), calc_state_sensitivity(m, sensors), self.noise
        )
