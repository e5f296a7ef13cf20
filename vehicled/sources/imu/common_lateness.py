"""By how much samples and fixes may be late together, which only a speed of known time would show.

The filter takes samples of the IMU as of the present, and fixes show their latency relative to them. If samples are
late, the whole estimate is. Fixes that seem 20 ms late may be 30 ms late beside samples that are 10 ms late. As each
configured latency is either right or far off (`fix_time.py`), it is more likely that only the fixes are late. No
sensor measures the future.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from vehicled.sources.gnss.fix_time import FALSIFIED, ODDS, RIGHT, Latency, cut

_WRONG = 1.0 / (1.0 + ODDS)
"""Prior probability of a wrong one."""


class Configured(NamedTuple):
    """A latency as configured, or as found since by other sensors together."""

    latency: float
    """s."""
    sigma: float
    """s, 1 σ if it is wrong."""


def find_common_lateness(found: Latency, fixes: Configured, samples: Configured) -> float:
    """RMS of the time by which the whole estimate is late, s.

    `found`: latency of fixes relative to the configured one, by the filter.
    """
    apart, of_found = found.mean, found.variance + FALSIFIED**2 + 2.0 * RIGHT**2
    of_fixes, of_samples = fixes.sigma**2, samples.sigma**2
    of_both = of_samples / (of_samples + of_fixes + of_found)
    both = -of_both * apart, (1.0 - of_both) * of_samples
    right, any_time = 1.0 - _WRONG, -math.inf
    first_fix, first_sample = -fixes.latency - apart, -samples.latency
    # Weight, mean and variance of the samples' latency relative to the configured one, and its least value.
    cases = [
        (right * right * _density(apart, of_found), 0.0, 0.0, any_time),
        (right * _WRONG * _density(apart, of_found + of_fixes), 0.0, 0.0, first_fix),
        (_WRONG * right * _density(apart, of_found + of_samples), -apart, of_found, first_sample),
        (
            _WRONG * _WRONG * _density(apart, of_found + of_fixes + of_samples),
            *both,
            max(first_fix, first_sample),
        ),
    ]
    total = squares = 0.0
    for weight, mean, variance, least in cases:
        left, log_possible = cut(Latency(mean, variance + RIGHT**2), least)
        share = weight * math.exp(log_possible)
        total += share
        squares += share * (left.variance + left.mean**2)
    # The error of right latencies is part of every latency's σ.
    return math.sqrt(max(squares / total - RIGHT**2, 0.0)) if total > 0.0 else 0.0


def _density(x: float, variance: float) -> float:
    return math.exp(-0.5 * x * x / variance) / math.sqrt(variance)
