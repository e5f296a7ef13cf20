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
"""m/s: a car that seems to reverse faster than this goes forwards."""


def find_absurd(m: Measurement, limits: Iterable[float]) -> list[str]:
    """Channels whose values exceed their limits, or are NaN. `limits`: in the order of the channels."""
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
"""Largest possible magnitude, in the column's unit, by the last part of its name. Other columns only have to
be finite."""
_FINITE = 1e150
"""A bound that nothing reaches, and whose square is still finite."""


def _find_bound(column: str) -> float:
    if column in ("lat", "lon", "alt"):  # not the filter's
        return math.inf
    return _FINITE if column.startswith("sigma.") else _LARGEST.get(column.rsplit(".", 1)[-1], _FINITE)


_BOUNDS = np.array([_find_bound(column) for column in ESTIMATE_COLUMNS])
PER_BOUND = 1.0 / _BOUNDS
"""1/bound by column; zero for columns that are not the filter's."""


def find_impossible(values: np.ndarray) -> str | None:
    """Name, in words, the first column of an estimate whose value no car can have; None if there is none.

    `values`: in the order of `ESTIMATE_COLUMNS`.
    """
    impossible = np.flatnonzero(~(np.abs(values) <= _BOUNDS) & (PER_BOUND > 0.0))
    if not len(impossible):
        return None
    column = int(impossible[0])
    return f"{ESTIMATE_COLUMNS[column]} was {values[column]:g}, which is impossible"
