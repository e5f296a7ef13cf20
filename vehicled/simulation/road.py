"""Heights of a road over its plane: roughness of the classes of ISO 8608, and edges such as kerbs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from vehicled.units import Range, Unit

Roughness = Literal["A", "B", "C", "D"]

ROUGHNESS: dict[Roughness, float] = {"A": 16e-6, "B": 64e-6, "C": 256e-6, "D": 1024e-6}
"""Displacement spectral density at 0.1 cycles/m in the middle of a class, m³ (ISO 8608:2016, table C.1)."""
_REFERENCE = 0.1
"""Spatial frequency for these densities, cycles/m."""
_BAND = 0.011, 2.83
"""Spatial frequencies of a road, cycles/m (ISO 8608)."""
_WAVES = 400
_FADE_IN = 10.0
"""Distance from the start over which roughness grows from zero, m, so that a car begins at rest on its
plane."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A step in the road: it rises by `height` (m; negative: falls) where x, to the east, exceeds `at` (m).

    On both sides of the car, or where y is above 0 (`left`) or below (`right`).
    """

    at: Annotated[float, Unit("m", plain=True)]
    height: Annotated[float, Unit("m", plain=True), Range(-0.3, 0.3)]
    side: Literal["both", "left", "right"] = "both"


class Road:
    """A road as a function of the place."""

    def __init__(
        self,
        roughness: Roughness | None,
        edges: Sequence[Edge] = (),
        seed: int = 0,
        start: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """`roughness`: a class of ISO 8608, or None; `seed`: of its waves; `start`: x, y where a drive begins, m."""
        self._start = start
        self._edges = sorted(edges, key=lambda e: e.at)
        self._amplitudes, self._waves, self._phases = _draw_waves(roughness, seed)

    def heights(self, x: np.ndarray, y: np.ndarray, radius: np.ndarray) -> np.ndarray:
        """Height, m, by which wheels of these radii (m) with centres above x, y (m, world axes) are raised.

        A wheel rolls over an edge as a rigid disc that rolls to the east or west: it begins to rise before
        it.
        """
        rough = self._amplitudes @ np.cos(self._waves @ np.stack((x, y)) + self._phases[:, None])
        away = np.hypot(x - self._start[0], y - self._start[1])
        return np.asarray(np.minimum(away / _FADE_IN, 1.0) * rough + self._calc_edges(x, y, radius))

    def _calc_edges(self, x: np.ndarray, y: np.ndarray, radius: np.ndarray) -> np.ndarray:
        sides = {"both": np.ones(x.shape), "left": 1.0 * (y > 0.0), "right": 1.0 * (y < 0.0)}
        rises = [(edge.at, edge.height * sides[edge.side]) for edge in self._edges]
        touched = sum((rise * (x >= at) for at, rise in rises), np.zeros(x.shape))
        level = np.zeros(x.shape)
        for at, rise in rises:
            # The wheel touches the corner of the higher side of an edge.
            corner, level = np.maximum(level, level + rise), level + rise
            away = np.minimum(np.abs(x - at), radius)
            touched = np.maximum(touched, corner - radius + np.sqrt(radius**2 - away**2))
        return touched


def _draw_waves(roughness: Roughness | None, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n,) amplitudes, (n, 2) wave vectors (rad/m) and (n,) phases of a surface that is alike in all directions.

    With variance (π/2) G n₀² dn/n² in waves of frequencies n to n + dn, the spectral density along any line is that
    of the standard, G (n₀/n)²: ∫ₙ^∞ (2/π) S(m)/√(m² − n²) dm for S = (π/2) G n₀²/m². Left and right wheels share long
    waves and differ in short ones, and rear wheels follow the front ones.
    """
    if roughness is None:
        return np.zeros(0), np.zeros((0, 2)), np.zeros(0)
    rng = np.random.default_rng((seed, 8608))
    bounds = np.geomspace(*_BAND, _WAVES + 1)
    low, high = bounds[:-1], bounds[1:]
    variance = 0.5 * np.pi * ROUGHNESS[roughness] * _REFERENCE**2 * (1.0 / low - 1.0 / high)
    n = np.exp(rng.uniform(np.log(low), np.log(high)))
    direction, phase = rng.uniform(0.0, 2.0 * np.pi, (2, _WAVES))
    vectors = 2.0 * np.pi * n[:, None] * np.column_stack((np.cos(direction), np.sin(direction)))
    return np.sqrt(2.0 * variance), vectors, phase
