"""The backward pass of a fixed-interval smoother on error states: modified Bryson–Frazier.

It gives the estimates of Rauch, Tung and Striebel without an inverse of the covariance, which is singular
where states are known exactly or not yet estimated (Bierman, *Factorization Methods for Discrete Sequential
Estimation*, chapter 10). Adjoint variables λ (n,) and Λ (n, n) hold the information of later observations
about the state:

    e = −P λ,    Pˢ = P − P Λ P

with P of the filter, and e the smoothed less the filtered state. The filter's actions are processed backwards
in time.
"""

from __future__ import annotations

import numpy as np


class BackwardPass:
    """λ and Λ, from the end of a run backwards. The methods other than `smooth` are the entries of a `Tape`."""

    def __init__(self, size: int) -> None:
        """`size`: number of states."""
        self._vector, self._matrix = np.zeros(size), np.zeros((size, size))

    def propagate(self, transition: np.ndarray) -> None:
        """λ ← Fᵀλ, Λ ← FᵀΛF, with F (n, n). If the result is not finite, restart: the filter had diverged here."""
        self._vector = transition.T @ self._vector
        self._matrix = transition.T @ self._matrix @ transition
        if not np.isfinite(self._vector.sum() + self._matrix.sum()):
            self.restart()

    def update(
        self, innovation: np.ndarray, precision: np.ndarray, rows: np.ndarray, white: np.ndarray
    ) -> None:
        """λ ← (I − KH)ᵀλ − HᵀS⁻¹ν, Λ ← (I − KH)ᵀΛ(I − KH) + HᵀS⁻¹H.

        `innovation` and `precision` (m,), `rows` and `white` (m, n), decorrelated as in `Tape.update`.
        """
        rows = _decorrelate(precision, rows, white)
        gain = white * precision[:, None]
        self._vector = self._vector - rows.T @ (gain @ self._vector + precision * innovation)
        by_gain = gain @ self._matrix
        inner = by_gain @ gain.T
        inner.ravel()[:: len(inner) + 1] += precision
        half = rows.T @ (0.5 * inner @ rows - by_gain)
        self._matrix += half
        self._matrix += half.T

    def forget(self, i: int) -> None:
        """State i was reset here: later observations have no information about its value before."""
        self._vector[i] = 0.0
        self._matrix[i] = self._matrix[:, i] = 0.0

    def restart(self) -> None:
        """All states were reset here: later observations have no information about their values before."""
        self._vector[:] = 0.0
        self._matrix[:] = 0.0

    def smooth(self, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smoothed less filtered state (n,), and its covariance (n, n), from the filter's covariance (n, n)."""
        return -covariance @ self._vector, covariance - covariance @ self._matrix @ covariance


def _decorrelate(precision: np.ndarray, rows: np.ndarray, white: np.ndarray) -> np.ndarray:
    """Return L⁻¹H (m, n). As the noise is diagonal, L above the diagonal is D⁻¹(L⁻¹HP)Hᵀ."""
    if len(rows) == 1:
        return rows
    lower = (precision[:, None] * (white @ rows.T)).T
    found = rows.copy()
    for k in range(1, len(rows)):
        found[k] -= lower[k, :k] @ found[:k]
    return found
