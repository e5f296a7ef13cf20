"""errorEKF on mechanisms: the state is the error of a multibody simulation that runs beside the filter.

errorEKF after Sanjurjo et al.; errorEKF_EJ with the exact Jacobian of the dynamics; errorEKF_FE which estimates
the error of the accelerations too and turns it into forces (Rodríguez, Sanjurjo, Pastorino, Naya; Sensors 2021,
21, 5241 and what it builds on).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from vehicled.multibody import problems
from vehicled.multibody.formulations import Ali3p, Stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import Innovation, MechanismObserver
from vehicled.studies.observers.noise import PlantNoise, calc_free_slope

MEMORY = 0.2
"""s, of the noise that a shaping filter colours."""


class ErrorEKF(MechanismObserver):
    """States δz, δż; before each correction they are zero. Their transition is that of free masses, [I h; 0 I]."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        plant_noise: np.ndarray | PlantNoise,
        stepper: Stepper | None = None,
        *,
        from_rest: bool = False,
    ):
        """`covariance`, `plant_noise` (an array: of one step): (states, states). `stepper`: ALI3-P when left out.

        `from_rest`: the first step takes the mechanism for unaccelerated, as some programs do.
        """
        super().__init__(mechanism, sensors, h, covariance, plant_noise)
        self._stepper = Ali3p() if stepper is None else stepper
        self.freedom = len(self.independent)
        self._free_slope = calc_free_slope(self.freedom)
        if from_rest:
            mechanism.qdd[:] = 0.0
            mechanism.multipliers[:] = 0.0

    def step(self, readings: np.ndarray | None) -> Innovation | None:
        m = self.mechanism
        transition, slope = self.calc_transition()
        m.set_independent(self.independent)
        solution = self._stepper.step(m, self.h)
        if not solution.converged:
            raise self.fail("the simulation did not converge")
        m.set_independent(self.independent)
        self.covariance = self.spread(self.covariance, transition, slope)
        if readings is None:
            return None
        sensitivity = self.calc_observation()
        innovation = self.judge(sensitivity, readings)
        correction = self.fuse(sensitivity, innovation)
        if not np.all(np.isfinite(correction)):
            raise self.fail("the correction is not finite")
        self.apply(correction)
        return innovation

    def calc_transition(self) -> tuple[np.ndarray, np.ndarray]:
        """(states, states) F over one step, at the state before it, and the slope that it comes from."""
        return np.eye(2 * self.freedom) + self.h * self._free_slope, self._free_slope

    def calc_observation(self) -> np.ndarray:
        """(k, states) H at the simulated state."""
        by_z, by_zd, _ = self.calc_sensitivity()
        return np.hstack([by_z, by_zd])

    def apply(self, correction: np.ndarray) -> None:
        """Move the simulation: positions along the constraints' tangent, which the next step projects; then rates.

        Accelerations stay what the integrator left: they are its memory.
        """
        m, f = self.mechanism, self.freedom
        zd = self.zd + correction[f : 2 * f]
        r, _ = problems.calc_velocity_map(m)
        m.q += r @ correction[:f]
        problems.solve_velocity(m, zd)


class ExactErrorEKF(ErrorEKF):
    """errorEKF_EJ: the transition knows how accelerations depend on z and ż."""

    def calc_transition(self) -> tuple[np.ndarray, np.ndarray]:
        f, h = self.freedom, self.h
        transition, slope = super().calc_transition()
        exact = np.hstack(self._calc_dynamics_jacobians())
        transition[:f] += 0.5 * h * h * exact
        transition[f:] += h * exact
        return transition, np.vstack([slope[:f], exact])

    def _calc_dynamics_jacobians(self) -> tuple[np.ndarray, np.ndarray]:
        """∂z̈/∂z and ∂z̈/∂ż of the equations of motion, whatever the integrator has as accelerations."""
        m = self.mechanism
        memory = m.qdd.copy(), m.multipliers.copy()
        problems.solve_dynamics(m)
        jacobians = problems.calc_acceleration_jacobians(m)
        m.qdd[:], m.multipliers[:] = memory
        return jacobians


