"""The problems of kinematics and dynamics on one mechanism, solved in place.

García de Jalón and Bayo, *Kinematic and Dynamic Simulation of Multibody Systems*, chapters 3 and 5. Redundant
constraints are allowed as long as they agree: least squares where there are more equations than their rank. Ranks,
least squares and tolerances use units of the mechanism's own size (`scales`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from vehicled.errors import RunError, UsageError
from vehicled.multibody.instance import MechanismInstance

RANK_TOLERANCE = 1e-8
"""Singular values of a Jacobian below this share of the largest count as zero."""
EQUATION_TOLERANCE = 1e-12
"""As `RANK_TOLERANCE`, for the equations of motion, which contain both small and large inertias."""

_NEARLY_SINGULAR = 1e-2
"""As `RANK_TOLERANCE`, for positions so close to a singular one that steps may not converge."""

_STRIDE = 0.25
"""Largest change of an angle, rad, in one part of a move; each part is a start for Newton's method."""
_SHIFT = 0.05
"""Same for a length, relative to the mechanism's size: near a dead centre angles change by far more than the
length."""

_MOST_PARTS = 4096
"""Largest number of parts of a move: 160 turns, half a second."""
_ROUNDING = 1e-14
"""Relative rounding error, with a margin."""
_FAR = 100.0
"""Distance from the origin, relative to the mechanism's size."""
_SETTLED = 1e-6
"""Change of the coordinates, in their units, below which an assembly counts as nearest to its guess."""


@dataclass(frozen=True)
class Solution:
    """Result of an iteration. Iterations do not raise: the caller decides."""

    converged: bool
    iterations: int
    residual: float
    """Largest |Φ| (or other residual) at the end."""
    step: float
    """Largest change of a coordinate in the last iteration."""
    reason: str = ""
    """Why a step has not converged, if that is known."""

    def require(self, what: str) -> Solution:
        """Return the solution itself. Raises RunError if it has not converged."""
        if not self.converged:
            raise RunError(
                f"{what} did not converge in {self.iterations} iterations: "
                f"residual {self.residual:.3g}, last step {self.step:.3g}"
                + (f"; {self.reason}" if self.reason else "")
            )
        return self


def tolerance(mechanism: MechanismInstance) -> float:
    """Tolerance on |Φ| in its units (`calc_violation`): rounding of squares of lengths, with a margin."""
    return _ROUNDING * max(1.0, mechanism.calc_spread())


def bound_change(share: float, distance: float) -> float:
    """Tolerance on a change of coordinates in their units, as a `share` of their size `distance`.

    Beyond a certain distance it is the rounding error instead: that share would be much of the mechanism
    itself.
    """
    return max(share * max(1.0, min(distance, _FAR)), _ROUNDING * distance)


def calc_violation(mechanism: MechanismInstance) -> float:
    """The largest |Φ|, each in its units."""
    return float(np.abs(mechanism.calc_constraints() / mechanism.constraint_units).max(initial=0.0))


def calc_scaled_jacobian(mechanism: MechanismInstance) -> np.ndarray:
    """(m, n) Φ_q with constraints and coordinates in their units, a copy."""
    scaled: np.ndarray = mechanism.calc_jacobian() * mechanism.units / mechanism.constraint_units[:, None]
    return scaled


def calc_motions(mechanism: MechanismInstance) -> np.ndarray:
    """(n, f) orthonormal basis, in units of the coordinates, of the motions that the constraints allow."""
    return nullspace(calc_scaled_jacobian(mechanism))


def is_nearly_singular(mechanism: MechanismInstance) -> bool:
    """Whether the constraints, near the present position, depend on each other more than elsewhere."""
    jacobian = calc_scaled_jacobian(mechanism)
    rank = len(mechanism.q) - len(mechanism.independent)
    if not rank or not np.isfinite(jacobian).all():
        return False
    sizes = scipy.linalg.svdvals(jacobian)
    return bool(sizes[rank - 1] < _NEARLY_SINGULAR * sizes[0])


