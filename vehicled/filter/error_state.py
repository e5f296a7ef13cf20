"""The error-state Kalman filter of any model: the state is the error of a simulation that runs beside the filter.

The model simulates, propagates its errors, predicts its sensors' readings and applies corrections
(`ErrorStateModel`); the filter only has the covariance of the errors. As each correction is applied to the
simulation at once, the expected error is zero before every step and every update (indirect filter with
feedback: Maybeck, *Stochastic Models, Estimation, and Control* 1, section 6.3). The covariance is updated in
Joseph's form and repaired where rounding has made it indefinite.

Every call allocates new arrays: this filter is for studies, and is the reference for compiled code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from vehicled.filter import definite

Reading = TypeVar("Reading")
Reading_contra = TypeVar("Reading_contra", contravariant=True)


@dataclass(frozen=True)
class Transition:
    """How n errors propagate over one step: δ⁺ = F δ + w, w of covariance Q."""

    matrix: np.ndarray
    """(n, n) F"""
    noise: np.ndarray
    """(n, n) Q"""


@dataclass(frozen=True)
class LinearObservation:
    """m readings, compared with the model's predictions."""

    innovation: np.ndarray
    """(m,) measured less predicted."""
    jacobian: np.ndarray
    """(m, n) H, derivatives of the predicted readings with respect to the errors."""
    noise: np.ndarray
    """(m, m) R"""
    gate: float = math.inf
    """Largest normalised innovation squared that is accepted."""


@dataclass(frozen=True)
class StateUpdate:
    """The outcome of one observation."""

    innovation: np.ndarray
    """(m,) measured less predicted."""
    covariance: np.ndarray
    """(m, m) S = H P Hᵀ + R, that of the innovation."""
    nis: float
    """Normalised innovation squared νᵀ S⁻¹ ν; its expectation is m."""
    gain: np.ndarray
    """(n, m) K = P Hᵀ S⁻¹"""
    jacobian: np.ndarray
    """(m, n) H"""
    reason: str | None = None
    """Reason of a rejection: `gate`, `not finite`."""

    @property
    def accepted(self) -> bool:
        """Whether the observation has corrected the state."""
        return self.reason is None


class ErrorStateModel(Protocol[Reading_contra]):
    """What the filter has to know of a model with n errors."""

    @property
    def state(self) -> np.ndarray:
        """The estimated quantities in the simulation: an array of any shape, in the model's units."""

    def simulate(self, h: float) -> None:
        """Advance by h (s)."""

    def calc_transition(self, h: float) -> Transition:
        """Transition over the step of h (s) from the present state; leaves the simulation as it is."""

    def observe(self, reading: Reading_contra) -> LinearObservation:
        """Linearise a reading at the present state."""

    def apply(self, correction: np.ndarray) -> None:
        """Add estimated errors (n,) to the simulation."""


class ErrorStateKalmanFilter(Generic[Reading]):
    """Estimates the errors of a simulation and corrects it. Raises what the model raises."""

    def __init__(self, model: ErrorStateModel[Reading], covariance: np.ndarray) -> None:
        """`covariance` (n, n) of the errors at the start."""
        self.model = model
        self.repairs = 0
        """How often the covariance had lost its definiteness."""
        self.initialise(covariance)

    @property
    def state(self) -> np.ndarray:
        """The model's state, with all corrections."""
        return self.model.state

    def initialise(self, covariance: np.ndarray) -> None:
        """`covariance` (n, n) of the errors from now on."""
        self.covariance = np.array(covariance, dtype=float)

    def predict(self, h: float) -> Transition:
        """Advance by h (s): P ← F P Fᵀ + Q. Raises FloatingPointError where that is not finite."""
        transition = self.model.calc_transition(h)
        self.model.simulate(h)
        f = transition.matrix
        self._set_covariance(f @ self.covariance @ f.T + transition.noise)
        return transition

    def update(self, reading: Reading) -> StateUpdate:
        """Correct the simulation by a reading of the present state, if it is accepted.

        Raises LinAlgError for an S that is singular.
        """
        observation = self.model.observe(reading)
        update = calc_update(self.covariance, observation)
        if update.accepted:
            self._set_covariance(calc_corrected(self.covariance, update, observation.noise))
            self.model.apply(update.gain @ update.innovation)
        return update

    def _set_covariance(self, covariance: np.ndarray) -> None:
        if not np.all(np.isfinite(covariance)):
            raise FloatingPointError("the covariance is not finite")
        self.covariance, repaired = definite.repair(covariance)
        self.repairs += repaired


def calc_update(covariance: np.ndarray, observation: LinearObservation) -> StateUpdate:
    """Evaluate an observation with the covariance P (n, n) of the state. Raises LinAlgError for a singular S."""
    h, value = observation.jacobian, observation.innovation
    h_p = h @ covariance
    s = h_p @ h.T + observation.noise
    solved = np.linalg.solve(s, np.column_stack([h_p, value]))
    nis = float(value @ solved[:, -1])
    reason = None if nis <= observation.gate else "gate" if math.isfinite(nis) else "not finite"
    return StateUpdate(value, s, nis, solved[:, :-1].T, h, reason)


def calc_corrected(covariance: np.ndarray, update: StateUpdate, noise: np.ndarray) -> np.ndarray:
    """(n, n) covariance after an update: (1 − K H) P (1 − K H)ᵀ + K R Kᵀ (Joseph).

    From `covariance` P (n, n) before it and `noise` R (m, m). Rounding does not make this form indefinite.
    """
    rest = np.eye(len(covariance)) - update.gain @ update.jacobian
    corrected: np.ndarray = rest @ covariance @ rest.T + update.gain @ noise @ update.gain.T
    return corrected
