"""Least squares: estimates with their covariance, and prediction errors of a linear model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vehicled.errors import RunError, UsageError


@dataclass(frozen=True)
class LeastSquaresEstimate:
    """An estimate of r parameters."""

    values: np.ndarray
    """(r,)"""
    covariance: np.ndarray
    """(r, r) σ̂² (WᵀW)⁻¹"""
    deviation: float
    """σ̂: standard deviation of the residuals, about one if rows were divided by their own standard
    deviations."""

    @property
    def deviations(self) -> np.ndarray:
        """(r,) standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def relative_deviations(self) -> np.ndarray:
        """(r,) shares of the values; infinite for a value of zero."""
        size = np.abs(self.values)
        relative: np.ndarray = np.divide(
            self.deviations, size, out=np.full(len(size), np.inf), where=size > 0.0
        )
        return relative


def compress(w: np.ndarray, forces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W (r + 1, r) and τ (r + 1,) with the same estimate and residual as all rows (rows, r), (rows,)."""
    (upper,) = scipy.linalg.qr(np.column_stack([w, forces]), mode="r")
    upper = upper[: w.shape[1] + 1]
    return upper[:, :-1], upper[:, -1]


def estimate(
    w: np.ndarray, forces: np.ndarray, deviations: np.ndarray | None = None, equations: int | None = None
) -> LeastSquaresEstimate:
    """Φ of least ‖τ − W Φ‖ with W (rows, r), τ (rows,).

    With standard deviations of τ (rows,) each row is divided by its own: this gives the best linear unbiased
    estimate.

    Solved by QR, columns scaled to one; W may be conditioned up to 1/ε. `equations`: their number before the
    rows were compressed. Raises UsageError for shapes that do not fit together and for deviations that are
    not positive, RunError if W does not determine the parameters.
    """
    rows, r = w.shape
    if forces.shape != (rows,):
        raise UsageError(f"forces: expected ({rows},) like the rows of W, got {forces.shape}")
    if rows < r:
        raise RunError(f"{rows} equations for {r} parameters: expected as many at least")
    if deviations is not None:
        if deviations.shape != (rows,) or not np.all(deviations > 0.0):
            raise UsageError(f"deviations: expected ({rows},) positive numbers, got {deviations.shape}")
        w, forces = w / deviations[:, None], forces / deviations
    size = np.linalg.norm(w, axis=0)
    if not np.all(size > 0.0):
        raise RunError(f"parameter {int(np.argmin(size))} of {r} has no influence on this motion")
    q, upper, order = scipy.linalg.qr(w / size, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(upper))
    rank = int(np.sum(pivots > np.finfo(float).eps * pivots[0]))
    if rank < r:
        raise RunError(f"{r} parameters cannot be determined: the equations have rank {rank}")
    inverse = scipy.linalg.solve_triangular(upper, np.eye(r))
    values, covariance = np.zeros(r), np.zeros((r, r))
    values[order] = inverse @ (q.T @ forces)
    values /= size
    residual = forces - w @ values
    spare = (equations or rows) - r
    variance = float(residual @ residual) / spare if spare else np.nan
    covariance[np.ix_(order, order)] = inverse @ inverse.T
    return LeastSquaresEstimate(
        values, variance * covariance / np.outer(size, size), float(np.sqrt(variance))
    )


def calc_prediction_error(predicted: np.ndarray, forces: np.ndarray) -> float:
    """Σ over the coordinates of ‖τ̂ − τ‖/‖τ‖, of (N, f) each: 0.05 per coordinate for 5 %.

    Coordinates without any force are left out.
    """
    size = np.linalg.norm(forces, axis=0)
    loaded = size > 0.0
    return float(np.sum(np.linalg.norm(predicted - forces, axis=0)[loaded] / size[loaded]))
