"""Speed and course over ground of receivers that give their velocity as a vector.

The filter uses the vector. What compares sensors with each other, and the start, use speed and course.
"""

from __future__ import annotations

import math

from vehicled.messages import Measurement
from vehicled.sources.limits import FASTEST

_RECEIVERS = tuple(
    tuple(f"{name}.{what}" for what in ("vn", "ve", "speed", "course")) for name in ("gnss", "gnss2")
)
VECTORS = frozenset(north for north, *_ in _RECEIVERS)
"""Channels without which there is no such vector."""


def add_speed_and_course(m: Measurement) -> Measurement:
    """A measurement with those that follow from its vector, where a car can have it; its own values stay."""
    values = m.values
    for north, east, speed, course in _RECEIVERS:
        if north in values and east in values:
            vn, ve = values[north], values[east]
            fast = math.hypot(vn, ve)
            if fast <= FASTEST:
                found = {speed: fast, course: math.atan2(ve, vn) % (2.0 * math.pi)}
                m = Measurement(m.source, m.t, m.arrival, found | m.values)
    return m