class ForceErrorEKF(ExactErrorEKF):
    """errorEKF_FE: states δz, δż, δz̈; forces M̄ δz̈ on the independent coordinates stay in the model."""

    def calc_transition(self) -> tuple[np.ndarray, np.ndarray]:
        f, h = self.freedom, self.h
        exact = super().calc_transition()
        transition, slope = np.eye(3 * f), np.zeros((3 * f, 3 * f))
        for whole, part in zip((transition, slope), exact, strict=True):
            whole[: 2 * f, : 2 * f] = part
        transition[:f, 2 * f :] = 0.5 * h * h * np.eye(f)
        transition[f : 2 * f, 2 * f :] = h * np.eye(f)
        slope[f : 2 * f, 2 * f :] = np.eye(f)
        return transition, slope

    def calc_observation(self) -> np.ndarray:
        by_z, by_zd, by_zdd = self.calc_sensitivity()
        if by_zdd.any():
            # The force's state is what the accelerations have beside what follows from z and ż.
            slope_z, slope_zd = self._calc_dynamics_jacobians()
            by_z, by_zd = by_z + by_zdd @ slope_z, by_zd + by_zdd @ slope_zd
        return np.hstack([by_z, by_zd, by_zdd])

    def apply(self, correction: np.ndarray) -> None:
        super().apply(correction)
        self.push(correction[2 * self.freedom : 3 * self.freedom])

    def push(self, zdd: np.ndarray) -> None:
        """Let forces act from now on that accelerate the independent coordinates by (f,) more."""
        m = self.mechanism
        r, _ = problems.calc_velocity_map(m)
        m.applied[self.independent] += r.T @ m.mass @ r @ zdd


class ShapedForceErrorEKF(ForceErrorEKF):
    """errorEKF_FE with a shaping filter: states δz, δż, δz̈ and a share of the rate of δz̈ that decays with the time
    `memory`.

    After Rodríguez, Sanjurjo and Naya (Sensors 2025, 25, 2218): the noise on the forces is coloured, and states of
    its own whiten it. There all of it is, and each step keeps a share of the last one's noise that is found from the
    corrections' autocorrelation. Here, in continuous form, white noise drives the forces beside the coloured one
    and the memory is given: how the noise is shared between the two, their densities say, which can be adapted.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        plant_noise: np.ndarray | PlantNoise,
        stepper: Stepper | None = None,
        *,
        memory: float = MEMORY,
        from_rest: bool = False,
    ):
        """`covariance`, `plant_noise`: (4f, 4f); `memory`: s."""
        super().__init__(mechanism, sensors, h, covariance, plant_noise, stepper, from_rest=from_rest)
        self.memory = memory
        self.rate = np.zeros(self.freedom)
        """(f,) of the forces, as accelerations of the independent coordinates that they make; rad/s³ or m/s³."""

    def step(self, readings: np.ndarray | None) -> Innovation | None:
        decay = np.exp(-self.h / self.memory)
        self.push(self.memory * (1.0 - decay) * self.rate)
        self.rate *= decay
        return super().step(readings)

    def calc_transition(self) -> tuple[np.ndarray, np.ndarray]:
        f = self.freedom
        slope = np.zeros((4 * f, 4 * f))
        slope[: 3 * f, : 3 * f] = super().calc_transition()[1]
        slope[2 * f : 3 * f, 3 * f :] = np.eye(f)
        slope[3 * f :, 3 * f :] = -np.eye(f) / self.memory
        return expm(self.h * slope), slope

    def calc_observation(self) -> np.ndarray:
        seen = super().calc_observation()
        return np.hstack([seen, np.zeros((len(seen), self.freedom))])

    def apply(self, correction: np.ndarray) -> None:
        super().apply(correction)
        self.rate = self.rate + correction[3 * self.freedom :]
