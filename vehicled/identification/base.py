"""Base parameters: the combinations of parameters that the equations of motion determine.

With the null parameters left out, W Φ = W₁ (Φ₁ + β Φ₂): the dependent parameters Φ₂ are combined with the
independent ones Φ₁. A set of base parameters is one choice of the independent parameters; any other choice of the
same number is valid if and only if its columns of [1 β] are nonsingular.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vehicled.errors import UsageError

NULL_TOLERANCE = 1e-10
"""Columns of W with a size below this share of the largest are null."""
_PREFERENCE = 1e-6
"""Relative weight of the order of parameters in the choice of the dependent ones: rounding does not decide."""
SINGULAR = 1e-9
"""Singular values of the columns of [1 β] below this share of the largest make a choice invalid."""


@dataclass(frozen=True)
class BaseSet:
    """A set of r base parameters of p parameters."""

    independent: np.ndarray
    """(r,) indices of Φ₁."""
    dependent: np.ndarray
    """(d,) indices of Φ₂."""
    null: np.ndarray
    """Indices of the null parameters, which have no influence on the equations."""
    beta: np.ndarray
    """(r, d) coefficients β of the dependent parameters."""

    @property
    def matrix(self) -> np.ndarray:
        """(r, p) B: Φ_base = B Φ."""
        matrix = np.zeros((len(self.independent), self.size))
        matrix[np.arange(len(self.independent)), self.independent] = 1.0
        matrix[:, self.dependent] = self.beta
        return matrix

    @property
    def size(self) -> int:
        """Number of parameters of the equations, p."""
        return len(self.independent) + len(self.dependent) + len(self.null)

    def combine(self, values: np.ndarray) -> np.ndarray:
        """(r,) base parameters of parameters (p,): Φ₁ + β Φ₂."""
        combined: np.ndarray = values[self.independent] + self.beta @ values[self.dependent]
        return combined

    def distribute(self, base: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """(p,) parameters with these base parameters (r,); all except Φ₁ are those of the prior (p,)."""
        values = prior.copy()
        values[self.independent] = base - self.beta @ prior[self.dependent]
        return values

    def reduce(self, w: np.ndarray) -> np.ndarray:
        """(…, r) W₁ of W (…, p)."""
        return w[..., self.independent]

    def calc_null_space(self) -> np.ndarray:
        """(p, p − r) changes of the parameters without effect on any motion."""
        space = np.zeros((self.size, len(self.dependent) + len(self.null)))
        d = np.arange(len(self.dependent))
        space[self.dependent, d] = 1.0
        space[np.ix_(self.independent, d)] = -self.beta
        space[self.null, len(d) + np.arange(len(self.null))] = 1.0
        return space

    def change(self, independent: Iterable[int]) -> BaseSet:
        """The set with another choice of independent parameters: β' = B₁⁻¹ B₂.

        Raises UsageError, which states the rank of the choice, if it is not a valid set.
        """
        chosen = np.array(sorted(independent), dtype=int)
        r = len(self.independent)
        if len(chosen) != r or len(set(chosen)) != r or np.isin(chosen, self.null).any():
            raise UsageError(f"expected {r} parameters that are not null, each once, got {len(set(chosen))}")
        matrix = self.matrix
        first = matrix[:, chosen]
        singular = np.linalg.svd(first, compute_uv=False)
        rank = int(np.sum(singular > SINGULAR * singular[0]))
        if rank < r:
            raise UsageError(f"not a set of base parameters: the choice has rank {rank}, {r} is needed")
        others = np.setdiff1d(np.arange(self.size), np.concatenate([chosen, self.null]))
        return BaseSet(chosen, others, self.null, np.linalg.solve(first, matrix[:, others]))

    def describe(self, names: Sequence[str], digits: int = 4) -> list[str]:
        """(r,) texts of the base parameters: `wheel.m + 0.25 knuckle.Iyy`."""
        lines = []
        for i, row in zip(self.independent, self.beta, strict=True):
            terms = [
                f" {'-' if b < 0 else '+'} {_factor(abs(b), digits)}{names[k]}"
                for k, b in zip(self.dependent, row, strict=True)
                if abs(b) > NULL_TOLERANCE
            ]
            lines.append(names[i] + "".join(terms))
        return lines


def _factor(size: float, digits: int) -> str:
    return "" if abs(size - 1.0) < NULL_TOLERANCE else f"{size:.{digits}g} "


def find_null(w: np.ndarray) -> np.ndarray:
    """Indices of the columns of W (rows, p) that vanish."""
    size = np.linalg.norm(w, axis=0)
    return np.flatnonzero(size <= NULL_TOLERANCE * size.max(initial=0.0))


def calc_singular_values(w: np.ndarray) -> np.ndarray:
    """(columns,) singular values of W (rows, p) without its null columns, the others scaled to unit size."""
    return np.linalg.svd(_scaled(w)[0], compute_uv=False)


def _scaled(w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W without null columns, the others scaled to unit size; their indices and original sizes."""
    kept = np.setdiff1d(np.arange(w.shape[1]), find_null(w))
    size = np.linalg.norm(w[:, kept], axis=0)
    return w[:, kept] / size, kept, size