def least_squares(a: np.ndarray, b: np.ndarray, cut: float = RANK_TOLERANCE) -> np.ndarray:
    """The shortest x (n,) or (n, k) of least ‖a x − b‖, a (m, n), b (m,) or (m, k).

    Singular values below `cut` of the largest count as zero. Raises LinAlgError for numbers that are not
    finite, before LAPACK prints a message to the standard output.
    """
    # Numbers that are not finite show in the sum, in a third of the time; but a sum of finite ones may also
    # overflow.
    with np.errstate(all="ignore"):
        total = float(a.sum()) + float(b.sum())
    if not math.isfinite(total) and not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise np.linalg.LinAlgError("not finite")
    solution = _solve_regular(a, b, cut)
    if solution is None:
        solution = np.linalg.lstsq(a, b, rcond=cut)[0]
    return solution


def _solve_regular(a: np.ndarray, b: np.ndarray, cut: float) -> np.ndarray | None:
    """Solution by LU, in a tenth of the time; None unless `a` is square and no singular value is below `cut`."""
    n = len(a)
    if a.shape[1] != n or not n:
        return None
    lu, pivots, info = scipy.linalg.lapack.dgetrf(a)
    if info:
        return None
    # The 1-norm's condition, of which this is the inverse, is at least 1/n of the ratio of singular values.
    inverse, _ = scipy.linalg.lapack.dgecon(lu, np.abs(a).sum(axis=0).max())
    if not inverse > n * cut:
        return None
    solution: np.ndarray = scipy.linalg.lapack.dgetrs(lu, pivots, b)[0]
    return solution


def nullspace(jacobian: np.ndarray) -> np.ndarray:
    """(n, f) orthonormal basis of the motions that the constraints allow."""
    return scipy.linalg.null_space(jacobian, rcond=RANK_TOLERANCE)


def choose_independent(
    motions: np.ndarray, preferred: np.ndarray | None = None, weights: np.ndarray | None = None
) -> np.ndarray:
    """(f,) coordinates that distinguish the motions (n, f) best, by pivoting.

    `preferred` coordinates are chosen before others unless they are a hundred times worse; `weights` (n,), by
    default ones, say the same by degrees.
    """
    if not motions.shape[1]:
        return np.zeros(0, dtype=int)
    weights = np.ones(len(motions)) if weights is None else weights.copy()
    if preferred is not None:
        weights[preferred] = 100.0
    _, _, pivots = scipy.linalg.qr(motions.T * weights, mode="economic", pivoting=True)
    return np.sort(pivots[: motions.shape[1]])


def dependent_solve(mechanism: MechanismInstance, jacobian: np.ndarray, right: np.ndarray) -> np.ndarray:
    """x (dependent,) or (dependent, k) of Φ_q,dependent x = right; by least squares if not square."""
    block = jacobian[:, mechanism.dependent]
    if block.shape[0] == block.shape[1]:
        try:
            return np.linalg.solve(block, right)
        except np.linalg.LinAlgError:
            pass
    return _solve_in_units(block, right, mechanism.constraint_units, mechanism.units[mechanism.dependent])


def _solve_in_units(
    matrix: np.ndarray, right: np.ndarray, rows: np.ndarray, columns: np.ndarray, cut: float = RANK_TOLERANCE
) -> np.ndarray:
    """As `least_squares`, for equations in units `rows` (m,) and unknowns in units `columns` (n,)."""
    scaled = matrix * columns / rows[:, None]
    solved = least_squares(scaled, (right.T / rows).T, cut)
    solution: np.ndarray = (solved.T * columns).T
    return solution


def solve_position(mechanism: MechanismInstance, z: np.ndarray, limit: int = 30) -> Solution:
    """Solve Φ(q, t) = 0 for q with the independent coordinates z (f,), by Newton from the present q.

    If a move is so long that Newton fails, or meets an angle's constraint half a turn away, it is made in
    parts. An angle that stays half a turn away counts as a residual of π. A move that needs more than some
    thousands of parts is not made; q does not change.
    """
    start, z_start = mechanism.q.copy(), mechanism.z
    least = count_strides(mechanism, z - z_start)
    if least > _MOST_PARTS:
        return Solution(False, 0, np.inf, np.inf)
    for parts in (least, 8 * least, 64 * least):
        if parts > _MOST_PARTS:
            break
        mechanism.q[:] = start
        for k in range(1, parts + 1):
            there = z if k == parts else z_start + (z - z_start) * (k / parts)
            solution = _newton_position(mechanism, there, limit)
            if not solution.converged:
                # The residual at the wanted position, not where the move stopped.
                mechanism.q[mechanism.independent] = z
                residual = float(np.abs(mechanism.calc_constraints()).max(initial=0.0))
                solution = replace(solution, residual=residual)
                break
        else:
            if mechanism.find_turned_angle() is None:
                return solution
            solution = replace(solution, converged=False, residual=np.pi)
    return solution


