"""DEKF: an extended Kalman filter on z and ż with forward Euler (Sanjurjo et al.)."""

from __future__ import annotations

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import Innovation, MechanismObserver
from vehicled.studies.observers.noise import PlantNoise, calc_free_slope


class DiscreteEKF(MechanismObserver):
    """States z, ż, predicted by forward Euler; their covariance spreads as that of free masses, [I h; 0 I]."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        plant_noise: np.ndarray | PlantNoise,
    ):
        """`covariance`, `plant_noise` (an array: of one step): (2f, 2f)."""
        super().__init__(mechanism, sensors, h, covariance, plant_noise)
        self._slope = calc_free_slope(len(self.independent))
        self._transition = np.eye(len(self._slope)) + h * self._slope

    def step(self, readings: np.ndarray | None) -> Innovation | None:
        m, f = self.mechanism, len(self.independent)
        m.t += self.h
        z, zd = self.z + self.h * self.zd, self.zd + self.h * self.zdd
        self.covariance = self.spread(self.covariance, self._transition, self._slope)
        innovation = None
        if readings is not None:
            self._move(z, zd)
            by_z, by_zd, _ = self.calc_sensitivity()
            sensitivity = np.hstack([by_z, by_zd])
            innovation = self.judge(sensitivity, readings)
            correction = self.fuse(sensitivity, innovation)
            z, zd = z + correction[:f], zd + correction[f:]
        self._move(z, zd)
        problems.solve_dynamics(m)
        return innovation

    def _move(self, z: np.ndarray, zd: np.ndarray) -> None:
        if not (np.all(np.isfinite(z)) and problems.solve_position(self.mechanism, z).converged):
            raise self.fail(f"no position for z = {z}")
        problems.solve_velocity(self.mechanism, zd)
