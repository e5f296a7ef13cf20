"""The shaping filter of errorEKF_SFE, whose memory is adapted to the innovations as its densities are.

White noise drives the forces and, in addition, coloured noise: a rate that is driven by white noise and
decays with a memory τ. Both the transition and the noise of a step depend on τ, so that the derivatives of
the filter's covariance and state have additional terms: dP⁻ = F dP Fᵀ + dF P Fᵀ + F P dFᵀ + dQ and dx⁻ = F dx
+ dF x. In dF x only the rate matters, as dF acts on the rate only. dF and dQ come from the Fréchet derivative
of Van Loan's matrix exponential.

The published shaping filter (Rodríguez, Sanjurjo and Naya; Sensors 2025, 25, 2218) finds the share of the
last step's noise that is kept from the autocorrelation of the corrections. Here the likelihood of the
innovations is maximised over densities and memory together.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import expm_frechet

from vehicled.filter.error_state import StateUpdate
from vehicled.studies.observers.error_state import ErrorStateObserver
from vehicled.studies.observers.likelihood import REACH, WINDOW, LikelihoodWindow, Sensitivities
from vehicled.studies.observers.linkage_errors import ShapedForceLinkageErrors
from vehicled.studies.observers.noise import discretise, make_units

_MEMORY_REACH = math.log(30.0)
"""Largest deviation of the memory's logarithm from its start: with less memory than a step the noise is
white, with more than the window it is a drift."""


class ShapedNoise:
    """Plant noise of (z, ż, z̈, rate of z̈), f coordinates each (see `PlantNoise`).

    θ are the logarithms of the densities of the white part (f), of those of the coloured part at low frequencies (f),
    and of the memory.
    """

    def __init__(self, white: np.ndarray, coloured: np.ndarray, memory: float, window: int = WINDOW) -> None:
        """Densities (f,) of the forces' white and coloured noise, the latter at low frequencies; memory, s."""
        self._freedom = f = len(white)
        self._units = make_units(4 * f, range(2 * f, 4 * f))
        self._fading = np.zeros((4 * f, 4 * f))
        self._fading[3 * f :, 3 * f :] = np.eye(f)
        start = np.log(np.concatenate([white, coloured, [memory]]))
        reach = np.append(np.full(2 * f, REACH), _MEMORY_REACH)
        self._sensitivities = Sensitivities(start, 4 * f, window, reach)
        self._covariance, self._rate = np.zeros((4 * f, 4 * f)), np.zeros(f)
        self._take_logs()

    def _take_logs(self) -> None:
        f, values = self._freedom, np.exp(self.window.logs)
        self.memory = float(values[-1])
        """s"""
        self.densities = values[:-1] / np.repeat([1.0, self.memory**2], f)
        """(2f,) densities of the white noise on the forces, and of that on their rates."""

    @property
    def window(self) -> LikelihoodWindow:
        """The last innovations."""
        return self._sensitivities.window

    def begin_step(self, covariance: np.ndarray, rate: np.ndarray) -> None:
        """Store the covariance (4f, 4f) of the filter and the rate (f,) of its simulation before the next step."""
        self._covariance, self._rate = covariance, rate

    def calc_step(self, slope: np.ndarray, h: float) -> np.ndarray:
        """(4f, 4f) covariance that a step of h (s) adds along a slope with the present memory."""
        steps = discretise(slope, self._units, h)
        self._by_density = self.densities[:, None, None] * steps
        self._slope, self._h = slope, h
        total: np.ndarray = self._by_density.sum(axis=0)
        return total

    def predict(self, transition: np.ndarray) -> None:
        """Propagate the derivatives of covariance and state through the step of the last `calc_step`."""
        f, n = self._freedom, len(transition)
        transition_by, noise_by = self._differentiate_by_memory()
        grown = transition_by @ self._covariance @ transition.T
        # With less memory, the rate needs more noise for the same density at low frequencies.
        by_memory = grown + grown.T + noise_by - 2.0 * self._by_density[f:].sum(axis=0)
        state_by = np.zeros((n, 2 * f + 1))
        state_by[:, -1] = transition_by[:, 3 * f :] @ self._rate
        self._sensitivities.predict(transition, np.concatenate([self._by_density, by_memory[None]]), state_by)

    def _differentiate_by_memory(self) -> tuple[np.ndarray, np.ndarray]:
        """dF and dQ (4f, 4f) by the logarithm of the memory, at constant densities of forces and rates."""
        n, h = len(self._slope), self._h
        density = np.tensordot(self.densities, self._units, 1)
        slope_by, none = self._fading / self.memory, np.zeros((n, n))
        block = np.block([[-self._slope, density], [none, self._slope.T]])
        grown, grown_by = expm_frechet(h * block, h * np.block([[-slope_by, none], [none, slope_by.T]]))
        transition, transition_by = grown[n:, n:].T, grown_by[n:, n:].T
        noise_by = transition_by @ grown[:n, n:] + transition @ grown_by[:n, n:]
        return transition_by, 0.5 * (noise_by + noise_by.T)

    def update(self, update: StateUpdate) -> None:
        """Add an update to the window, and adjust densities and memory to it."""
        self._sensitivities.update(update)
        self._take_logs()


class ShapedForceObserver(ErrorStateObserver):
    """errorEKF_SFE: its model uses the memory found by its noise."""

    def __init__(
        self, model: ShapedForceLinkageErrors, noise: ShapedNoise, h: float, covariance: np.ndarray
    ) -> None:
        """`noise`: the model's; `h`: s; `covariance`: (4f, 4f) at the start."""
        super().__init__(model, h, covariance)
        self._shaped, self.noise = model, noise

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        """As `Observer.step`; the memory found from the readings is used in the next step."""
        self._shaped.memory = self.noise.memory
        self.noise.begin_step(self.covariance, self._shaped.rate)
        return super().step(readings)