def count_strides(mechanism: MechanismInstance, move: np.ndarray) -> int:
    """Least number of parts in which a move (f,) is made.

    It is made in parts because Newton's method, from further away, may converge to another assembly.
    """
    strides = np.where(mechanism.are_turns, _STRIDE, _SHIFT)
    longest = float(np.abs(move / (strides * mechanism.units[mechanism.independent])).max(initial=0.0))
    return max(1, math.ceil(longest)) if math.isfinite(longest) else 1


def _newton_position(mechanism: MechanismInstance, z: np.ndarray, limit: int) -> Solution:
    q, dependent, units = mechanism.q, mechanism.dependent, mechanism.constraint_units
    q[mechanism.independent] = z
    step = np.inf
    for iteration in range(limit + 1):
        phi = mechanism.calc_constraints()
        residual = float(np.abs(phi).max(initial=0.0))
        if not np.isfinite(residual):
            break
        if np.abs(phi / units).max(initial=0.0) <= tolerance(mechanism):
            return Solution(True, iteration, residual, 0.0 if iteration == 0 else step)
        if iteration < limit:
            change = dependent_solve(mechanism, mechanism.calc_jacobian(), phi)
            q[dependent] -= change
            step = float(np.abs(change).max())
    return Solution(False, iteration, residual, step)


def solve_velocity(mechanism: MechanismInstance, zd: np.ndarray) -> None:
    """Solve for q̇ (n,) from the independent rates ż (f,): Φ_q q̇ = −Φ_t."""
    jacobian, independent = mechanism.calc_jacobian(), mechanism.independent
    qd = mechanism.qd
    qd[independent] = zd
    right = -mechanism.calc_drift() - jacobian[:, independent] @ qd[independent]
    qd[mechanism.dependent] = dependent_solve(mechanism, jacobian, right)


def solve_acceleration(mechanism: MechanismInstance, zdd: np.ndarray) -> None:
    """Solve for q̈ (n,) from the independent accelerations z̈ (f,): Φ_q q̈ = γ."""
    jacobian, independent = mechanism.calc_jacobian(), mechanism.independent
    qdd = mechanism.qdd
    qdd[independent] = zdd
    right = mechanism.calc_gamma() - jacobian[:, independent] @ qdd[independent]
    qdd[mechanism.dependent] = dependent_solve(mechanism, jacobian, right)


def calc_velocity_map(mechanism: MechanismInstance) -> tuple[np.ndarray, np.ndarray]:
    """R (n, f) and S (n, m): q̇ = R ż − S Φ_t, q̈ = R z̈ + S γ."""
    jacobian = mechanism.calc_jacobian()
    m, n = jacobian.shape
    f = len(mechanism.independent)
    right = np.hstack([-jacobian[:, mechanism.independent], np.eye(m)])
    solved = dependent_solve(mechanism, jacobian, right)
    r, s = np.zeros((n, f)), np.zeros((n, m))
    r[mechanism.independent] = np.eye(f)
    r[mechanism.dependent], s[mechanism.dependent] = solved[:, :f], solved[:, f:]
    return r, s


