"""Motions that excite the parameters.

They are Fourier series of the independent coordinates, optimised within their ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.optimize

from vehicled.errors import RunError, UsageError

Criterion = Literal["condition", "A", "D", "E"]


@dataclass(frozen=True)
class FourierTrajectory:
    """z(t) = z₀ + Σ_j a_j sin(jωt)/(jω) − b_j cos(jωt)/(jω), for each independent coordinate.

    Periodic, with analytic rates (Swevers et al., "Optimal robot excitation and identification", 1997).
    """

    frequency: float
    """ω/2π, Hz"""
    centre: np.ndarray
    """(f,) z₀"""
    coefficients: np.ndarray
    """(2, f, harmonics) a and b: amplitudes of the rates."""

    @classmethod
    def draw(
        cls, frequency: float, harmonics: int, ranges: Ranges, random: np.random.Generator, share: float = 0.8
    ) -> FourierTrajectory:
        """A random trajectory, scaled so that each coordinate uses a `share` of its ranges."""
        shape = (2, len(ranges.low), harmonics)
        trajectory = cls(frequency, 0.5 * (ranges.low + ranges.high), random.normal(size=shape))
        return trajectory.fit(ranges, share)

    @property
    def period(self) -> float:
        """Time after which the motion repeats, s."""
        return 1.0 / self.frequency

    def sample_times(self, count: int) -> np.ndarray:
        """(count,) s, over one period."""
        return np.arange(count) * (self.period / count)

    def calc(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """z, ż and z̈ (N, f) at the times t (N,)."""
        flat = self.coefficients.transpose(0, 2, 1).reshape(-1, len(self.centre))
        z, zd, zdd = (part @ flat for part in self._shapes(t))
        return self.centre + z, zd, zdd

    def _shapes(self, t: np.ndarray) -> list[np.ndarray]:
        """(N, 2 harmonics) factors of the coefficients in z, ż and z̈, a before b."""
        w = 2.0 * np.pi * self.frequency * np.arange(1, self.coefficients.shape[2] + 1)
        sine, cosine = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
        pairs = ((sine / w, -cosine / w), (cosine, sine), (-w * sine, w * cosine))
        return [np.hstack(pair) for pair in pairs]

    def fit(self, ranges: Ranges, share: float = 1.0) -> FourierTrajectory:
        """The trajectory with each coordinate scaled to a `share` of its ranges."""
        used = ranges.calc_use(self, self.sample_times(_DENSE))
        return replace(self, coefficients=self.coefficients * (share / used)[:, None])


_DENSE = 400
"""Samples of a period at which the ranges are checked."""


@dataclass(frozen=True)
class Ranges:
    """Limits of the independent coordinates, (f,) each."""

    low: np.ndarray
    high: np.ndarray
    rate: np.ndarray | None = None
    """Largest |ż|; None: no limit."""
    acceleration: np.ndarray | None = None
    """Largest |z̈|; None: no limit."""

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape or not np.all(self.low < self.high):
            raise UsageError("ranges: expected every lower end below its upper one")

    def calc_use(self, trajectory: FourierTrajectory, t: np.ndarray) -> np.ndarray:
        """(f,) largest share of its ranges that each coordinate uses; above one outside the ranges."""
        z, zd, zdd = trajectory.calc(t)
        middle, half = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low)
        used: np.ndarray = np.abs(z - middle).max(axis=0) / half
        for values, limit in ((zd, self.rate), (zdd, self.acceleration)):
            if limit is not None:
                used = np.maximum(used, np.abs(values).max(axis=0) / limit)
        return used


def calc_criterion(w: np.ndarray, criterion: Criterion) -> float:
    """Logarithm of a criterion of W (rows, r); the smaller, the better W determines the parameters.

    The condition of W; or the trace (A), the determinant (D) or the largest eigenvalue (E) of the covariance
    (WᵀW)⁻¹.
    """
    singular = np.linalg.svd(w, compute_uv=False)
    if len(singular) < w.shape[1] or singular[-1] <= 0.0:
        return np.inf
    if criterion == "condition":
        return float(np.log(singular[0] / singular[-1]))
    if criterion == "A":
        return float(np.log(np.sum(singular**-2.0)))
    if criterion == "D":
        return float(-2.0 * np.sum(np.log(singular)))
    return float(-2.0 * np.log(singular[-1]))


def optimise(
    start: FourierTrajectory,
    ranges: Ranges,
    observe: Callable[[FourierTrajectory], np.ndarray],
    criterion: Criterion = "condition",
    limit: int = 20,
    progress: Callable[[int], None] = lambda _: None,
) -> FourierTrajectory:
    """The trajectory with the best W = observe(trajectory) (rows, r); frequency and harmonics of the start.

    Found by sequential quadratic programming from a start within the ranges. The result is the best
    trajectory that was evaluated, never worse than the start.

    `limit`: of iterations, each of which takes about one evaluation per coefficient; `progress` receives
    their number. Raises RunError for a start that leaves the ranges, or does not excite the parameters.
    """
    t = start.sample_times(_DENSE // 4)
    if np.any(ranges.calc_use(start, t) > 1.0 + 1e-9):
        raise RunError("the trajectory to begin with leaves its ranges")
    shape, size = start.coefficients.shape, float(np.abs(start.coefficients).max())
    # Rates of a wheel and of a rack differ by orders of magnitude: each coordinate is scaled by its own amplitude.
    unit = np.abs(start.coefficients).max(axis=(0, 2))[:, None] + 1e-12 * size

    def trajectory(x: np.ndarray) -> FourierTrajectory:
        return replace(start, coefficients=x.reshape(shape) * unit)

    least, best = calc_criterion(observe(start), criterion), start
    if not np.isfinite(least):
        raise RunError("the trajectory to begin with does not excite the parameters")

    def objective(x: np.ndarray) -> float:
        nonlocal least, best
        candidate = trajectory(x)
        try:
            value = calc_criterion(observe(candidate), criterion)
        except RunError:  # the mechanism has no such position: worse than any other
            value = np.inf
        if value < least and np.all(ranges.calc_use(candidate, t) <= 1.0 + 1e-6):
            least, best = value, candidate
        return value if np.isfinite(value) else 1e3

    matrix, bound = _range_constraint(start, ranges, unit, t)
    constraint: Any = {"type": "ineq", "fun": lambda x: bound - matrix @ x, "jac": lambda _: -matrix}
    scipy.optimize.minimize(
        objective,
        (start.coefficients / unit).ravel(),
        method="SLSQP",
        constraints=[constraint],
        options={"maxiter": limit, "eps": 1e-5, "ftol": 1e-6},
        callback=_Counter(progress),
    )
    return best


class _Counter:
    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress, self._count = progress, 0

    def __call__(self, xk: np.ndarray) -> None:
        self._count += 1
        self._progress(self._count)


def _range_constraint(
    start: FourierTrajectory, ranges: Ranges, unit: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Linear constraint on the coefficients x (n,): matrix (m, n) · x ≤ bound (m,), in half ranges."""
    _, f, harmonics = start.coefficients.shape
    shapes = start._shapes(t)
    limits = [(ranges.low - start.centre, ranges.high - start.centre)]
    limits += [(-r, r) if r is not None else (None, None) for r in (ranges.rate, ranges.acceleration)]
    rows, bounds = [], []
    for k in range(f):
        for shape, (low, high) in zip(shapes, limits, strict=True):
            if low is None:
                continue
            block = np.zeros((len(t), 2, f, harmonics))
            block[:, :, k] = shape.reshape(len(t), 2, harmonics) * unit[k]
            flat = block.reshape(len(t), -1)
            scale = 0.5 * (high[k] - low[k])
            rows += [flat / scale, -flat / scale]
            bounds += [np.full(len(t), high[k] / scale), np.full(len(t), -low[k] / scale)]
    return np.vstack(rows), np.concatenate(bounds)
