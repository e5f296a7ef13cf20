"""The equations of motion in different forms, each with the integrators that fit it.

García de Jalón and Bayo, *Kinematic and Dynamic Simulation of Multibody Systems*, chapters 5 and 8. All start with a
mechanism in a state and leave it at the end of the step, with q̇, q̈ and λ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from vehicled.errors import UsageError
from vehicled.multibody import problems
from vehicled.multibody.integrators import RULES
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.problems import Solution


class Stepper(Protocol):
    """Advances a mechanism."""

    def step(self, mechanism: Mechanism, h: float) -> Solution:
        """Advance from t to t + h (s). If it does not converge, the mechanism stays where the iteration ended.

        Raises UsageError for a step of zero length.
        """


class _UnsolvedError(Exception):
    """A position problem within a step has not converged."""

    def __init__(self, solution: Solution) -> None:
        self.solution = solution


@dataclass
class Ali3p:
    """Index-3 augmented Lagrangian with projections, trapezoidal rule, compiled as a whole: `ali3p`."""

    penalty: float | np.ndarray | None = None
    """α, one number or (m,); by default large enough relative to the masses in every constraint, for the step
    used."""
    tolerance: float = 1e-11
    """Tolerance on ‖Δq‖ of the last iteration, relative to ‖q‖ (1 to 100), with lengths relative to the
    mechanism's size."""
    limit: int = 30
    large: float = 1e-4
    """‖Δq‖ of an iteration above which the tangent is factorised again, also relative to the mechanism's size."""
    projections: int = 2
    _scaled_for: tuple[Mechanism, float] | None = field(default=None, init=False)
    _alpha: float | np.ndarray = field(default=0.0, init=False)

    def step(self, mechanism: Mechanism, h: float) -> Solution:
        """Advance from t to t + h (s) by compiled Newton iterations, with a penalty that fits mechanism and step."""
        _check_step(h)
        if self._scaled_for != (mechanism, h):
            self._scaled_for = mechanism, h
            self._alpha = calc_penalty(mechanism, h) if self.penalty is None else self.penalty
        tolerance = problems.bound_change(self.tolerance, mechanism.calc_distance())
        count = mechanism.step_ali3p(h, self._alpha, self.limit, tolerance, self.large, self.projections)
        phi = mechanism.phi
        residual = float(np.abs(phi[mechanism.enabled] if mechanism.is_switched else phi).max(initial=0.0))
        change = math.sqrt(mechanism.newton[0])
        return _explained(Solution(count > 0, abs(count), residual, change), mechanism)


def _explained(solution: Solution, mechanism: Mechanism) -> Solution:
    """Add to a solution that has not converged what is singular."""
    if solution.converged:
        return solution
    reason = ""
    if (body := mechanism.find_singular_body()) is not None:
        reason = (
            f"{body}: its three angles are singular where it is turned by 90° about y from its start; "
            "expected coordinates: natural"
        )
    elif problems.is_nearly_singular(mechanism):
        reason = (
            "near a singular position, where constraints depend on each other, as where a parallelogram is in line; "
            "expected another motion, or the formulation ali3p or matrix_r, which pass most of these"
        )
    return replace(solution, reason=reason)


def _check_step(h: float) -> None:
    if not (np.isfinite(h) and h):
        raise UsageError(f"step: expected a time step other than 0 s, got {h:g}")


def calc_penalty(mechanism: Mechanism, h: float) -> np.ndarray:
    """(m,) α with which (h²/4) α Φ_qᵀΦ_q outweighs the mass matrix in the weakest constraint.

    The same number for all constraints of the description, each in its unit.
    """
    rows = np.linalg.norm(problems.calc_scaled_jacobian(mechanism), axis=1)
    weakest = float(rows.min(initial=np.inf, where=rows > 0.0))
    alpha = 4.0 * _OUTWEIGHS * mechanism.weigh()[1] / (h * h * weakest**2)
    scaled: np.ndarray = alpha / mechanism.declared_constraint_units**2
    return scaled


_OUTWEIGHS = 1e3
"""Gains three digits of λ per iteration; with a higher value, λ would be lost in the rounding of Φ."""


