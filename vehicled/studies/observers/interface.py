"""What all observers on mechanisms have in common: one step, one state, one record of each correction.

An observer runs a `Mechanism` of its own. Its state is z and ż of the f independent coordinates; the sensors
are those that the mechanism was compiled with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vehicled.errors import RunError
from vehicled.filter import definite
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.noise import PlantNoise, StepNoise


@dataclass(frozen=True)
class Innovation:
    """What a correction saw, k readings."""

    value: np.ndarray
    """(k,) measured less predicted."""
    covariance: np.ndarray
    """(k, k) S, which it should have."""

    @property
    def nis(self) -> float:
        """Normalised innovation squared νᵀ S⁻¹ ν; its expectation is k."""
        return float(self.value @ np.linalg.solve(self.covariance, self.value))


class Observer(Protocol):
    """Estimates the state of a mechanism."""

    mechanism: Mechanism
    """In the estimated state."""
    covariance: np.ndarray
    """Of the filter's state, z and ż first."""
    repairs: int
    """How often the covariance had lost its definiteness."""

    @property
    def z(self) -> np.ndarray:
        """(f,) independent coordinates, estimated."""

    @property
    def zd(self) -> np.ndarray:
        """(f,)"""

    @property
    def zdd(self) -> np.ndarray:
        """(f,)"""

    @property
    def z_deviation(self) -> np.ndarray:
        """(f,) standard deviations that the filter itself gives z."""

    def step(self, readings: np.ndarray | None) -> Innovation | None:
        """Go on by one step; `readings` (k,) at its end, None without. Raises RunError when it cannot go on."""


class MechanismObserver:
    """Holds what every observer has whose estimate is the state that its mechanism is in."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        plant_noise: np.ndarray | PlantNoise,
    ):
        """`h`: s; `covariance`: of the filter's state at the start; `plant_noise`: an array (states, states) is the
        covariance that every step adds."""
        self.mechanism, self.sensors, self.h = mechanism, sensors, h
        self.covariance = np.array(covariance, dtype=float)
        self.plant_noise = StepNoise(plant_noise) if isinstance(plant_noise, np.ndarray) else plant_noise
        self.independent = mechanism.independent.copy()
        """Indices (f,) of the coordinates that are the filter's state."""
        self.noise = np.diag(sensors.sigma**2)
        """(k, k) R"""
        self.repairs = 0
        """How often the covariance had lost its definiteness."""

    @property
    def z(self) -> np.ndarray:
        return self.mechanism.q[self.independent]

    @property
    def zd(self) -> np.ndarray:
        return self.mechanism.qd[self.independent]

    @property
    def zdd(self) -> np.ndarray:
        return self.mechanism.qdd[self.independent]

    @property
    def z_deviation(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self.covariance)[: len(self.independent)], 0.0))

    def calc_sensitivity(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(k, f) each: derivatives of the readings by z, ż and z̈ at the mechanism's state.

        Moving z by dz moves q by R dz and, with ż held, q̇ by −S Φ̇_q R dz; both move what q̈ the constraints ask
        for, with z̈ held.
        """
        m = self.mechanism
        r, s = problems.calc_velocity_map(m)
        h_q, h_qd, h_qdd = self.sensors.calc_jacobians(m)
        qd_by_z = -s @ (m.calc_jacobian_rate() @ r)
        by_z, by_zd = h_q @ r + h_qd @ qd_by_z, h_qd @ r
        if h_qdd.any():
            by_q, by_qd = m.calc_acceleration_by_q(), m.calc_acceleration_by_qd()
            by_z = by_z - h_qdd @ s @ (by_q @ r + by_qd @ qd_by_z)
            by_zd = by_zd - h_qdd @ s @ (by_qd @ r)
        return by_z, by_zd, h_qdd @ r

    def calc_slope(self) -> np.ndarray:
        """(2f, 2f) derivatives of ż, z̈ by z, ż, exact; the mechanism's q̈ and λ must be those of `solve_dynamics`."""
        f = len(self.independent)
        by_z, by_zd = problems.calc_acceleration_jacobians(self.mechanism)
        return np.block([[np.zeros((f, f)), np.eye(f)], [by_z, by_zd]])

    def calc_exact_transition(self) -> tuple[np.ndarray, np.ndarray]:
        """(2f, 2f) F over one step from the present state, to the second order in h, and the slope."""
        slope = self.calc_slope()
        return np.eye(len(slope)) + self.h * slope + 0.5 * self.h**2 * slope @ slope, slope

    def spread(self, covariance: np.ndarray, transition: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """F P Fᵀ + Q over one step; all (states, states), `slope` what F comes from."""
        noise = self.plant_noise.calc_step(slope, self.h)
        self.plant_noise.predict(transition)
        return self.repair(transition @ covariance @ transition.T + noise)

    def judge(self, sensitivity: np.ndarray, readings: np.ndarray) -> Innovation:
        """`sensitivity`: (k, states) H, derivatives of the readings by the filter's state."""
        covariance = sensitivity @ self.covariance @ sensitivity.T + self.noise
        return Innovation(readings - self.sensors.calc_readings(self.mechanism), covariance)

    def fuse(self, sensitivity: np.ndarray, innovation: Innovation) -> np.ndarray:
        """The correction (states,) of the filter's state by an innovation; the covariance follows."""
        p, h = self.covariance, sensitivity
        gain = np.linalg.solve(innovation.covariance, h @ p).T
        rest = np.eye(len(p)) - gain @ h
        # In Joseph's form, which rounding does not make indefinite.
        self.covariance = self.repair(rest @ p @ rest.T + gain @ self.noise @ gain.T)
        self.plant_noise.learn(h, gain, innovation.value, innovation.covariance)
        return gain @ innovation.value

    def repair(self, covariance: np.ndarray) -> np.ndarray:
        """The same, symmetric; definite too, and counted, where it was not."""
        if not np.all(np.isfinite(covariance)):
            raise self.fail("the covariance is not finite")
        p, repaired = definite.repair(covariance)
        self.repairs += repaired
        return p

    def fail(self, what: str) -> RunError:
        return RunError(f"{type(self).__name__} at t = {self.mechanism.t:.6g} s: {what}")
