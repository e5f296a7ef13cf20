"""One step of ẍ = a(t, x, ẋ) by different rules; `units` are those of x, a lower bound of its size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vehicled.multibody.problems import Solution, bound_change

Acceleration = Callable[[float, np.ndarray, np.ndarray], np.ndarray]
"""a(t, x, ẋ), which leaves the mechanism in that state."""
_DIVERGED = 1e3
"""Growth of the changes above which an iteration is abandoned."""
Step = tuple[np.ndarray, np.ndarray, Solution]
"""x and ẋ at the end, and the result of the iteration."""


def _explicit(x: np.ndarray, v: np.ndarray) -> Solution:
    """Solution of a rule without iterations, which fails only if numbers are not finite."""
    if np.isfinite(x).all() and np.isfinite(v).all():
        return Solution(True, 1, 0.0, 0.0)
    return Solution(False, 1, np.inf, np.inf)


def forward_euler(
    f: Acceleration, t: float, x: np.ndarray, v: np.ndarray, a: np.ndarray, h: float, units: np.ndarray
) -> Step:
    """Forward Euler: first order, explicit."""
    x_end, v_end = x + h * v, v + h * a
    f(t + h, x_end, v_end)
    return x_end, v_end, _explicit(x_end, v_end)


def runge_kutta_4(
    f: Acceleration, t: float, x: np.ndarray, v: np.ndarray, a: np.ndarray, h: float, units: np.ndarray
) -> Step:
    """Classical Runge–Kutta rule of fourth order, explicit."""
    half = 0.5 * h
    v2, a2 = v + half * a, f(t + half, x + half * v, v + half * a)
    v3, a3 = v + half * a2, f(t + half, x + half * v2, v + half * a2)
    v4, a4 = v + h * a3, f(t + h, x + h * v3, v + h * a3)
    x_end = x + h / 6 * (v + 2 * v2 + 2 * v3 + v4)
    v_end = v + h / 6 * (a + 2 * a2 + 2 * a3 + a4)
    f(t + h, x_end, v_end)
    return x_end, v_end, _explicit(x_end, v_end)


def trapezoidal(
    f: Acceleration,
    t: float,
    x: np.ndarray,
    v: np.ndarray,
    a: np.ndarray,
    h: float,
    units: np.ndarray,
    tolerance: float = 1e-11,
    limit: int = 60,
) -> Step:
    """Trapezoidal rule: second order, implicit, by fixed-point iteration, for steps shorter than the fastest motion.

    `tolerance`: on the change of x in an iteration, relative to its size (1 to 100 `units`).
    """
    half = 0.5 * h
    x_end, a_end = x + h * v + half * h * a, a
    step = first = np.inf
    for iteration in range(1, limit + 1):
        v_end = v + half * (a + a_end)
        x_new = x + half * (v + v_end)
        step = float(np.abs((x_new - x_end) / units).max(initial=0.0))
        first = min(first, step)
        x_end = x_new
        a_new = f(t + h, x_end, v_end)
        residual = float(np.abs((a_new - a_end) / units).max(initial=0.0)) * half * h
        a_end = a_new
        if not residual < np.inf or step > _DIVERGED * max(first, 1.0):
            break
        distance = float(np.abs(x_end / units).max(initial=0.0))
        if iteration > 1 and max(step, residual) <= bound_change(tolerance, distance):
            return x_end, v_end, Solution(True, iteration, residual, step)
    return x_end, v_end, Solution(False, iteration, residual, step)


RULES: dict[str, Callable[..., Step]] = {
    "trapezoidal": trapezoidal,
    "forward_euler": forward_euler,
    "runge_kutta_4": runge_kutta_4,
}
