"""Covariances that rounding has cost their definiteness."""

from __future__ import annotations

import numpy as np

_FLOOR = 1e-12
"""Share of its scale that a repaired direction keeps."""


def factorise(p: np.ndarray) -> tuple[np.ndarray, bool]:
    """Lower L with L Lᵀ = P, and whether P (n, n) had to be repaired for it.

    Directions in which P is not positive, as seen in units of each state's own deviation, get a small variance. What
    is not finite has no root: NaN.
    """
    if not np.isfinite(p).all():
        return np.full_like(p, np.nan), True
    try:
        return np.linalg.cholesky(p), False
    except np.linalg.LinAlgError:
        # A variance that has become negative by a difference of larger ones is still known to about its size.
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
    """P (n, n), symmetric and definite, and whether it had to be repaired for that."""
    p = 0.5 * (p + p.T)
    root, repaired = factorise(p)
    return (root @ root.T, True) if repaired else (p, False)
