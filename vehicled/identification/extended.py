"""The rank of the equations of motion in extended precision.

The singular values of W of a mechanism with few degrees of freedom decrease without a gap down to rounding:
in double precision no tolerance separates the identifiable parameters from the others. Here the same
equations are computed in decimal numbers of any number of digits (module `decimal`): atoms are evaluated one
by one, and kinematics are refined with the compiled Jacobian until they satisfy the constraints to these
digits. Pivots that are zero in exact arithmetic then differ from zero only in about the last ten digits,
while small pivots keep their size, so that there is a wide gap between the two.

Random configurations over a finite field would give the rank without rounding, but need a rational
parametrisation of the closed loops, which differs from mechanism to mechanism.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from vehicled.errors import RunError
from vehicled.identification import parameters
from vehicled.identification.base import BaseSet
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.symbolic.evaluate import DECIMAL, evaluate
from vehicled.symbolic.program import KernelHandle

_GAINED = 10
"""Least number of digits gained by an iteration with a Jacobian in double precision."""
_SHOWN = 5
"""Number of zero pivots that are kept to show the gap."""
_LOST = 10
"""Number of last digits affected by rounding."""


@dataclass(frozen=True)
class ExtendedBase:
    """The parameters determined by W: elimination with complete pivoting, rows and columns scaled to one."""

    base: BaseSet
    pivots: np.ndarray
    """Absolute values in the order of elimination; the last few are zero."""

    @property
    def rank(self) -> int:
        """Number of independent parameters, r."""
        return len(self.base.independent)


class _Extended:
    """A mechanism's arrays in decimal numbers."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        # Nearly all elements are zero.
        self.workspace = np.full(len(mechanism.workspace), Decimal(0), dtype=object)
        for place in np.flatnonzero(mechanism.workspace):
            self.workspace[place] = Decimal(float(mechanism.workspace[place]))
        self.places = mechanism.layout.places
        self.kernels = mechanism.compiled.kernels
        self.call(self.kernels.prepare)
        self.n, self.m = len(mechanism.q), len(mechanism.compiled.constraints)

    def call(self, kernel: KernelHandle) -> None:
        code = self.mechanism.compiled.program.kernels[kernel]
        known = {atom: self.workspace[offset] for atom, offset in code.loads.items()}
        results = evaluate([e for *_, e in code.stores], known, DECIMAL)
        for (offset, *_), value in zip(code.stores, results, strict=True):
            self.workspace[offset] = value

    def get(self, name: str) -> np.ndarray:
        """(count,) objects, a copy."""
        place = self.places[name]
        return self.workspace[place.offset : place.offset + place.count].copy()

    def set(self, name: str, values: np.ndarray) -> None:
        place = self.places[name]
        self.workspace[place.offset : place.offset + place.count] = values

    def calc(self, kernel: KernelHandle) -> np.ndarray:
        self.call(kernel)
        return self.get(kernel.name)


def calc_extended_equations(mechanism: Mechanism, digits: int = 50) -> np.ndarray:
    """(f, p) decimals Rᵀ K of the inertial parameters at the present z, ż, z̈.

    z, ż, z̈ are taken as exact; R is the basis in which ż are the coefficients. Raises RunError where the
    refinement does not converge.
    """
    with localcontext() as context:
        context.prec = digits
        return _equations(mechanism, digits)


