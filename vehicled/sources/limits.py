"""Magnitudes that no sensor of a car can give."""

from __future__ import annotations

from collections.abc import Iterable
from operator import le

from vehicled.messages import Measurement

FASTEST = 200.0
"""m/s: no car is faster."""


def find_absurd(m: Measurement, limits: Iterable[float]) -> list[str]:
    """The channels whose values are beyond their limits, which stand in the same order; NaN always is."""
    within = list(map(le, map(abs, m.values.values()), limits))
    return (
        [] if all(within) else [channel for channel, good in zip(m.values, within, strict=True) if not good]
    )
