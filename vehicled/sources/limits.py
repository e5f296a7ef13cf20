"""Magnitudes that no sensor of a car can give."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vehicled.messages import Measurement
from vehicled.sources.updates import MeasurementUpdates

FASTEST = 200.0
"""m/s: no car is faster."""


def without_absurd(
    m: Measurement, limits: Mapping[str, float], updates: MeasurementUpdates
) -> tuple[Measurement, int]:
    """The measurement without values beyond the limits of their channels, and how many they were.

    Each of them is recorded. NaN never is within limits.
    """
    for channel, value in m.values.items():
        if not abs(value) <= limits.get(channel, math.inf):
            break
    else:
        return m, 0
    good = {}
    for channel, value in m.values.items():
        if abs(value) <= limits.get(channel, math.inf):
            good[channel] = value
        else:
            updates.record(m, channel, [value], "absurd")
    return Measurement(m.source, m.t, m.arrival, good), len(m.values) - len(good)
