"""The error-state Kalman filter on mechanisms: errorEKF in its forms, and DEKF, by the model of the errors."""

from __future__ import annotations

import numpy as np

from vehicled.filter.error_state import ErrorStateKalmanFilter, StateUpdate
from vehicled.multibody.mechanism import Mechanism
from vehicled.studies.observers.linkage_errors import LinkageErrors


class ErrorStateObserver:
    """An observer of the errors of its simulation; some kinds of plant noise adapt to the innovations."""

    def __init__(self, model: LinkageErrors, h: float, covariance: np.ndarray) -> None:
        """`h`: s; `covariance`: (errors, errors) at the start."""
        self.model, self.h = model, h
        self.filter = ErrorStateKalmanFilter(model, covariance)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism, in the estimated state."""
        return self.model.mechanism

    @property
    def covariance(self) -> np.ndarray:
        """(errors, errors) covariance of the errors, z and ż first."""
        return self.filter.covariance

    @property
    def repairs(self) -> int:
        """Number of times that the covariance was no longer positive definite."""
        return self.filter.repairs

    @property
    def z(self) -> np.ndarray:
        """(f,) independent coordinates, estimated."""
        return self.model.z

    @property
    def zd(self) -> np.ndarray:
        """(f,) their rates."""
        return self.model.zd

    @property
    def zdd(self) -> np.ndarray:
        """(f,) their accelerations."""
        return self.model.zdd

    @property
    def z_deviation(self) -> np.ndarray:
        """(f,) standard deviations of z; zero where the variance is not positive."""
        return np.sqrt(np.maximum(np.diag(self.covariance)[: self.model.freedom], 0.0))

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        """Advance by one step; `readings` (k,) at its end, or None. Raises as `Observer.step`."""
        readings = self.model.check_readings(self.model.sensors, readings)
        noise = self.model.plant_noise
        try:
            noise.predict(self.filter.predict(self.h).matrix)
            if readings is None:
                return None
            update = self.filter.update(readings)
        except (FloatingPointError, np.linalg.LinAlgError) as error:
            raise self.model.fail(str(error)) from None
        if not update.accepted:
            raise self.model.fail(f"the innovation was rejected: {update.reason}")
        noise.update(update)
        return update