class _SecondOrder:
    """A formulation that gives accelerations of the integrated coordinates, for any integration rule."""

    def __init__(self, integrator: str) -> None:
        self._rule = RULES[integrator]

    def coordinates(self, mechanism: Mechanism) -> np.ndarray:
        """Indices, int, of the integrated coordinates: all n."""
        return np.arange(len(mechanism.q))

    def accelerate(self, mechanism: Mechanism) -> None:
        """Compute q̈ and λ of the state, after solving for all that depends on the integrated coordinates."""
        raise NotImplementedError

    def step(self, mechanism: Mechanism, h: float) -> Solution:
        _check_step(h)

        def acceleration(t: float, x: np.ndarray, v: np.ndarray) -> np.ndarray:
            mechanism.t = t
            mechanism.q[chosen], mechanism.qd[chosen] = x, v
            self.accelerate(mechanism)
            accelerations: np.ndarray = mechanism.qdd[chosen]
            return accelerations

        try:
            chosen = self.coordinates(mechanism)
            start = [a[chosen] for a in (mechanism.q, mechanism.qd, mechanism.qdd)]
            *_, solution = self._rule(acceleration, mechanism.t, *start, h, mechanism.units[chosen])
        except _UnsolvedError as failure:
            solution = failure.solution
        except np.linalg.LinAlgError:
            solution = Solution(False, 1, np.inf, np.inf)
        return _explained(solution, mechanism)


class MatrixR(_SecondOrder):
    """Independent coordinates: (Rᵀ M R) z̈ = Rᵀ (Q − M S γ), with position and velocity problem at each evaluation.

    If z nears a singular position (‖R‖ grows), other coordinates are chosen: `mechanism.independent`.
    """

    worst_growth = 2.0
    """‖R‖ above which other coordinates are chosen, if theirs is smaller by `gain`. It is at least 1, as R
    contains the independent coordinates themselves; lengths are relative to the mechanism's size, to be
    comparable with angles."""
    gain = 2.0

    def coordinates(self, mechanism: Mechanism) -> np.ndarray:
        """Indices (f,) of the independent coordinates, chosen again if the mechanism nears a singular position."""
        self._choose(mechanism)
        return mechanism.independent

    def _choose(self, mechanism: Mechanism) -> None:
        units = mechanism.units
        r, _ = problems.calc_velocity_map(mechanism)
        r *= units[mechanism.independent] / units[:, None]
        growth = float(np.linalg.norm(r, 2)) if r.size else 0.0
        if growth <= self.worst_growth:
            return
        motions = problems.calc_motions(mechanism)
        if motions.shape[1] != len(mechanism.independent):
            return  # At a singular position no choice is possible.
        best = problems.choose_independent(motions)
        if growth * np.linalg.svd(motions[best], compute_uv=False)[-1] > self.gain:
            mechanism.set_independent(best)

    def accelerate(self, mechanism: Mechanism) -> None:
        """Solve for position and velocity from z, ż, then q̈ and λ from (Rᵀ M R) z̈ = Rᵀ (Q − M S γ).

        Raises _UnsolvedError if the position problem does not converge.
        """
        solution = problems.solve_position(mechanism, mechanism.z)
        if not solution.converged:
            raise _UnsolvedError(solution)
        r, s = problems.calc_velocity_map(mechanism)
        mechanism.qd[:] = r @ mechanism.zd - s @ mechanism.calc_drift()
        drift = s @ mechanism.calc_gamma()
        mass, forces = mechanism.mass, mechanism.calc_forces()
        zdd = np.linalg.solve(r.T @ mass @ r, r.T @ (forces - mass @ drift))
        mechanism.qdd[:] = r @ zdd + drift
        mechanism.multipliers = s.T @ (forces - mass @ mechanism.qdd)


def _choose_rate(rate: float | None, mechanism: Mechanism) -> float:
    """The given rate, 1/s; by default 10/s for a mechanism of 1 m; small ones move faster, as pendulums do."""
    return 10.0 / math.sqrt(mechanism.size) if rate is None else rate


