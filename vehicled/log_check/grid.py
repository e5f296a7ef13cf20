"""Common grid of times for the signals of a window, and operations on it."""

import numpy as np

STEP = 0.02
"""s."""


def derive(values: np.ndarray) -> np.ndarray:
    """(n,) derivative of (n,) by time; NaN of a single sample."""
    if len(values) < 2:
        return np.full_like(values, np.nan)
    found: np.ndarray = np.gradient(values, STEP)
    return found


def smooth(values: np.ndarray, seconds: float) -> np.ndarray:
    """(n,) averages over `seconds` centred at each sample; NaN at the ends, where samples are missing."""
    n = round(seconds / STEP) | 1
    if len(values) < n:
        return np.full_like(values, np.nan)
    found: np.ndarray = np.convolve(values, np.full(n, 1.0 / n), mode="same")
    found[: n // 2] = found[len(found) - n // 2 :] = np.nan
    return found