def calc_acceleration_jacobians(mechanism: MechanismInstance) -> tuple[np.ndarray, np.ndarray]:
    """∂z̈/∂z and ∂z̈/∂ż (f, f) of the present state, exact; q̇, q̈ and λ must be those of `solve_dynamics`.

    A displacement dz moves q by R dz and, with constant ż, changes q̇ by −S Φ̇_q R dz; the equations of
    motion are linearised about the state.
    """
    r, s = calc_velocity_map(mechanism)
    qd_by_z = -s @ (mechanism.calc_jacobian_rate() @ r)
    stiffness = mechanism.calc_forces_by_q() - mechanism.calc_pull_by_q()
    damping = mechanism.calc_forces_by_qd()
    by_q, by_qd = mechanism.calc_acceleration_by_q(), mechanism.calc_acceleration_by_qd()
    reduced = r.T @ mechanism.mass @ r

    def linearised(dq: np.ndarray, dqd: np.ndarray) -> np.ndarray:
        drift = -s @ (by_q @ dq + by_qd @ dqd)
        return np.linalg.solve(reduced, r.T @ (stiffness @ dq + damping @ dqd - mechanism.mass @ drift))

    return linearised(r, qd_by_z), linearised(np.zeros_like(r), r)


def solve_dynamics(
    mechanism: MechanismInstance, position_gain: float = 0.0, velocity_gain: float = 0.0
) -> None:
    """Solve for q̈ and λ at the present t, q, q̇: Φ_q q̈ = γ − velocity_gain Φ̇ − position_gain Φ.

    Gains (1/s, 1/s²): Baumgarte's stabilisation. The mechanism keeps the result.
    """
    jacobian, target = mechanism.calc_jacobian(), mechanism.calc_gamma().copy()
    if velocity_gain:
        target -= velocity_gain * (jacobian @ mechanism.qd + mechanism.calc_drift())
    if position_gain:
        target -= position_gain * mechanism.calc_constraints()
    units = mechanism.constraint_units
    mechanism.qdd[:], mechanism.multipliers = calc_dynamics(mechanism, jacobian, target, units)


