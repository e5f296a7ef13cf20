"""Reduced models of the parameters that contribute most.

A base parameter's contribution is the share of the forces that its prior value causes: ζ_i = ‖W_i Φ_i‖/‖τ‖.
Parameters with the least contributions are dropped and the others estimated again: the model is less exact
but better conditioned. It is validated by its prediction of a motion to which it was not fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.errors import RunError
from vehicled.identification.least_squares import (
    LeastSquaresEstimate,
    calc_prediction_error,
    compress,
    estimate,
)


def calc_contributions(w: np.ndarray, prior: np.ndarray, forces: np.ndarray) -> np.ndarray:
    """(r,) ζ of base parameters with prior values (r,), W (rows, r), τ (rows,), as shares of one."""
    shares: np.ndarray = np.linalg.norm(w, axis=0) * np.abs(prior) / np.linalg.norm(forces)
    return shares


def order_by_contribution(contributions: np.ndarray) -> np.ndarray:
    """(r,) indices, the largest first."""
    return np.argsort(-contributions, kind="stable")


@dataclass(frozen=True)
class Equations:
    """W (N, f, r) and τ (N, f) of a motion, an equation for each coordinate."""

    w: np.ndarray
    forces: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """W (N f, r), sample after sample."""
        return self.w.reshape(-1, self.w.shape[-1])


@dataclass(frozen=True)
class ReducedModel:
    """A model of some base parameters."""

    kept: np.ndarray
    """(k,) indices of base parameters, the largest contribution first."""
    estimate: LeastSquaresEstimate
    """Estimate of the kept parameters, in their order."""
    condition: float
    """Condition of W with their columns, weighted if the estimate is."""
    fitted_error: float
    """Prediction error (`calc_prediction_error`) on the motion of the fit; `validation_error`: on another
    motion."""
    validation_error: float


def reduce_models(
    order: np.ndarray,
    counts: Sequence[int],
    fitted: Equations,
    validation: Equations,
    deviations: np.ndarray | None = None,
) -> list[ReducedModel]:
    """A model with the first parameters of `order`, for each of the `counts`.

    Each is fitted to one motion and validated on another.

    `deviations` (f,): standard deviations of the forces on each coordinate, by which they are divided. Counts
    whose parameters the motion does not determine are left out.
    """
    models = []
    size = np.ones(fitted.forces.shape[1]) if deviations is None else deviations
    weighted = Equations(fitted.w[..., order] / size[:, None], fitted.forces / size)
    rows, forces = compress(weighted.rows, weighted.forces.ravel())
    for count in counts:
        kept, w = order[:count], rows[:, :count]
        try:
            found = estimate(w, forces, equations=fitted.forces.size)
        except RunError:
            continue
        errors = [
            calc_prediction_error(e.w[..., kept] @ found.values, e.forces) for e in (fitted, validation)
        ]
        models.append(ReducedModel(kept, found, float(np.linalg.cond(w)), errors[0], errors[1]))
    return models


def calc_overlap(first: np.ndarray, second: np.ndarray, count: int) -> float:
    """Share of the first `count` indices of one order that are among the first `count` of another."""
    return len(set(first[:count]) & set(second[:count])) / count
