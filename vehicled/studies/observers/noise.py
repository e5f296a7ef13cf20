"""Plant noise: covariance that a step adds to that of a filter on a mechanism.

White noise of a spectral density is discretised along the linear slope of the state (Van Loan, *Computing integrals
involving the matrix exponential*, IEEE Transactions on Automatic Control 23(3), 1978).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from scipy.linalg import expm

from vehicled.filter.error_state import StateUpdate


class PlantNoise(Protocol):
    """Interface of the noise of any observer on mechanisms; an object belongs to one observer only."""

    def calc_step(self, slope: np.ndarray, h: float) -> np.ndarray:
        """(n, n) covariance that a step of h (s) adds to a state whose linear slope is (n, n)."""

    def predict(self, transition: np.ndarray) -> None:
        """Propagate by F (n, n): the covariance P has become F P Fᵀ plus the last result of `calc_step`."""

    def update(self, update: StateUpdate) -> None:
        """Take an update of covariance and state into account."""


class StepNoise:
    """The same covariance in every step, for any slope."""

    def __init__(self, covariance: np.ndarray) -> None:
        """`covariance` (n, n) that every step adds."""
        self._covariance = np.array(covariance, dtype=float)

    def calc_step(self, slope: np.ndarray, h: float) -> np.ndarray:
        """(n, n) the given covariance, for any slope and step."""
        return self._covariance

    def predict(self, transition: np.ndarray) -> None:
        """Nothing to do: the noise is fixed."""
        pass

    def update(self, update: StateUpdate) -> None:
        """Nothing to do: the noise is fixed."""
        pass


def as_plant_noise(noise: np.ndarray | PlantNoise) -> PlantNoise:
    """Convert an array (n, n), the covariance added in every step; plant noise is returned as it is."""
    return StepNoise(noise) if isinstance(noise, np.ndarray) else noise


class WhiteNoise(StepNoise):
    """White noise with the spectral density U₀ + Σ dⱼ Uⱼ, discretised along the slope of each step."""

    def __init__(self, units: np.ndarray, densities: np.ndarray, base: np.ndarray | None = None) -> None:
        """Uⱼ (m, n, n), dⱼ (m,) and U₀ (n, n), by default zero."""
        self.densities = np.array(densities, dtype=float)
        base = np.zeros(units.shape[1:]) if base is None else base
        self._units = np.concatenate([base[None], units])
        self._slope: np.ndarray | None = None
        self._base, self.steps = self._units[0], self._units[1:]
        """Covariance added by U₀ over the step, and by each Uⱼ."""

    def calc_step(self, slope: np.ndarray, h: float) -> np.ndarray:
        """(n, n) ∫ exp(Aτ) (U₀ + Σ dⱼ Uⱼ) exp(Aᵀτ) dτ over h (s), with the slope A."""
        # The slope of free masses is always the same array.
        if slope is not self._slope:
            self._slope, steps = slope, discretise(slope, self._units, h)
            self._base, self.steps = steps[0], steps[1:]
        total: np.ndarray = self._base + (self.densities[:, None, None] * self.steps).sum(axis=0)
        return total


def discretise(slope: np.ndarray, density: np.ndarray, h: float) -> np.ndarray:
    """(…, n, n) ∫ e^(As) U e^(Aᵀs) ds over a step of h (s); slope A (n, n), spectral densities U (…, n, n)."""
    n = len(slope)
    block = np.zeros((*density.shape[:-2], 2 * n, 2 * n))
    block[..., :n, :n] = -slope
    block[..., :n, n:] = density
    block[..., n:, n:] = slope.T
    grown = expm(block * h)
    added = grown[..., n:, n:].swapaxes(-1, -2) @ grown[..., :n, n:]
    return 0.5 * (added + added.swapaxes(-1, -2))


def calc_free_slope(freedom: int) -> np.ndarray:
    """(2f, 2f) slope of z, ż for free masses: no force depends on z or ż."""
    return np.kron(np.eye(2, k=1), np.eye(freedom))


def make_units(states: int, driven: Iterable[int]) -> np.ndarray:
    """(m, states, states) unit densities, one for each of the m `driven` states."""
    return np.array([np.diag(np.eye(states)[k]) for k in driven])
