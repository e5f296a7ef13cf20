"""The scaled unscented transform: mean and covariance of functions of a random state, from points around its mean.

For a state of n elements with P = L Lᵀ, the points are the mean x₀ and the pairs x₀ ± √c Lⱼ, j = 1 … n, with
c = α² (n + κ) (Julier and Uhlmann, *Unscented filtering and nonlinear estimation*, Proceedings of the IEEE 92(3),
2004; Wan and van der Merwe, *The unscented Kalman filter for nonlinear estimation*, 2000). The weights of the
textbooks are large and of either sign where α is small. Here each pair is split into its odd and its even part, with
which the same sums need no weights and lose no digits: with d± = f(x₀ ± √c Lⱼ) − f(x₀),

    odd = (d₊ − d₋)/(2 √c),   even = (d₊ + d₋)/(2 √c),   shift = Σⱼ even/√c,
    E f = f(x₀) + shift,      cov(f, g) = odd oddᵀ + even evenᵀ + (β − α²) shift shiftᵀ.

`odd` is what a Jacobian times L would be, `even` the effect of curvature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PointMoments:
    """Moments of one quantity of m elements, from n pairs of points."""

    odd: np.ndarray
    """(m, n)"""
    even: np.ndarray
    """(m, n)"""
    shift: np.ndarray
    """(m,) mean less the quantity at the central point."""


class UnscentedTransform:
    """Displacements of points, and moments of quantities at these points.

    By default the points are one standard deviation away (c = 1), with α = 1 and β = 2.
    """

    def __init__(self, size: int, alpha: float = 1.0, beta: float = 2.0, kappa: float | None = None) -> None:
        """`size`: n; `kappa`: by default the value with which c = 1."""
        self.distance = 1.0 if kappa is None else alpha * math.sqrt(size + kappa)
        """√c, in standard deviations."""
        self._half = 0.5 / self.distance
        self._of_shift = beta - alpha * alpha

    def calc_displacements(self, root: np.ndarray) -> np.ndarray:
        """(n, 2n) displacements from the mean: along the columns of `root` (n, n), then the opposite ones."""
        away = self.distance * root
        return np.concatenate([away, -away], axis=1)

    def calc_moments(self, plus: np.ndarray, minus: np.ndarray) -> PointMoments:
        """Moments of a quantity, from its differences (m, n) to the central point, at the points of both signs."""
        odd, even = self._half * (plus - minus), self._half * (plus + minus)
        return PointMoments(odd, even, even.sum(axis=1) / self.distance)

    def calc_curvature(self, one: PointMoments) -> np.ndarray:
        """(m, m) part of the covariance that a linear function would not have."""
        covariance: np.ndarray = one.even @ one.even.T + self._of_shift * np.outer(one.shift, one.shift)
        return covariance

    def calc_covariance(self, one: PointMoments, other: PointMoments) -> np.ndarray:
        """(m, k) covariance of two quantities of m and k elements at the same points."""
        covariance: np.ndarray = one.odd @ other.odd.T + one.even @ other.even.T
        covariance += self._of_shift * np.outer(one.shift, other.shift)
        return covariance

    def regress(self, state: PointMoments, root: np.ndarray) -> PointRegression:
        """Statistical linearisation, on a state, of further quantities at its points.

        `root`: (n, n), lower, of the covariance that the moments of the state give.
        """
        half, (size, _) = self._half, state.odd.shape
        odd, even = half * state.odd.T, half * state.even.T
        of_shift = np.full(2 * size, half / self.distance)
        crossed = np.concatenate([even + odd, even - odd]) + self._of_shift * np.outer(of_shift, state.shift)
        inverse = np.linalg.inv(root)
        slope = crossed @ inverse.T @ inverse
        return PointRegression(crossed, slope, of_shift, half / self.distance, self._of_shift)


@dataclass(frozen=True)
class PointRegression:
    """What gives mean and slope of a quantity from its differences to the central point, by one product each."""

    crossed: np.ndarray
    """(2n, n) gives the covariance with the state"""
    slope: np.ndarray
    """(2n, n)"""
    of_shift: np.ndarray
    """(2n,)"""
    of_squares: float
    of_shift_squared: float

    def linearise(self, away: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Slope (m, n), shift (m,), and variance (m,) of what is not linear in the state.

        `away`: differences (m, 2n) at the points in the order of `UnscentedTransform.calc_displacements`.
        """
        rows, shift = away @ self.slope, away @ self.of_shift
        variances = self.of_squares * (away * away).sum(axis=1) + self.of_shift_squared * shift * shift
        return rows, shift, variances - (rows * (away @ self.crossed)).sum(axis=1)


def calc_slope(one: PointMoments, root: np.ndarray) -> np.ndarray:
    """(m, n) slope of a quantity by statistical linearisation; `root`: (n, n), lower, that of the points."""
    slope: np.ndarray = np.linalg.solve(root.T, one.odd.T).T
    return slope
