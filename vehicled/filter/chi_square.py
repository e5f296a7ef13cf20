"""Quantiles of the chi-square distribution, for the gates of observations with one to three components.

In closed form up to Newton's method: `scipy.special` alone would be a quarter of the program's start.
"""

from __future__ import annotations

import math

_ITERATIONS = 100
_ROUNDING = 1e-15
"""Relative change at which Newton's method has nothing left to improve."""


def calc_quantile(dimension: int, tail: float) -> float:
    """The value that a chi-square variable exceeds with probability `tail`.

    dimension: degrees of freedom, 1 to 3. tail: 0 to 1; 0 gives infinity. Raises ValueError for others.
    """
    if dimension not in (1, 2, 3):
        raise ValueError(f"expected 1 to 3 degrees of freedom, got {dimension}")
    if not 0.0 <= tail <= 1.0:
        raise ValueError(f"expected a probability, got {tail}")
    if tail == 0.0:
        return math.inf
    if tail == 1.0:
        return 0.0
    exact = -2.0 * math.log(tail)
    if dimension == 2:
        return exact
    # The variable's root r has a nearly Gaussian tail, so the logarithm of its tail is smooth and easy to invert.
    r = math.sqrt(exact)
    for _ in range(_ITERATIONS):
        gauss = math.sqrt(2.0 / math.pi) * math.exp(-0.5 * r * r)
        above = math.erfc(r / math.sqrt(2.0)) + (r * gauss if dimension == 3 else 0.0)
        density = gauss if dimension == 1 else r * r * gauss
        step = above / density * math.log(above / tail)
        # A step that would cross zero is halved: the tail is defined for positive values only.
        r = r + step if step > -r else 0.5 * r
        if abs(step) <= _ROUNDING * r:
            break
    return r * r
