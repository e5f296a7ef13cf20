"""The interface of all observers on mechanisms: step, state, and a record of each correction.

An observer runs a `Mechanism` of its own. Its state is z and ż of the f independent coordinates; the sensors
are those that the mechanism was compiled with.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from vehicled.errors import RunError, UsageError
from vehicled.filter import definite
from vehicled.filter.error_state import StateUpdate
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Encoder, SensorSet
from vehicled.studies.observers.noise import PlantNoise, as_plant_noise

_FARTHEST = 100.0
"""Largest difference, rad (16 turns), of an encoder's reading from the estimate."""


class Observer(Protocol):
    """Estimates the state of a mechanism."""

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism, in the estimated state."""

    @property
    def covariance(self) -> np.ndarray:
        """(states, states) covariance of the filter's state, z and ż first."""

    @property
    def repairs(self) -> int:
        """Number of times that the covariance was no longer positive definite."""

    @property
    def z(self) -> np.ndarray:
        """(f,) independent coordinates, estimated."""

    @property
    def zd(self) -> np.ndarray:
        """(f,) rates of the independent coordinates, estimated."""

    @property
    def zdd(self) -> np.ndarray:
        """(f,) accelerations of the independent coordinates, estimated."""

    @property
    def z_deviation(self) -> np.ndarray:
        """(f,) standard deviations of z by the filter's covariance."""

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        """Advance by one step; `readings` (k,) at its end, or None.

        Raises RunError if it cannot continue, and UsageError, before the step, for readings that are not k
        finite numbers, or for an encoder many turns from the estimate.
        """


class MechanismEstimate:
    """State of a mechanism, as an observer's estimate."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.independent = mechanism.independent.copy()
        """Indices (f,) of the coordinates that are the filter's state."""

    @property
    def z(self) -> np.ndarray:
        """(f,) independent coordinates, a copy."""
        z: np.ndarray = self.mechanism.q[self.independent]
        return z

    @property
    def zd(self) -> np.ndarray:
        """(f,) their rates, a copy."""
        zd: np.ndarray = self.mechanism.qd[self.independent]
        return zd

    @property
    def zdd(self) -> np.ndarray:
        """(f,) their accelerations, a copy."""
        zdd: np.ndarray = self.mechanism.qdd[self.independent]
        return zdd

    def check_readings(self, sensors: SensorSet, readings: np.ndarray | None) -> np.ndarray | None:
        """(k,) readings of these sensors before a step; None is returned as it is.

        Raises UsageError as `SensorSet.check`, and for an encoder of an angle that is many turns from the
        estimate: to move there takes many solutions of the constraints, and no linkage moves so far in a
        step.
        """
        values = sensors.check(readings)
        if values is None:
            return None
        m = self.mechanism
        for sensor in sensors.sensors:
            if not isinstance(sensor, Encoder):
                continue
            place = m.index(sensor.coordinate)
            value = values[sensors.reading_names.index(str(sensor))]
            if place not in m.lengths and abs(value - m.q[place]) > _FARTHEST:
                raise UsageError(
                    f"{sensor}: expected a reading within {_FARTHEST:g} rad of the estimate, "
                    f"{m.q[place]:.4g} rad, got {value:.4g} rad"
                )
        return values

    def fail(self, what: str) -> RunError:
        """The error to raise, with the time of the mechanism."""
        return RunError(f"observer at t = {self.mechanism.t:.6g} s: {what}")


class MechanismObserver(MechanismEstimate):
    """An observer whose filter itself keeps the covariance of z, ż."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        plant_noise: np.ndarray | PlantNoise,
    ) -> None:
        """`h`: s; `covariance`: of the filter's state at the start.

        `plant_noise`: an array (states, states) is the covariance added in every step.
        """
        super().__init__(mechanism)
        self.sensors, self.h = sensors, h
        self.covariance = np.array(covariance, dtype=float)
        self.plant_noise = as_plant_noise(plant_noise)
        self.noise = np.diag(sensors.sigma**2)
        """(k, k) R"""
        self.repairs = 0

    @property
    def z_deviation(self) -> np.ndarray:
        """(f,) standard deviations of z; zero where the variance is not positive."""
        return np.sqrt(np.maximum(np.diag(self.covariance)[: len(self.independent)], 0.0))

    def propagate(self, covariance: np.ndarray, transition: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """F P Fᵀ + Q over one step; all (states, states). F is the transition of the `slope`."""
        noise = self.plant_noise.calc_step(slope, self.h)
        self.plant_noise.predict(transition)
        return self.repair(transition @ covariance @ transition.T + noise)

    def repair(self, covariance: np.ndarray) -> np.ndarray:
        """The covariance (states, states), symmetric; if it is not positive definite, it is repaired and counted.

        Raises RunError if it is not finite.
        """
        if not np.all(np.isfinite(covariance)):
            raise self.fail("the covariance is not finite")
        p, repaired = definite.repair(covariance)
        self.repairs += repaired
        return p
