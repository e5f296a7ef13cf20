"""Projection of a state estimate and its covariance onto the constraints.

The nearest state in the metric of the weights, and the covariance of its error, from which the part that violates
the constraints is removed: P ← N P Nᵀ with N = 1 − W⁻¹Jᵀ(J W⁻¹ Jᵀ)⁺J. With the weights P⁻¹ this is the estimate of
least variance that meets the constraints (Simon and Chia, "Kalman Filtering with State Equality Constraints", 2002,
section III).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.problems import Solution


def project_positions(
    mechanism: Mechanism, weights: np.ndarray | None = None, accuracy: float | None = None, limit: int = 50
) -> Solution:
    """Move q to the nearest place with |Φ(q, t)| ≤ `accuracy` (largest component, as Φ is scaled).

    Default of `accuracy`: 1e-10 in powers of the mechanism's size.

    `weights`: (n,) or (n, n) W of the distance (q − q₀)ᵀ W (q − q₀), positive (definite); default: ones. By
    Gauss–Newton, to first order in the curvature of the constraints. An angle that ends half a turn away
    counts as a residual of π. Velocities do not change. Raises UsageError for weights that are no metric.
    """
    enough = 1e-10 * mechanism.constraint_units if accuracy is None else accuracy
    metric = np.ones(len(mechanism.q)) if weights is None else weights
    solution = problems.assemble(mechanism, mechanism.q.copy(), weights=metric, limit=limit, accuracy=enough)
    if solution.converged and mechanism.find_turned_angle() is not None:
        return replace(solution, converged=False, residual=np.pi)
    return solution


def project_velocities(mechanism: Mechanism, weights: np.ndarray | None = None) -> None:
    """Move q̇ to the nearest that meets Φ_q q̇ + Φ_t = 0 at the present q; `weights` (n,) or (n, n) of q̇ − q̇₀.

    The problem is linear, so the result is exact. Raises UsageError for weights that are no metric.
    """
    root, units = problems.inverse_root(weights, len(mechanism.q)), mechanism.constraint_units
    jacobian = mechanism.calc_jacobian() / units[:, None]
    violation = jacobian @ mechanism.qd + mechanism.calc_drift() / units
    mechanism.qd -= root @ problems.least_squares(jacobian @ root, violation)


def calc_projector(mechanism: Mechanism, weights: np.ndarray | None = None) -> np.ndarray:
    """N (n, n), which removes from an error of q or q̇ the part that violates the constraints.

    At the present q: Φ_q N = 0, N N = N. Raises UsageError for weights that are no metric.
    """
    n = len(mechanism.q)
    root = problems.inverse_root(weights, n)
    jacobian = mechanism.calc_jacobian() / mechanism.constraint_units[:, None]
    projector: np.ndarray = np.eye(n) - root @ problems.least_squares(jacobian @ root, jacobian)
    return projector


def calc_projected_covariance(
    mechanism: Mechanism, covariance: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """(n, n) covariance of q, or of q̇, after projection with these weights: N P Nᵀ, which is symmetric.

    For that of z or ż, apply `CoordinateMaps.calc_independent_covariance` to it. Raises UsageError for
    weights that are no metric.
    """
    projector = calc_projector(mechanism, weights)
    projected: np.ndarray = projector @ covariance @ projector.T
    return projected
