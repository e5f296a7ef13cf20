"""Equilibrium of a mechanism at rest, and its stability."""

from __future__ import annotations

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.instance import MechanismInstance
from vehicled.multibody.problems import Solution

_STRIDE, _SHORTEST = 0.1, 1e-3
"""Strides by which a mechanism moves as its forces drive it: rad, and lengths relative to its size."""


def solve_equilibrium(mechanism: MechanismInstance, limit: int = 100) -> Solution:
    """Solve for q and λ at rest, q̇ = q̈ = 0: Φ_qᵀ λ = Q, Φ = 0.

    By Newton from the present q, which moves by at most half of its size in each iteration. Where this does not
    converge, as from a horizontal pendulum, whose forces are not changed by a small motion, the mechanism first
    moves as its forces drive it. `is_stable` checks whether the equilibrium is stable.
    """
    start = mechanism.q.copy()
    mechanism.qd[:] = mechanism.qdd[:] = 0.0
    # Units of forces, J. A spring at rest exerts none, but it would if it were moved by the mechanism's size.
    stiffness, work = (
        mechanism.calc_forces_by_q() * mechanism.work_units,
        mechanism.calc_forces() * mechanism.units,
    )
    scale = max(float(np.abs(work).max(initial=0.0)), float(np.abs(stiffness).max(initial=0.0))) or 1.0
    solution = _newton(mechanism, limit, scale)
    if not solution.converged:
        mechanism.q[:] = start
        _yield_to_forces(mechanism, limit)
        solution = _newton(mechanism, limit, scale)
    return solution


def _yield_to_forces(mechanism: MechanismInstance, limit: int) -> None:
    """Move along the forces that constraints leave, by shorter strides where these turn back."""
    q, units, stride = mechanism.q, mechanism.units, _STRIDE
    before = np.zeros_like(q)
    for _ in range(limit):
        motions = problems.calc_motions(mechanism)
        push = motions @ (motions.T @ (mechanism.calc_forces() * units))
        size = float(np.abs(push).max(initial=0.0))
        if not 0.0 < size < np.inf or stride < _SHORTEST:
            return
        if push @ before < 0.0:
            stride *= 0.5
        before, here = push, q.copy()
        if not problems.assemble(mechanism, q + push * (stride / size) * units, again=False).converged:
            q[:] = here
            stride *= 0.5


def _newton(mechanism: MechanismInstance, limit: int, scale: float) -> Solution:
    q, n, units, rows = mechanism.q, len(mechanism.q), mechanism.units, mechanism.constraint_units
    mechanism.multipliers = problems.calc_multipliers(mechanism)
    step = residual = np.inf
    for iteration in range(limit + 1):
        jacobian, phi = problems.calc_scaled_jacobian(mechanism), mechanism.calc_constraints() / rows
        m = len(phi)
        multipliers = mechanism.multipliers * rows / scale
        unbalanced = jacobian.T @ multipliers - mechanism.calc_forces() * units / scale
        residual = max(float(np.abs(phi).max(initial=0.0)), float(np.abs(unbalanced).max(initial=0.0)))
        if not np.isfinite(residual):
            break
        if residual <= 10 * problems.tolerance(mechanism):
            return Solution(True, iteration, residual, 0.0 if iteration == 0 else step)
        if iteration == limit:
            break
        matrix = np.zeros((n + m, n + m))
        stiffness = mechanism.calc_pull_by_q() - mechanism.calc_forces_by_q()
        matrix[:n, :n] = stiffness * mechanism.work_units / scale
        matrix[:n, n:] = jacobian.T
        matrix[n:, :n] = jacobian
        change = problems.least_squares(
            matrix, -np.concatenate([unbalanced, phi]), problems.EQUATION_TOLERANCE
        )
        relative, step = float(np.abs(change[:n]).max()), float(np.abs(change[:n] * units).max())
        largest = 0.5 * (1.0 + float(np.abs(q / units).max()))
        damping = min(1.0, largest / relative) if relative else 1.0
        q += damping * change[:n] * units
        mechanism.multipliers = mechanism.multipliers + damping * scale * change[n:] / rows
    return Solution(False, iteration, residual, step)


def is_stable(mechanism: MechanismInstance) -> bool:
    """Whether the mechanism's present equilibrium is stable against every motion that its constraints allow."""
    motions = problems.calc_motions(mechanism) * mechanism.units[:, None]
    stiffness = motions.T @ (mechanism.calc_pull_by_q() - mechanism.calc_forces_by_q()) @ motions
    return bool(np.all(np.linalg.eigvalsh(stiffness + stiffness.T) > 0.0))
