"""Elimination of constraint forces from the equations of motion, by the motions that the constraints allow.

R* (n, f) is an orthonormal basis of the null space of Φ_q, from its singular value decomposition: R*ᵀ Φ_qᵀ λ
= 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.errors import RunError
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.problems import RANK_TOLERANCE


@dataclass(frozen=True)
class MotionBasis:
    """R* at one configuration."""

    matrix: np.ndarray
    """(n, f), orthonormal columns."""
    condition: float
    """Ratio of the largest singular value of Φ_q to the smallest one within its rank."""


def calc_motion_basis(mechanism: Mechanism, limit: float = 1e6) -> MotionBasis:
    """Basis of the motions that the constraints allow at the present q.

    Raises RunError at or near a singular position, where the mechanism has more degrees of freedom than elsewhere:
    there the condition is above the limit.
    """
    _, singular, rows = np.linalg.svd(mechanism.calc_jacobian())
    rank = len(mechanism.q) - len(mechanism.independent)
    if rank == 0:
        return MotionBasis(np.eye(len(mechanism.q)), 1.0)
    smallest = singular[rank - 1] if rank <= len(singular) else 0.0
    condition = float(singular[0] / smallest) if smallest > 0.0 else np.inf
    if condition > limit:
        raise RunError(
            f"at t = {mechanism.t:.6g} s the condition of the constraints is {condition:.3g}, above {limit:.3g}: "
            "the mechanism is near a singular position"
        )
    if len(singular) > rank and singular[rank] > RANK_TOLERANCE * singular[0]:
        raise RunError(
            f"at t = {mechanism.t:.6g} s the constraints leave fewer than {len(mechanism.independent)} "
            "degrees of freedom: they are violated or contradictory"
        )
    return MotionBasis(rows[rank:].T, condition)
