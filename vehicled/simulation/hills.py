"""Hills: a road whose slope and bank change with the distance driven, relative to the car's axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vehicled.units import Range, Unit

_WAVES = 6
_SHORTEST, _LONGEST = 0.5, 2.0
"""Range of the wavelengths, relative to `length`."""
_FADE_IN = 50.0
"""Distance from the start over which hills grow, m, so that a car begins at rest on its plane."""
_FRACTION = 2.0
"""Ratio of the largest slope to the standard deviation."""

_Share = Annotated[float, Unit("%", plain=True), Range(0.0, 0.3)]


@dataclass(frozen=True, kw_only=True)
class Hills:
    """A random road, in addition to the plane that it begins on; plain numbers are SI."""

    slope: _Share = 0.06
    """Largest slope: `6 %` or 0.06; it is rarely exceeded."""
    bank: _Share = 0.0
    """Largest slope across the road."""
    crossfall: Annotated[float, Unit("%", plain=True), Range(-0.3, 0.3)] = 0.0
    """By how much the road falls to the right in all places, so that water runs off."""
    length: Annotated[float, Unit("m", plain=True), Range(20.0, 10000.0)] = 200.0
    """Mean distance from one crest to the next."""
    seed: Annotated[int, Range(0)] = 0


class HillyRoad:
    """Rises of the road ahead and to the left, as functions of the distance driven."""

    def __init__(self, hills: Hills) -> None:
        rng = np.random.default_rng(hills.seed)
        lengths = hills.length * np.exp(rng.uniform(math.log(_SHORTEST), math.log(_LONGEST), (2, _WAVES)))
        self._waves, self._phases = 2.0 * np.pi / lengths, rng.uniform(0.0, 2.0 * np.pi, (2, _WAVES))
        self._crossfall = hills.crossfall
        self._amplitudes = np.array([hills.slope, hills.bank]) / _FRACTION * math.sqrt(2.0 / _WAVES)

    def find_rises(self, way: float) -> tuple[float, float]:
        """Rise per distance ahead and to the left, `way` (m) after the start."""
        waves = np.sin(self._waves * way + self._phases).sum(axis=1)
        begun = min(abs(way) / _FADE_IN, 1.0)
        ahead, left = begun * self._amplitudes * waves
        return float(ahead), float(left) + begun * self._crossfall
