"""Physically consistent estimates: positive masses, and inertia matrices that a body can have.

Such matrices are positive definite and satisfy the triangle inequality.

Mass and inertia are consistent if and only if the matrix μ of the moments of mass of each body is positive
definite (Wensing, Kim and Slotine, "Linear Matrix Inequalities for Physically-Consistent Inertial Parameter
Identification", 2018, section III). μ is linear in the parameters, so that least squares within these bounds
are convex: a barrier −log det μ keeps the estimate inside, and Newton's method follows the minimum while the
barrier's weight is reduced (Boyd and Vandenberghe, *Convex Optimization*, 2004, section 11.3). The optimum is
unique and is found from any start. Stiffness, damping and friction are kept positive in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.linalg

from vehicled.errors import RunError, UsageError
from vehicled.identification import parameters
from vehicled.identification.least_squares import compress

_FLOOR = 1e-3
"""Least eigenvalue of μ at the start, as a share of its trace: priors may lie on the boundary (a slender rod, a
planar body) or beyond."""
_GAP = 1e-4
"""Largest excess of the sum of squares over its minimum, as a share of what a prior wrong by one unit adds.

No parameter is farther than √(2e-4) = 0.014 of its unit from the optimum. A smaller gap ends nearer to the
boundary: with 1e-6 the least eigenvalue of μ is some 1e-7 to 1e-6 of the largest, about the rounding of the
six digits in a file, so that the written body could be impossible. With 1e-4 it is 3e-6 and more.
"""
_ROUNDING = 1e-10
"""Least value of that excess, as a share of the sum itself."""
_SETTLED = 1e-6
"""Newton's method ends when its expected decrease is below this, in units of the barrier."""
_LOWERED = 20.0
"""Factor by which the barrier's weight is reduced in each step."""


def find_infeasible(values: np.ndarray, sizes: Sequence[int]) -> list[int]:
    """Bodies, by number, whose parameters are not physically consistent.

    `values` (p,) with the bodies' parameters first; `sizes`: the elements of each body (`Regressor.sizes`).
    """
    bad = []
    for number, (span, size) in enumerate(zip(_spans(sizes), sizes, strict=True)):
        moments = parameters.to_moments(values[span], size)
        scale = _calc_scale(moments)
        eigenvalues = np.linalg.eigvalsh(moments / np.outer(scale, scale))
        if eigenvalues[0] < -1e-9 * np.abs(eigenvalues).max():
            bad.append(number)
    return bad


