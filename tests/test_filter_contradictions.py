"""When measurements contradict the prior of a parameter, and what they then make of it."""

import numpy as np
import pytest

from vehicled.filter.contradictions import Contradictions

PRIOR, LIMIT, CALLS = 0.003, 7.0, 10
"""m, 1 σ; of its estimate; in a row."""


def find(largest: float, alone: float, sigma: float) -> dict[int, float]:
    """After `CALLS` with the estimate of a parameter that measurements alone make `alone` ± `sigma` of."""
    variance = 1.0 / (PRIOR**-2 + sigma**-2)
    estimate = alone * variance / sigma**2
    tested, found = Contradictions(np.array([largest])), {}
    for _ in range(CALLS):
        assert not found
        given = (np.array([x]) for x in (estimate, variance, PRIOR, LIMIT))
        found = tested.find(*given, np.array([True]))
    return found


@pytest.mark.parametrize("sigma", [0.01, 0.05])
def test_an_antenna_half_a_metre_off_is_found_as_what_it_is(sigma):
    assert find(2.0, 0.5, sigma) == {0: pytest.approx(0.5, rel=1e-3)}


def test_what_seven_standard_deviations_do_not_exclude_is_kept():
    assert not find(2.0, 0.5, 0.08)


def test_what_lasting_errors_of_the_model_make_of_a_place_outside_the_car_is_no_place():
    assert find(np.inf, 2.8, 0.39) == {0: pytest.approx(2.8, rel=1e-3)}
    assert not find(2.0, 2.8, 0.39)
