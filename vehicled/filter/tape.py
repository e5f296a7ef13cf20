"""What a smoother needs of a filter's run, in the order in which it happens: an interface."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Tape(Protocol):
    """Takes all that an error-state filter does to its covariance P and its correction x.

    Arrays are valid during the call only. Noise that is added to P needs no entry.
    """

    def propagate(self, transition: np.ndarray) -> None:
        """P ← F P Fᵀ + Q, with F (n, n)."""

    def update(
        self, innovation: np.ndarray, precision: np.ndarray, rows: np.ndarray, white: np.ndarray
    ) -> None:
        """An observation of m components is about to correct x and P.

        With S = L D Lᵀ: `innovation` L⁻¹ν (m,), `precision` D⁻¹ (m,), `rows` H (m, n), `white` L⁻¹HP (m, n).
        As a whole, where considered states have had less of the gain: what they lack of it counts as noise that is
        added to P afterwards, with which P is that of an optimal filter. Smoothers need that.
        """

    def forget(self, i: int) -> None:
        """State i is another one from now on, with no correlation with what was before."""

    def restart(self) -> None:
        """All states are others from now on, as by `forget`."""
