"""By how much courses over ground are older than their times, as far as the filter has found it."""

from __future__ import annotations

import math
from typing import NamedTuple

from vehicled.filter.boundary import EstimatedFilter
from vehicled.sources.gnss.model import GNSS

_MOST, _LEAST, _SIGMAS = 0.12, 0.03, 3.0
"""s: unknown part of the latency, at most, and at least; and number of its σ."""


class CourseLatency(NamedTuple):
    """Latency of courses in addition to the configured one."""

    late: float = 0.0
    """s, as found."""
    unknown: float = _MOST
    """s: by how much it may be more or less."""


def find_course_latency(f: EstimatedFilter) -> CourseLatency:
    """The latency that a filter has found by now."""
    if GNSS.latency not in f.states:
        return CourseLatency()
    groups = GNSS.latency, GNSS.velocity_latency
    sigma = math.sqrt(sum(max(f.get_variance(group), 0.0) for group in groups))
    return CourseLatency(
        sum(f.slow.view(group).item(0) for group in groups), min(_LEAST + _SIGMAS * sigma, _MOST)
    )
