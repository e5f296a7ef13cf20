"""White noise by second differences of samples, x₀ − 2 x₁ + x₂: what is smooth over three samples cancels there.

After J. von Neumann, "Distribution of the ratio of the mean square successive difference to the variance", 1941, who
takes first differences.
"""

from __future__ import annotations

import numpy as np

OF_SECOND_DIFFERENCES = 6.0
"""Their variance over that of the noise: 1 + 4 + 1."""


def calc_variances(samples: np.ndarray) -> np.ndarray:
    """By second difference what it shows of the variance of white noise.

    Takes samples at equal intervals (n, ...); returns (n − 2, ...), of which the mean is that variance, in the square
    of their unit.
    """
    variances: np.ndarray = np.diff(samples, 2, axis=0) ** 2 / OF_SECOND_DIFFERENCES
    return variances