def calc_double_rank(w: np.ndarray) -> int:
    """Rank with the usual tolerance in double precision.

    The tolerance is the largest singular value × ε × the larger side of W; for mechanisms of low mobility see
    `extended.find_extended_base`.
    """
    singular = calc_singular_values(w)
    tolerance = singular.max(initial=0.0) * np.finfo(float).eps * max(w.shape)
    return int(np.sum(singular > tolerance))


def find_base_by_svd(w: np.ndarray, rank: int | None = None) -> BaseSet:
    """Base parameters from W (rows, p), by the null space V₂ from singular values.

    The dependent parameters are those whose rows V₂₂ are best conditioned (by pivoting): β = −V₂₁ V₂₂⁻¹.
    `rank`: if known; by default `calc_double_rank`.
    """
    rank = calc_double_rank(w) if rank is None else rank
    scaled, kept, size = _scaled(w)
    space = np.linalg.svd(scaled)[2][rank:].T
    d = space.shape[1]
    order = _pivot(space.T, 1.0) if d else np.arange(len(kept))
    dependent, independent = np.sort(order[:d]), np.sort(order[d:])
    beta = -np.linalg.solve(space[dependent].T, space[independent].T).T if d else np.zeros((rank, 0))
    return _unscaled(w, kept, size, independent, dependent, beta)


def _pivot(columns: np.ndarray, sense: float) -> np.ndarray:
    """(n,) order of columns (rows, n) by pivoting.

    Of columns that are alike but for rounding, later ones come first if `sense` is 1, earlier ones if it is −1.
    """
    n = columns.shape[1]
    weighed = columns * (1.0 + sense * _PREFERENCE * np.arange(n) / n)
    order: np.ndarray = scipy.linalg.qr(weighed, mode="economic", pivoting=True)[2]
    return order


def find_base_by_qr(w: np.ndarray, rank: int | None = None) -> BaseSet:
    """Base parameters from W (rows, p) by pivoting, W P = Q R: β = R₁₁⁻¹ R₁₂. `rank` as in `find_base_by_svd`."""
    rank = calc_double_rank(w) if rank is None else rank
    scaled, kept, size = _scaled(w)
    order = _pivot(scaled, -1.0)
    (upper,) = scipy.linalg.qr(scaled[:, order], mode="r")
    independent, dependent = np.sort(order[:rank]), np.sort(order[rank:])
    beta = scipy.linalg.solve_triangular(upper[:rank, :rank], upper[:rank, rank:])
    beta = beta[np.argsort(order[:rank])][:, np.argsort(order[rank:])]
    return _unscaled(w, kept, size, independent, dependent, beta)


def _unscaled(
    w: np.ndarray,
    kept: np.ndarray,
    size: np.ndarray,
    independent: np.ndarray,
    dependent: np.ndarray,
    beta: np.ndarray,
) -> BaseSet:
    beta = beta * size[dependent] / size[independent][:, None]
    null = np.setdiff1d(np.arange(w.shape[1]), kept)
    return BaseSet(kept[independent], kept[dependent], null, beta)


def calc_space_distance(first: BaseSet, second: BaseSet) -> float:
    """Sine of the largest angle between the null spaces of two sets with equally scaled parameters.

    Zero for sets of the same parameters, one for sets of different ranks.
    """
    a, b = (np.linalg.qr(s.calc_null_space())[0] for s in (first, second))
    if a.shape != b.shape:
        return 1.0
    return float(np.linalg.norm(a - b @ (b.T @ a), 2)) if a.size else 0.0
