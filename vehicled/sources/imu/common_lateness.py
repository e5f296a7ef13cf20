"""By how much samples and fixes may be late together, which only a speed of known time would show.

The filter takes samples of the IMU as of the present, and fixes show their latency relative to them. If samples are
late, the whole estimate is. Fixes that seem 20 ms late may be 30 ms late beside samples that are 10 ms late. As each
configured latency is either right or far off (`fix_time.py`), it is more likely that only the fixes are late. No
sensor measures the future.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from vehicled.sources.gnss.fix_time import ODDS, Latency

_RIGHT = 0.001
"""s, 1 σ of the error of a right latency."""
_WRONG = 1.0 / (1.0 + ODDS)
"""Prior probability of a wrong one."""
_FALSIFIED = 0.0012
"""s, 1 σ: error of a found latency because tyres, springs and antennas differ from their models."""


class Configured(NamedTuple):
    """A configured latency."""

    latency: float
    """s."""
    sigma: float
    """s, 1 σ if it is wrong."""


def find_common_lateness(found: Latency, fixes: Configured, samples: Configured, in_use: float) -> float:
    """RMS of the time by which the whole estimate is late, s.

    `found`: latency of fixes relative to the configured one, by the filter, whose samples have a latency greater by
    `in_use` (s) than the configured one.
    """
    apart, of_found = found.mean - in_use, found.variance + _FALSIFIED**2 + 2.0 * _RIGHT**2
    of_fixes, of_samples = fixes.sigma**2, samples.sigma**2
    share = of_samples / (of_samples + of_fixes + of_found)
    both = -share * apart, (1.0 - share) * of_samples
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
        possible, first, second = _cut(mean, math.sqrt(variance + _RIGHT**2), least)
        total += weight * possible
        squares += weight * (second - 2.0 * in_use * first + in_use**2 * possible)
    # The error of right latencies is part of every latency's σ.
    return math.sqrt(max(squares / total - _RIGHT**2, 0.0)) if total > 0.0 else 0.0


def _density(x: float, variance: float) -> float:
    return math.exp(-0.5 * x * x / variance) / math.sqrt(variance)


def _cut(mean: float, sigma: float, least: float) -> tuple[float, float, float]:
    """Integrals of 1, x and x² over a normal density from `least` on."""
    if least == -math.inf:
        return 1.0, mean, mean * mean + sigma * sigma
    bound = (least - mean) / sigma
    possible = 0.5 * math.erfc(bound / math.sqrt(2.0))
    edge = math.exp(-0.5 * bound * bound) / math.sqrt(2.0 * math.pi)
    first = mean * possible + sigma * edge
    return possible, first, (mean * mean + sigma * sigma) * possible + sigma * (mean + least) * edge
