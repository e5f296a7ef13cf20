"""Fixes that arrive late in a slalom, against an oracle: the same estimator that had them in time."""

from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import Run, prototype, rms, steps
from lateness import DELAYS, MS, compare, delay, find_fixes, measured, slalom

OFTEN = DELAYS[-1]
"""Nearly as long as the filter remembers."""
RARE = 0.7
"""s: longer than any delay."""


@lru_cache
def run(late: int) -> Run:
    return Run(prototype(), steps(delay(measured(RARE), late)))


@pytest.mark.parametrize(
    "late", [d if d == OFTEN else pytest.param(d, marks=pytest.mark.slow) for d in DELAYS]
)
def test_an_estimate_with_a_late_fix_is_that_of_the_fix_in_time(late):
    """Just after a late fix has arrived, place and heading differ from the oracle's by 0.15 of its own error.

    What is independent of that error makes it 1 % larger then. They differ because the gyroscopes are known on both
    sides of the time of a late fix, but only before that of one in time.

    Before it arrives, the filter lacks what it says. Afterwards it has the same fixes as the oracle, as they are so
    far apart that none has been measured since: so what differs then is what lateness costs.
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
    """At 10 Hz, several are on their way at any time; `compare` says what the oracle knows of them."""
    found, oracle = compare(0.1, late, 24)
    for columns in (slice(2), slice(2, 3)):
        assert rms(found[:, columns]) < 1.1 * rms(oracle[:, columns])
