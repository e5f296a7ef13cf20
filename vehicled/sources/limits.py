"""Magnitudes that no sensor of a car can give."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vehicled.messages import Measurement

FASTEST = 200.0
"""m/s: no car is faster."""


def find_absurd(m: Measurement, limits: Mapping[str, float]) -> list[str]:
    """The channels whose values are beyond their limits; NaN always is."""
    get, nothing = limits.get, math.inf
    return [channel for channel, value in m.values.items() if not abs(value) <= get(channel, nothing)]