class Lagrange(_SecondOrder):
    """Lagrange multipliers as further unknowns, with Baumgarte's damping of violations."""

    def __init__(self, integrator: str, rate: float | None = None) -> None:
        """`rate` (1/s): decay of violations, Φ̈ + 2 rate Φ̇ + rate² Φ = 0; default 10/s √(1 m/size)."""
        super().__init__(integrator)
        self.rate = rate

    def accelerate(self, mechanism: Mechanism) -> None:
        """Solve for q̈ and λ together, with Baumgarte's terms 2 ω Φ̇ + ω² Φ."""
        rate = _choose_rate(self.rate, mechanism)
        problems.solve_dynamics(mechanism, rate**2, 2 * rate)


class Penalty(_SecondOrder):
    """Index-1 augmented Lagrangian (Bayo, García de Jalón and Serna 1988).

    (M + α Φ_qᵀ Φ_q) q̈ = Q − Φ_qᵀ (λ + α (2 ω Φ̇ + ω² Φ − γ)), with λ ← λ + α (Φ_q q̈ − γ + 2 ω Φ̇ + ω² Φ) from
    iteration to iteration. It is solved for that change of λ too,

        M q̈ + Φ_qᵀ Δλ = Q − Φ_qᵀ λ,    Φ_q q̈ − Δλ/α = γ − 2 ω Φ̇ − ω² Φ,

    as in M + α Φ_qᵀ Φ_q the inertia of bodies a million times lighter than others would be lost in rounding.
    """

    def __init__(self, integrator: str, penalty: float = 1e5, rate: float | None = None) -> None:
        """`penalty`: α over the largest element of the mass matrix, with lengths relative to the mechanism's size.

        `rate` (1/s): ω, decay of violations, as for `Lagrange`.
        """
        super().__init__(integrator)
        self.penalty, self.rate = penalty, rate

    def accelerate(self, mechanism: Mechanism) -> None:
        """Iterate q̈ and λ, starting with the multipliers of the preceding step."""
        units, rows, rate = mechanism.units, mechanism.constraint_units, _choose_rate(self.rate, mechanism)
        jacobian = mechanism.calc_jacobian()
        m, n = jacobian.shape
        matrix, weight = problems.calc_equations(mechanism, jacobian, rows)
        matrix[n:, n:] = np.diag(np.full(m, -1.0 / self.penalty))
        factor = scipy.linalg.lu_factor(matrix, check_finite=False)
        violation = -mechanism.calc_gamma()
        violation += 2 * rate * (jacobian @ mechanism.qd + mechanism.calc_drift())
        violation += rate**2 * mechanism.calc_constraints()
        forces, multipliers = mechanism.calc_forces(), mechanism.multipliers.copy()
        # Relative to the applied forces, not to the remaining ones: these are small if joints carry most of
        # the load.
        least = np.abs(units * forces).max()
        for _ in range(_PENALTY_ITERATIONS):
            pull = forces - jacobian.T @ multipliers
            right = np.concatenate([pull * units / weight, -violation / rows])
            solved = scipy.linalg.lu_solve(factor, right, check_finite=False)
            mechanism.qdd[:], change = solved[:n] * units, solved[n:] * weight / rows
            multipliers += change
            enough = 1e-10 * max(least, np.abs(units * pull).max())
            if np.abs(units * (jacobian.T @ change)).max() <= enough:
                break
        mechanism.multipliers = multipliers


_PENALTY_ITERATIONS = 20
"""Number of iterations; each gains as many digits of λ as the ratio of penalty to masses has."""


def make_stepper(formulation: str, integrator: str = "trapezoidal", **options: Any) -> Stepper:
    """A formulation with an integrator. Raises UsageError for names that do not exist or do not fit together."""
    kinds: dict[str, Callable[..., Stepper]] = {"matrix_r": MatrixR, "penalty": Penalty, "lagrange": Lagrange}
    if formulation not in ("ali3p", *kinds):
        raise UsageError(f"formulation: expected ali3p, {', '.join(kinds)}, got '{formulation}'")
    if integrator not in RULES:
        raise UsageError(f"integrator: expected {', '.join(RULES)}, got '{integrator}'")
    if formulation == "ali3p":
        if integrator != "trapezoidal":
            raise UsageError(
                f"integrator: ALI3-P is made with the trapezoidal rule, '{integrator}' does not fit"
            )
        return Ali3p(**options)
    return kinds[formulation](integrator, **options)
