"""Covariances that rounding has made indefinite."""

from __future__ import annotations

import numpy as np

_FLOOR = 1e-12
"""Variance of a repaired direction, as a share of its scale."""


def factorise(p: np.ndarray) -> tuple[np.ndarray, bool]:
    """Lower L with L Lᵀ = P, and whether P (n, n) had to be repaired for it.

    Directions in which P, scaled by each state's standard deviation, is not positive get a small variance.
    The root of a P that is not finite is NaN.
    """
    if not np.isfinite(p).all():
        return np.full_like(p, np.nan), True
    try:
        return np.linalg.cholesky(p), False
    except np.linalg.LinAlgError:
        # The size of a variance that has become negative as a difference of larger ones is still about right.
        size = np.abs(p.diagonal())
        scale = np.sqrt(np.maximum(size, _FLOOR * size.max()))
        values, vectors = np.linalg.eigh(p / np.outer(scale, scale))
        whole = (vectors * np.maximum(values, _FLOOR * values.max())) @ vectors.T
        return scale[:, None] * np.linalg.cholesky(whole), True


def is_definite(p: np.ndarray) -> bool:
    """Whether the symmetric part of P (n, n) is positive definite."""
    try:
        np.linalg.cholesky(0.5 * (p + p.T))
    except np.linalg.LinAlgError:
        return False
    return True


def repair(p: np.ndarray) -> tuple[np.ndarray, bool]:
    """P (n, n) made symmetric and positive definite, and whether it had to be repaired."""
    p = 0.5 * (p + p.T)
    root, repaired = factorise(p)
    return (root @ root.T, True) if repaired else (p, False)
