"""Fixes that arrive late in a slalom, compared with an oracle: the same estimator with fixes in time."""

from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import Run, prototype, rms, steps
from lateness import DELAYS, MS, compare, delay, find_fixes, measured, slalom

OFTEN = DELAYS[-1]
"""ms: nearly as long as the memory of the filter."""
RARE = 0.7
"""Interval between fixes, s: longer than any delay."""


@lru_cache
def run(late: int) -> Run:
    return Run(prototype(), steps(delay(measured(RARE), late)))


@pytest.mark.parametrize(
    "late", [d if d == OFTEN else pytest.param(d, marks=pytest.mark.slow) for d in DELAYS]
)
def test_a_late_fix_gives_the_same_estimate_as_a_timely_one(late):
    """Just after a late fix, the position differs from the oracle's by less than 0.15 of the oracle's error.

    An independent difference of that size makes the error 1 % larger. The estimates differ because gyroscope samples
    are known on both sides of the time of a late fix, but only before the time of a timely one.

    They are compared when a late fix has arrived: the filter then has the same fixes as the oracle, because no other
    fix has been measured since.
    """
    drive, found, oracle = slalom(), run(late), run(0)
    arrivals = find_fixes(measured(RARE)) + late * MS
    at = np.searchsorted(oracle.t, arrivals[arrivals < oracle.t[-1]])
    assert len(at) > 15
    assert np.array_equal(found.t[at], oracle.t[at])

    def distance(one: Run) -> float:
        return rms(np.hypot(one.error(drive, "x")[at], one.error(drive, "y")[at]))

    apart = rms(np.hypot(*(found[c][at] - oracle[c][at] for c in ("x", "y"))))
    turned = rms(found["yaw"][at] - oracle["yaw"][at])
    assert apart < 0.15 * distance(oracle)
    assert turned < 0.1 * rms(oracle.error(drive, "yaw")[at])
    assert distance(found) < 1.1 * distance(oracle)
    assert {i.reason for i in found.of("gnss.position")} <= {"fused", "weighted"}


@pytest.mark.slow
@pytest.mark.parametrize("late", DELAYS)
def test_many_late_fixes_are_as_good_as_timely_ones(late):
    """At 10 Hz several fixes are under way at any time; the oracle of `compare` has the same fixes in time."""
    found, oracle = compare(0.1, late, 24)
    for columns in (slice(2), slice(2, 3)):
        assert rms(found[:, columns]) < 1.1 * rms(oracle[:, columns])
