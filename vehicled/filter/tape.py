"""Interface that records a filter's run for a smoother, in order of time."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Tape(Protocol):
    """Receives all changes that an error-state filter makes to its covariance P and its correction x.

    Arrays are valid during the call only. Noise that is added to P needs no entry.
    """

    def propagate(self, transition: np.ndarray) -> None:
        """P ← F P Fᵀ + Q, with F (n, n)."""

    def update(
        self, innovation: np.ndarray, precision: np.ndarray, rows: np.ndarray, white: np.ndarray
    ) -> None:
        """An observation of m components is about to correct x and P.

        With S = L D Lᵀ: `innovation` L⁻¹ν (m,), `precision` D⁻¹ (m,), `rows` H (m, n), `white` L⁻¹HP (m, n).
        The whole update is given, even if considered states have got less of the gain: the difference counts
        as noise that is added to P afterwards, with which P is that of an optimal filter. Smoothers need
        this.
        """

    def forget(self, i: int) -> None:
        """State i is replaced by a new one, with no correlation with the past."""

    def restart(self) -> None:
        """All states are replaced by new ones, as by `forget`."""