def _equations(mechanism: Mechanism, digits: int) -> np.ndarray:
    extended = _Extended(mechanism)
    n, m = extended.n, extended.m
    dependent, independent = mechanism.dependent, mechanism.independent
    f = len(independent)
    steps = digits // _GAINED + 3
    block = mechanism.calc_jacobian()[:, dependent].copy()
    rough = np.linalg.pinv(block, rcond=problems.RANK_TOLERANCE)

    def refine(start: np.ndarray, residual: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """`start` (n,) or (n, k) with dependent rows for which the residual, whose derivative is Φ_q, vanishes."""
        x = start
        for _ in range(steps):
            left = residual(x)
            largest = max(map(abs, left.ravel()), default=Decimal(0))
            if largest < Decimal(10) ** (_LOST - digits):
                return x
            # The residual is scaled by its own size, because it may be below the range of a float.
            change = rough @ np.array(left / largest, dtype=float)
            x = x.copy()
            x[dependent] -= np.vectorize(Decimal, otypes=[object])(change) * largest
        raise RunError(f"the kinematics did not converge to {digits} digits at t = {mechanism.t:.6g} s")

    def constraints(q: np.ndarray) -> np.ndarray:
        extended.set("q", q)
        return extended.calc(extended.kernels.constraints)

    q = refine(extended.get("q"), constraints)
    jacobian = extended.calc(extended.kernels.jacobian).reshape(m, n)
    identity = np.full((n, f), Decimal(0), dtype=object)
    identity[independent, np.arange(f)] = Decimal(1)
    basis = refine(identity, lambda x: jacobian @ x)
    drift = extended.calc(extended.kernels.drift)
    qd = refine(extended.get("qd"), lambda x: jacobian @ x + drift)
    extended.set("qd", qd)
    gamma = extended.calc(extended.kernels.gamma)
    qdd = refine(extended.get("qdd"), lambda x: jacobian @ x - gamma)
    extended.set("q", q)
    extended.call(extended.kernels.placement)
    return _project(extended, basis, qdd)


def _project(extended: _Extended, basis: np.ndarray, qdd: np.ndarray) -> np.ndarray:
    """As `Regressor.calc`, for inertial parameters."""
    mechanism, n = extended.mechanism, extended.n
    sizes = [len(body.moments) for body in mechanism.placement.bodies.values()]
    every = extended.get("map").reshape(-1, 3, n)
    maps = every[len(every) - sum(sizes) :]
    drifts = extended.get("map_rate").reshape(-1, 3)[len(every) - sum(sizes) :]
    gravity = np.full(3, Decimal(0), dtype=object)
    if mechanism.description.gravity is not None:
        for k, axis in enumerate("xyz"[: mechanism.description.dimension]):
            gravity[k] = Decimal(mechanism.get_parameter(f"gravity.{axis}"))
    blocks, start = [], 0
    for size in sizes:
        a = maps[start : start + size]
        pull = [x @ qdd + drift for x, drift in zip(a, drifts[start : start + size], strict=True)]
        pull[0] = pull[0] - gravity
        moved = [x @ basis for x in a]
        products = [[moved[i].T @ pull[k] for k in range(size)] for i in range(size)]
        for part in parameters.calc_moment_basis(size):
            entries = [(i, k) for i in range(size) for k in range(size) if part[i, k]]
            blocks.append(sum(Decimal(part[i, k]) * products[i][k] for i, k in entries))
        start += size
    return np.array(blocks, dtype=object).T


def find_extended_base(w: np.ndarray, digits: int = 50) -> ExtendedBase:
    """Base parameters from decimals W (rows, p) that were computed with `digits` digits.

    Pivots above 10^(−digits/2) count as non-zero, and their columns are the independent parameters.
    """
    with localcontext() as context:
        context.prec = digits
        zero = Decimal(10) ** (-digits // 2)
        rows = np.abs(w).max(axis=1, keepdims=True)
        rows[rows == 0] = Decimal(1)
        w = w / rows
        sizes = np.abs(w).max(axis=0)
        kept = np.flatnonzero(sizes > sizes.max() * zero)
        upper, order, pivots = _eliminate(w[:, kept] / sizes[kept], zero)
        r = int(np.sum(np.array(pivots) > zero))
        beta = upper[:r, r:].copy()
        for i in reversed(range(r)):
            beta[i] = (beta[i] - upper[i, i + 1 : r] @ beta[i + 1 :]) / upper[i, i]
        columns = kept[order]
        beta = beta * sizes[columns[r:]] / sizes[columns[:r]][:, None]
    independent, dependent = np.argsort(columns[:r]), np.argsort(columns[r:])
    base = BaseSet(
        columns[:r][independent],
        columns[r:][dependent],
        np.setdiff1d(np.arange(w.shape[1]), kept),
        beta[independent][:, dependent].astype(float),
    )
    return ExtendedBase(base, np.array(pivots, dtype=float))


def _eliminate(w: np.ndarray, zero: Decimal) -> tuple[np.ndarray, np.ndarray, list[Decimal]]:
    """The upper triangle, the order of its columns and the pivots, including a few of those below `zero`."""
    w, order, pivots = w.copy(), np.arange(w.shape[1]), []
    for step in range(min(w.shape)):
        left = np.abs(w[step:, step:])
        i, k = (int(n) + step for n in np.unravel_index(np.argmax(left), left.shape))
        w[[step, i]] = w[[i, step]]
        w[:, [step, k]] = w[:, [k, step]]
        order[[step, k]] = order[[k, step]]
        pivots.append(abs(w[step, step]))
        if pivots[-1] == 0 or sum(p < zero for p in pivots) == _SHOWN:
            break
        factors = w[step + 1 :, step] / w[step, step]
        w[step + 1 :, step:] -= np.outer(factors, w[step, step:])
    return w, order, pivots