def calc_dynamics(
    mechanism: MechanismInstance, jacobian: np.ndarray, target: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """q̈ (n,) and λ (m,) of [M Jᵀ; J 0] [q̈; λ] = [Q; target], the shortest if they are not unique.

    With J (m, n) in units `rows` (m,), at the present t, q, q̇.
    """
    n, columns = jacobian.shape[1], mechanism.units
    matrix, weight = calc_equations(mechanism, jacobian, rows)
    right = np.concatenate([mechanism.calc_forces() * (columns / weight), target / rows])
    solved = least_squares(matrix, right, EQUATION_TOLERANCE)
    return solved[:n] * columns, solved[n:] * weight / rows


def calc_equations(
    mechanism: MechanismInstance, jacobian: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, float]:
    """[M Jᵀ; J 0] (n + m, n + m) with J (m, n) in units `rows` (m,), and the unit of mass, kg·m².

    Constraints are scaled to the size of masses, so that neither is small relative to the other.
    """
    m, n = jacobian.shape
    mass, weight = mechanism.weigh()
    matrix = np.zeros((n + m, n + m))
    matrix[:n, :n] = mass
    matrix[n:, :n] = jacobian * (mechanism.units / rows[:, None])
    matrix[:n, n:] = matrix[n:, :n].T
    return matrix, weight


def calc_multipliers(mechanism: MechanismInstance) -> np.ndarray:
    """(m,) λ at the present t, q, q̇ and q̈: Φ_qᵀ λ = Q − M q̈, the shortest if they are not unique.

    λ after a step of ALI3-P belong to rates and accelerations before their projection.
    """
    pull = mechanism.calc_forces() - mechanism.mass @ mechanism.qdd
    rows, columns = 1.0 / mechanism.units, 1.0 / mechanism.constraint_units
    return _solve_in_units(mechanism.calc_jacobian().T, pull, rows, columns)


def assemble(
    mechanism: MechanismInstance,
    guess: np.ndarray,
    held: Mapping[int, float] | None = None,
    weights: np.ndarray | None = None,
    limit: int = 100,
    accuracy: float | np.ndarray | None = None,
    *,
    again: bool = True,
) -> Solution:
    """Find q nearest to a rough guess (n,) with Φ(q, t) = 0, and `held` coordinates at their values.

    Nearest: least (q − guess)ᵀ W (q − guess) with weights (n,) or (n, n), to first order in the curvature of
    the constraints; default: ones, for coordinates in their units. |Φ| has to be at most `accuracy`, one
    number or (m,); default: rounding. If this does not converge, the search starts `again` from the least Σ
    Φ² near the guess, which takes much longer; if assembly is impossible, the mechanism is left there. Raises
    UsageError for weights that are no metric.
    """
    q = mechanism.q
    q[:] = guess
    held = held or {}
    for k, value in held.items():
        q[k] = value
    free = np.setdiff1d(np.arange(len(q)), list(held))
    units, rows = mechanism.units[free], mechanism.constraint_units
    root = np.diag(units) if weights is None else inverse_root(weights, len(q), free)
    anchor = q[free]
    solution = _approach(mechanism, anchor, free, root, limit, accuracy)
    if solution.converged or not len(free) or not again:
        return solution

    def violation(x: np.ndarray) -> np.ndarray:
        q[free] = x * units
        relative: np.ndarray = mechanism.calc_constraints() / rows
        return relative

    if not np.all(np.isfinite(violation(anchor / units))):
        return solution

    def slope(x: np.ndarray) -> np.ndarray:
        q[free] = x * units
        columns: np.ndarray = calc_scaled_jacobian(mechanism)[:, free]
        return columns

    # Its import takes longer than that of this whole package, and it is hardly ever needed.
    from scipy.optimize import least_squares as minimise

    compromise = minimise(violation, anchor / units, slope).x * units
    q[free] = compromise
    solution = _approach(mechanism, compromise, free, root, limit, accuracy)
    if not solution.converged:
        q[free] = compromise
        residual = float(np.abs(mechanism.calc_constraints()).max(initial=0.0))
        solution = replace(solution, residual=residual)
    return solution


def inverse_root(weights: np.ndarray | None, n: int, free: np.ndarray | None = None) -> np.ndarray:
    """L (k, k) with L Lᵀ = W⁻¹ for the `free` coordinates (default: all) among n.

    Weights W (n,) or (n, n), by default ones. Raises UsageError for weights that are no metric.
    """
    free = np.arange(n) if free is None else free
    if weights is None:
        return np.eye(len(free))
    if weights.shape not in ((n,), (n, n)):
        raise UsageError(f"weights: expected ({n},) or ({n}, {n}), got {weights.shape}")
    matrix = np.diag(weights[free]) if weights.ndim == 1 else weights[np.ix_(free, free)]
    try:
        upper = scipy.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, ValueError):
        raise UsageError("weights: expected positive numbers, or a positive definite matrix") from None
    return scipy.linalg.solve_triangular(upper, np.eye(len(free)))


def _approach(
    mechanism: MechanismInstance,
    anchor: np.ndarray,
    free: np.ndarray,
    root: np.ndarray,
    limit: int,
    accuracy: float | np.ndarray | None,
) -> Solution:
    """Step onto the linearised constraints, again and again.

    The steps lead to the point nearest to the anchor; in the second half of the iterations they are the
    shortest ones.

    `root`: L with L Lᵀ = W⁻¹ of the metric.
    """
    q, units, rows = mechanism.q, mechanism.units, mechanism.constraint_units
    step = residual = relative = np.inf
    for iteration in range(limit + 1):
        phi = mechanism.calc_constraints()
        residual = float(np.abs(phi).max(initial=0.0))
        if not np.isfinite(residual):
            break
        enough = tolerance(mechanism) * rows if accuracy is None else accuracy
        if np.all(np.abs(phi) <= enough) and relative < _SETTLED:
            return Solution(True, iteration, residual, step)
        if iteration == limit:
            break
        jacobian = mechanism.calc_jacobian()[:, free] / rows[:, None]
        back = anchor - q[free] if iteration < limit // 2 else np.zeros(len(free))
        change = back - root @ least_squares(jacobian @ root, jacobian @ back + phi / rows)
        step = float(np.abs(change).max(initial=0.0))
        relative = float(np.abs(change / units[free]).max(initial=0.0))
        largest = 0.5 * (1.0 + float(np.abs(q / units).max(initial=0.0)))
        q[free] += change * min(1.0, largest / relative) if relative else change
    return Solution(False, iteration, residual, step)
