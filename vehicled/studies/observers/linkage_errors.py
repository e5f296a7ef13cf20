"""Mechanisms as models of the error-state Kalman filter: a multibody simulation, its errors, its sensors.

errorEKF after Sanjurjo et al.; errorEKF_EJ with the exact Jacobian of the dynamics; errorEKF_FE, which estimates
the error of the accelerations too and turns it into forces (Rodríguez, Sanjurjo, Pastorino, Naya; Sensors 2021,
21, 5241 and what it builds on); DEKF, a forward Euler simulation of z and ż.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from vehicled.filter.error_state import LinearObservation, Transition
from vehicled.multibody import problems
from vehicled.multibody.formulations import Ali3p, Stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import MechanismEstimate
from vehicled.studies.observers.linearised import (
    calc_dynamics_jacobians,
    calc_sensitivity,
    calc_state_sensitivity,
)
from vehicled.studies.observers.noise import PlantNoise, as_plant_noise, calc_free_slope

MEMORY = 0.2
"""Initial memory of a shaping filter, s."""


class LinkageErrors(MechanismEstimate):
    """errorEKF: errors δz, δż. Their transition is that of free masses, [I h; 0 I]."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        plant_noise: np.ndarray | PlantNoise,
        stepper: Stepper | None = None,
        *,
        from_rest: bool = False,
    ) -> None:
        """`plant_noise`: an array (errors, errors) is the covariance added in every step.

        `stepper`: by default ALI3-P.

        `from_rest`: the first step assumes zero accelerations before it, as some programs do.
        """
        super().__init__(mechanism)
        self.sensors = sensors
        self.plant_noise = as_plant_noise(plant_noise)
        self.noise = np.diag(sensors.sigma**2)
        """(k, k) R"""
        self.freedom = len(self.independent)
        self._stepper = Ali3p() if stepper is None else stepper
        self._free_slope = calc_free_slope(self.freedom)
        if from_rest:
            mechanism.qdd[:] = 0.0
            mechanism.multipliers[:] = 0.0

    @property
    def state(self) -> np.ndarray:
        """(2f,) z, ż."""
        return np.concatenate([self.z, self.zd])

    def simulate(self, h: float) -> None:
        """Advance the mechanism by h (s). Raises RunError if the step does not converge."""
        m = self.mechanism
        m.set_independent(self.independent)
        if not self._stepper.step(m, h).converged:
            raise self.fail("the simulation did not converge")
        m.set_independent(self.independent)

    def calc_transition(self, h: float) -> Transition:
        """Transition over a step of h (s) from the present state, with the plant noise along its slope."""
        matrix, slope = self.linearise(h)
        return Transition(matrix, self.plant_noise.calc_step(slope, h))

    def linearise(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """(errors, errors) F over one step from the present state, and its slope."""
        return np.eye(2 * self.freedom) + h * self._free_slope, self._free_slope

    def observe(self, reading: np.ndarray) -> LinearObservation:
        """Linearise a `reading` (k,), with one value for each of the mechanism's sensors."""
        predicted = self.sensors.calc_readings(self.mechanism)
        return LinearObservation(reading - predicted, self.calc_observation(), self.noise)

    def calc_observation(self) -> np.ndarray:
        """(k, errors) H at the present state."""
        return calc_state_sensitivity(self.mechanism, self.sensors)

    def apply(self, correction: np.ndarray) -> None:
        """Correct the simulation: positions along the constraints' tangent, which the next step projects; then rates.

        Accelerations keep the integrator's values, with which the next step starts.
        """
        m, f = self.mechanism, self.freedom
        zd = self.zd + correction[f : 2 * f]
        r, _ = problems.calc_velocity_map(m)
        m.q += r @ correction[:f]
        problems.solve_velocity(m, zd)


class EulerLinkageErrors(LinkageErrors):
    """DEKF: forward Euler on z and ż; dependent coordinates follow from the constraints after every move."""

    def simulate(self, h: float) -> None:
        """One step of forward Euler, h (s). Raises RunError if the constraints have no solution."""
        self.mechanism.t += h
        self._move(self.z + h * self.zd, self.zd + h * self.zdd)

    def apply(self, correction: np.ndarray) -> None:
        """Add δz, δż; the others follow from the constraints. Raises RunError if they have no solution."""
        f = self.freedom
        self._move(self.z + correction[:f], self.zd + correction[f:])

    def _move(self, z: np.ndarray, zd: np.ndarray) -> None:
        if not (np.all(np.isfinite(z)) and problems.solve_position(self.mechanism, z).converged):
            raise self.fail(f"no position for z = {z}")
        problems.solve_velocity(self.mechanism, zd)
        problems.solve_dynamics(self.mechanism)


class ExactLinkageErrors(LinkageErrors):
    """errorEKF_EJ: the transition has the derivatives of the accelerations with respect to z and ż."""

    def linearise(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """(2f, 2f) each: as for free masses, plus ∂z̈/∂z and ∂z̈/∂ż to the second order in h."""
        f = self.freedom
        transition, slope = super().linearise(h)
        exact = np.hstack(calc_dynamics_jacobians(self.mechanism))
        transition[:f] += 0.5 * h * h * exact
        transition[f:] += h * exact
        return transition, np.vstack([slope[:f], exact])


class ForceLinkageErrors(ExactLinkageErrors):
    """errorEKF_FE: errors δz, δż, δz̈; the forces M̄ δz̈ on the independent coordinates are kept in the model."""

    def linearise(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """(3f, 3f) each: as without the force's error, which is constant over the step."""
        f = self.freedom
        exact = super().linearise(h)
        transition, slope = np.eye(3 * f), np.zeros((3 * f, 3 * f))
        for whole, part in zip((transition, slope), exact, strict=True):
            whole[: 2 * f, : 2 * f] = part
        transition[:f, 2 * f :] = 0.5 * h * h * np.eye(f)
        transition[f : 2 * f, 2 * f :] = h * np.eye(f)
        slope[f : 2 * f, 2 * f :] = np.eye(f)
        return transition, slope

    def calc_observation(self) -> np.ndarray:
        """(k, 3f) H; accelerometers depend on δz̈ and on the accelerations due to δz and δż."""
        # The force's error is the part of the accelerations that does not follow from z and ż.
        by_zdd = calc_sensitivity(self.mechanism, self.sensors)[2]
        return np.hstack([super().calc_observation(), by_zdd])

    def apply(self, correction: np.ndarray) -> None:
        """Correct z, ż, and keep δz̈ as a force on the independent coordinates."""
        super().apply(correction)
        self.add_force(correction[2 * self.freedom : 3 * self.freedom])

    def add_force(self, zdd: np.ndarray) -> None:
        """Add constant forces that accelerate the independent coordinates by (f,)."""
        m = self.mechanism
        r, _ = problems.calc_velocity_map(m)
        m.applied[self.independent] += r.T @ m.mass @ r @ zdd


class ShapedForceLinkageErrors(ForceLinkageErrors):
    """errorEKF_FE with a shaping filter.

    Errors δz, δż, δz̈ and a part of the rate of δz̈ that decays with the time `memory`.

    After Rodríguez, Sanjurjo and Naya (Sensors 2025, 25, 2218): the noise on the forces is coloured, and
    additional states whiten it. In the source all of the noise is coloured, and each step keeps a share of
    the preceding step's noise, found from the corrections' autocorrelation. Here, in continuous form, the
    forces are driven by white noise in addition to the coloured noise; the densities of the two determine the
    share of each. `ShapedForceObserver` finds densities and memory from the innovations.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        plant_noise: np.ndarray | PlantNoise,
        stepper: Stepper | None = None,
        *,
        from_rest: bool = False,
    ) -> None:
        """`plant_noise`: (4f, 4f)."""
        super().__init__(mechanism, sensors, plant_noise, stepper, from_rest=from_rest)
        self.memory = MEMORY
        """s; may be changed between two steps."""
        self.rate = np.zeros(self.freedom)
        """(f,) rate of the forces, as accelerations that they cause on the independent coordinates; rad/s³ or
        m/s³."""

    def simulate(self, h: float) -> None:
        """Change the force by its rate over h (s), let the rate decay, and advance the mechanism."""
        self._change_force(h)
        self.rate = self.rate * np.exp(-h / self.memory)
        super().simulate(h)

    def linearise(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        """(4f, 4f) each: the matrix exponential over h of the slope, with the force of this step."""
        f = self.freedom
        slope = np.zeros((4 * f, 4 * f))
        # With the force during the step.
        force = self.mechanism.applied.copy()
        self._change_force(h)
        slope[: 3 * f, : 3 * f] = super().linearise(h)[1]
        self.mechanism.applied[:] = force
        slope[2 * f : 3 * f, 3 * f :] = np.eye(f)
        slope[3 * f :, 3 * f :] = -np.eye(f) / self.memory
        return expm(h * slope), slope

    def calc_observation(self) -> np.ndarray:
        """(k, 4f) H; no sensor depends on the rate."""
        without_rate = super().calc_observation()
        return np.hstack([without_rate, np.zeros((len(without_rate), self.freedom))])

    def apply(self, correction: np.ndarray) -> None:
        """Correct z, ż and force, and the rate of the force."""
        super().apply(correction)
        self.rate = self.rate + correction[3 * self.freedom :]

    def _change_force(self, h: float) -> None:
        """Add the integral of the force's rate over a step."""
        self.add_force(self.memory * (1.0 - np.exp(-h / self.memory)) * self.rate)