def _spans(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum([0, *(len(parameters.get_kinds(s)) for s in sizes)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def _calc_scale(moments: np.ndarray) -> np.ndarray:
    """(k,) 1 and a length; with it, mass and second moments become of equal size."""
    mass, second = abs(moments[0, 0]), abs(np.trace(moments[1:, 1:]))
    length = np.sqrt(second / mass) if mass > 0.0 and second > 0.0 else 1.0
    return np.array([1.0, *[length] * (len(moments) - 1)])


@dataclass(frozen=True)
class FeasibleEstimate:
    """An estimate of all p parameters, not of base parameters."""

    values: np.ndarray
    """(p,)"""
    deviation: float
    """Root mean square of the residuals, in units of the deviations given."""


@dataclass(frozen=True)
class _Cone:
    """One matrix that must stay positive definite: Σ x_i basis_i over a span of the parameters, scaled."""

    span: slice
    basis: np.ndarray
    """(parameters, k, k)"""
    start: np.ndarray
    """(parameters,) in the interior."""

    def calc(self, x: np.ndarray) -> float:
        """log det; −∞ outside."""
        sign, value = np.linalg.slogdet(matrix := np.tensordot(x[self.span], self.basis, axes=1))
        return float(value) if sign > 0 and np.linalg.eigvalsh(matrix)[0] > 0.0 else -np.inf

    def calc_slopes(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of −log det."""
        inverse = np.linalg.inv(np.tensordot(x[self.span], self.basis, axes=1))
        turned = inverse @ self.basis
        return -np.trace(turned, axis1=1, axis2=2), np.einsum("iab,jba->ij", turned, turned)


def _body_cone(span: slice, prior: np.ndarray, size: int) -> tuple[_Cone, np.ndarray]:
    """The cone of a body, and the units of its parameters."""
    moments = parameters.to_moments(prior, size)
    if moments[0, 0] <= 0.0:
        raise UsageError(f"prior: expected a positive mass of every body, got {moments[0, 0]:.6g} kg")
    scale = _calc_scale(moments)
    unit = np.outer(scale, scale) * moments[0, 0]
    basis = parameters.calc_moment_basis(size)
    units = np.abs(basis * unit).max(axis=(1, 2)) / np.abs(basis).max(axis=(1, 2))
    eigenvalues, vectors = np.linalg.eigh(moments / unit)
    inside = vectors @ np.diag(np.maximum(eigenvalues, _FLOOR * np.abs(eigenvalues).sum())) @ vectors.T
    start = parameters.to_parameters(inside * unit) / units
    return _Cone(span, basis * units[:, None, None] / unit, start), units


def calc_units(prior: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """(p,) units of the parameters, in which all standard deviations of the prior are equal.

    Arguments and errors as of `estimate_feasible`.
    """
    spans = _spans(sizes)
    bodies = [_body_cone(span, prior[span], k)[1] for span, k in zip(spans, sizes, strict=True)]
    return np.concatenate([*bodies, prior[spans[-1].stop if spans else 0 :]])


def estimate_feasible(
    w: np.ndarray,
    forces: np.ndarray,
    sizes: Sequence[int],
    prior: np.ndarray,
    deviations: np.ndarray | None = None,
    prior_weight: float = 1e-3,
) -> FeasibleEstimate:
    """Feasible Φ (p,) of least ‖(τ − W Φ)/σ‖² + ‖weight (Φ − prior)/unit‖².

    W (rows, p) with all parameters, those of the bodies first, and σ (rows,) or ones; `sizes` as for
    `find_infeasible`. The prior, of positive masses, determines what W leaves undetermined. `prior_weight` is the
    inverse of its standard deviation, relative to the body's mass and size, or to a further parameter itself. Raises
    UsageError for shapes that do not fit together, and for priors or a weight that are not positive.
    """
    rows, p = w.shape
    spans = _spans(sizes)
    inertial = spans[-1].stop if spans else 0
    if forces.shape != (rows,) or prior.shape != (p,) or inertial > p:
        raise UsageError(
            f"expected forces ({rows},) and a prior ({p},), got {forces.shape} and {prior.shape}"
        )
    if np.any(prior[inertial:] <= 0.0) or prior_weight <= 0.0:
        raise UsageError(
            "expected positive priors of stiffness, damping and friction, and a positive weight of the prior"
        )
    made = [_body_cone(span, prior[span], k) for span, k in zip(spans, sizes, strict=True)]
    cones = [cone for cone, _ in made]
    units = np.concatenate([*(u for _, u in made), prior[inertial:]])
    cones += [_Cone(slice(k, k + 1), np.ones((1, 1, 1)), np.ones(1)) for k in range(inertial, p)]
    weight = np.ones(rows) if deviations is None else 1.0 / deviations
    squares = np.column_stack([w * weight[:, None] * units, forces * weight])
    squares = np.vstack([squares, np.column_stack([prior_weight * np.eye(p), prior_weight * prior / units])])
    x = _follow_barrier(*compress(squares[:, :p], squares[:, p]), cones, _GAP * prior_weight**2)
    values = x * units
    left = (forces - w @ values) * weight
    return FeasibleEstimate(values, float(np.sqrt(left @ left / rows)))


def _follow_barrier(matrix: np.ndarray, target: np.ndarray, cones: Sequence[_Cone], gap: float) -> np.ndarray:
    """x (p,) in all cones, with ½‖matrix x − target‖² at most the gap above its minimum in the cones."""
    x = np.concatenate([cone.start for cone in cones])
    order = float(sum(cone.basis.shape[1] for cone in cones))

    def squares() -> float:
        return 0.5 * float(np.sum((matrix @ x - target) ** 2))

    t = order / max(squares(), 1.0)
    while True:
        _centre(x, t, matrix, target, cones)
        if order / t <= max(gap, _ROUNDING * squares()):
            return x
        t *= _LOWERED


def _centre(
    x: np.ndarray,
    t: float,
    matrix: np.ndarray,
    target: np.ndarray,
    cones: Sequence[_Cone],
    limit: int = 200,
) -> None:
    """Newton's method, in place, on t ½‖matrix x − target‖² − Σ log det."""
    for _ in range(limit):
        pull = t * (matrix.T @ (matrix @ x - target))
        gradient, hessian = pull.copy(), t * (matrix.T @ matrix)
        for cone in cones:
            slope, bend = cone.calc_slopes(x)
            gradient[cone.span] += slope
            hessian[cone.span][:, cone.span] += bend
        # Scaled by its diagonal: near the boundary the barrier's curvature is far larger than that of the
        # squares. The Hessian is increased by its rounding error, or it may not be positive definite.
        size = np.sqrt(np.diag(hessian))
        rounding = len(size) * np.finfo(float).eps * np.eye(len(size))
        factor = scipy.linalg.cho_factor(hessian / np.outer(size, size) + rounding)
        step = -scipy.linalg.cho_solve(factor, gradient / size) / size
        decrease = -float(gradient @ step)
        if decrease < _SETTLED:
            return
        # Differences are used, not values: the squares may be so large that a step is lost in their rounding.
        along, bend_along = float(pull @ step), t * float(np.sum((matrix @ step) ** 2))
        barrier = sum(cone.calc(x) for cone in cones)
        share = 1.0
        while True:
            gained = sum(cone.calc(x + share * step) for cone in cones) - barrier
            if share * along + 0.5 * share**2 * bend_along - gained <= -0.1 * share * decrease:
                break
            share *= 0.5
            if share < 1e-10:  # the rest of the decrease is below rounding
                return
        x += share * step
    raise RunError(f"the feasible estimate did not converge within {limit} iterations")
