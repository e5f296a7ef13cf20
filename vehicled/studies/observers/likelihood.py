"""Plant noise adjusted from the innovations: maximum likelihood over a sliding window.

In addition to the filter, derivatives of its estimate and covariance are calculated with respect to the
logarithms θ of the noise's densities (Åström, *Maximum likelihood and prediction error methods*, Automatica 16,
1980). They give the derivative of every innovation's likelihood with respect to θ; those of the last innovations
are kept, and θ follows by Fisher scoring.

Adaptive noise of multibody observers is from Rodríguez, Sanjurjo, Pastorino and Naya (Sensors 2021, 21, 5241).
There the forces' noise of a step is the mean, over a window of some fifty readings, of the squared corrections and
of the change of the covariance without its transition. Here the likelihood itself is maximised, which holds for
noise on any state, at any rate of the readings.
"""

from __future__ import annotations

import numpy as np

from vehicled.filter.error_state import StateUpdate
from vehicled.studies.observers.noise import WhiteNoise

WINDOW = 1000
"""Innovations that the window holds, one for each component of a reading."""
_PRIOR = 1.0
"""Standard deviation of θ about its value at the start, before any reading."""
REACH = 14.0
"""Default of the largest deviation of θ from its value at the start."""
_PACE = 0.5
"""Largest change of θ in one step."""
_FRESH = 0.01
"""Share of new innovations in the window at which θ is adjusted."""


class LikelihoodWindow:
    """Likelihood of m logarithms θ, from the last innovations.

    For a normalised innovation e with its derivative g, and the derivative ρ of the logarithm of its
    variance, all with respect to θ and found at θ₀, the likelihood at θ is that of (e + g (θ − θ₀)) exp(−½ ρ
    (θ − θ₀)).
    """

    def __init__(self, start: np.ndarray, length: int = WINDOW, reach: np.ndarray | None = None) -> None:
        """`start`: (m,) θ; `length`: innovations; `reach`: (m,) largest deviation of θ from the start."""
        m = len(start)
        self._reach = np.full(m, REACH) if reach is None else reach
        self.logs = np.array(start, dtype=float)
        self._start, self._count, self._fresh = self.logs.copy(), 0, 0
        self._at, self._rho, self._g = (np.zeros((length, m)) for _ in range(3))
        self._e = np.zeros(length)

    def add(self, e: np.ndarray, rho: np.ndarray, g: np.ndarray) -> None:
        """Add the terms e, ρ, g of a reading: (k,), (k, m), (k, m)."""
        for row in zip(e, rho, g, strict=True):
            place = self._count % len(self._e)
            self._e[place], self._rho[place], self._g[place] = row
            self._at[place] = self.logs
            self._count += 1
        self._fresh += len(e)

    def improve(self) -> None:
        """One step of θ towards the largest likelihood, if enough innovations in the window are new."""
        if self._fresh < _FRESH * min(self._count, len(self._e)):
            return
        self._fresh = 0
        score, information = self.calc_score()
        information[np.diag_indices_from(information)] += 1.0 / _PRIOR**2
        score -= (self.logs - self._start) / _PRIOR**2
        change = np.clip(np.linalg.solve(information, score), -_PACE, _PACE)
        self.logs = np.clip(self.logs + change, self._start - self._reach, self._start + self._reach)

    def calc_score(self) -> tuple[np.ndarray, np.ndarray]:
        """(m,) derivative of the logarithm of the window's likelihood at θ, and Fisher's information (m, m)."""
        used = slice(min(self._count, len(self._e)))
        rho, g, away = self._rho[used], self._g[used], self.logs - self._at[used]
        shrink = np.exp(-0.5 * np.einsum("im,im->i", rho, away))
        e = (self._e[used] + np.einsum("im,im->i", g, away)) * shrink
        slope = shrink[:, None] * g
        score = 0.5 * (e * e - 1.0) @ rho - e @ slope
        return score, 0.5 * rho.T @ rho + slope.T @ slope


class Sensitivities:
    """Derivatives of a filter's covariance and state with respect to m logarithms θ, and their window."""

    def __init__(
        self, start: np.ndarray, states: int, window: int = WINDOW, reach: np.ndarray | None = None
    ) -> None:
        """`start`, `reach` as in `LikelihoodWindow`; `states`: n of the filter; `window`: innovations."""
        m = len(start)
        self.window = LikelihoodWindow(start, window, reach)
        self._covariance_by = np.zeros((m, states, states))
        self._state_by = np.zeros((states, m))

    def predict(
        self, transition: np.ndarray, covariance_by: np.ndarray, state_by: np.ndarray | None = None
    ) -> None:
        """Propagate the derivatives through a step with F (n, n).

        `covariance_by` (m, n, n), `state_by` (n, m): derivatives of the new covariance and state for constant
        old ones; None if the new state follows from the old one only.
        """
        self._covariance_by = transition @ self._covariance_by @ transition.T + covariance_by
        self._state_by = transition @ self._state_by
        if state_by is not None:
            self._state_by = self._state_by + state_by

    def update(self, update: StateUpdate) -> None:
        """Add an update to the window, adjust θ to it, and propagate the derivatives through the update."""
        sensitivity, gain = update.jacobian, update.gain
        left = self._covariance_by @ sensitivity.T
        root = np.linalg.cholesky(update.covariance)
        # The readings one after the other, each given the preceding ones.
        inverse = np.linalg.inv(root)
        e = inverse @ update.innovation
        growth = inverse @ (sensitivity @ left) @ inverse.T
        g = -inverse @ sensitivity @ self._state_by - (np.tril(growth, -1) @ e).T
        self.window.add(e, np.diagonal(growth, axis1=1, axis2=2).T, g)
        self.window.improve()
        rest = np.eye(len(gain)) - gain @ sensitivity
        weighed = inverse.T @ e
        self._state_by = rest @ (self._state_by + (left @ weighed).T)
        self._covariance_by = rest @ self._covariance_by @ rest.T


class AdaptedNoise(WhiteNoise):
    """White noise with densities adapted to the innovations."""

    def __init__(
        self,
        units: np.ndarray,
        densities: np.ndarray,
        base: np.ndarray | None = None,
        window: int = WINDOW,
    ) -> None:
        """Uⱼ (m, n, n); dⱼ (m,) at the start; U₀ (n, n), which is constant; `window`: innovations."""
        super().__init__(units, densities, base)
        self._sensitivities = Sensitivities(np.log(self.densities), units.shape[-1], window)

    @property
    def window(self) -> LikelihoodWindow:
        """The last innovations."""
        return self._sensitivities.window

    def predict(self, transition: np.ndarray) -> None:
        """Propagate the derivatives of covariance and state with respect to the densities through a step."""
        self._sensitivities.predict(transition, self.densities[:, None, None] * self.steps)

    def update(self, update: StateUpdate) -> None:
        """Add an update to the window, and adjust the densities to it."""
        self._sensitivities.update(update)
        self.densities = np.exp(self.window.logs)
