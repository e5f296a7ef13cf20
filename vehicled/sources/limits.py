"""Magnitudes that no sensor of a car can give, and no estimate of a car can have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from operator import le

import numpy as np

from vehicled.messages import ESTIMATE_COLUMNS, Measurement

FASTEST = 200.0
"""m/s: no car is faster."""


def find_absurd(m: Measurement, limits: Iterable[float]) -> list[str]:
    """The channels whose values are beyond their limits, which stand in the same order; NaN always is."""
    within = list(map(le, map(abs, m.values.values()), limits))
    return (
        [] if all(within) else [channel for channel, good in zip(m.values, within, strict=True) if not good]
    )


_LARGEST: Mapping[str, float] = {
    **dict.fromkeys(("x", "y"), 1e7),
    "z": 1e5,
    **dict.fromkeys(("vx", "vy", "vz"), FASTEST),
    **dict.fromkeys(("wx", "wy", "wz"), 100.0),
    **dict.fromkeys(("ax", "ay", "az"), 1e4),
    **dict.fromkeys(("roll", "pitch", "sideslip"), math.pi),
    **dict.fromkeys(("deflection",), 2.0),
    **dict.fromkeys(("fx", "fy", "fz", "force"), 1e7),
}
"""By the last part of a column's name: what is impossible beyond, in its unit. The others only have to be finite."""
_NOT_OF_THE_FILTER = ("lat", "lon", "alt")
_INDICES = np.array([k for k, c in enumerate(ESTIMATE_COLUMNS) if c not in _NOT_OF_THE_FILTER])
_BOUNDS = np.array(
    [
        math.inf if c.startswith("sigma.") else _LARGEST.get(c.rsplit(".", 1)[-1], math.inf)
        for c in (ESTIMATE_COLUMNS[k] for k in _INDICES)
    ]
)


def find_impossible(values: np.ndarray) -> str | None:
    """Which column of an estimate no car can have, in words. `values`: in the order of `ESTIMATE_COLUMNS`."""
    magnitudes = np.abs(values[_INDICES])
    if (magnitudes <= _BOUNDS).all() and magnitudes.max() < math.inf:
        return None
    worst = next(
        k for k, m, b in zip(_INDICES, magnitudes, _BOUNDS, strict=True) if not (m <= b and m < math.inf)
    )
    return f"{ESTIMATE_COLUMNS[worst]} was {values[worst]:g}, which is impossible"
