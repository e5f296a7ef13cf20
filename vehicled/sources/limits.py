"""Magnitudes that no sensor of a car can give, and no estimate of a car can have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from operator import le

import numpy as np

from vehicled.messages import ESTIMATE_COLUMNS, Measurement

FASTEST = 200.0
"""m/s: no car is faster."""
FASTEST_BACKWARDS = 8.0
"""m/s: a car that seems to go backwards faster goes forwards."""


def find_absurd(m: Measurement, limits: Iterable[float]) -> list[str]:
    """The channels whose values are beyond their limits, which stand in the same order; NaN always is."""
    within = list(map(le, map(abs, m.values.values()), limits))
    if False not in within:
        return []
    return [channel for channel, good in zip(m.values, within, strict=True) if not good]


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
_FINITE = 1e150
"""So large that nothing reaches it, and its square is still a number."""


def _find_bound(column: str) -> float:
    if column in ("lat", "lon", "alt"):  # not the filter's
        return math.inf
    return _FINITE if column.startswith("sigma.") else _LARGEST.get(column.rsplit(".", 1)[-1], _FINITE)


_BOUNDS = np.array([_find_bound(column) for column in ESTIMATE_COLUMNS])
PER_BOUND = 1.0 / _BOUNDS
"""By column; zero for those that are not the filter's."""


def find_impossible(values: np.ndarray) -> str | None:
    """Which column of an estimate no car can have, in words. `values`: in the order of `ESTIMATE_COLUMNS`."""
    impossible = np.flatnonzero(~(np.abs(values) <= _BOUNDS) & (PER_BOUND > 0.0))
    if not len(impossible):
        return None
    column = int(impossible[0])
    return f"{ESTIMATE_COLUMNS[column]} was {values[column]:g}, which is impossible"
