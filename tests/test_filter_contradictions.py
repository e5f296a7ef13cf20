"""When measurements contradict the prior of a parameter, and what they then make of it."""

import numpy as np
import pytest
from filter_rig import index, make_moving, set_slow_state

from vehicled.filter.contradictions import Contradictions
from vehicled.filter.settings import Unknowns
from vehicled.filter.states import STEERING_OFFSET, Group
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import SlowState
from vehicled.sources.gnss.model import GNSS

PRIOR, LIMIT, CALLS = 0.003, 7.0, 10
"""m, 1 σ; of its estimate; in a row."""


def find(largest: float, alone: float, sigma: float) -> dict[int, float]:
    """After `CALLS` with the estimate of a parameter that measurements alone make `alone` ± `sigma` of."""
    variance = 1.0 / (PRIOR**-2 + sigma**-2)
    estimate = alone * variance / sigma**2
    tested, found = Contradictions(np.array([largest])), {}
    for _ in range(CALLS):
        assert not found
        given = (np.array([x]) for x in (estimate, variance, PRIOR, LIMIT, 0.0))
        found = tested.find(*given, np.array([True]))
    return found


@pytest.mark.parametrize("sigma", [0.01, 0.05])
def test_an_antenna_half_a_metre_off_is_found_as_what_it_is(sigma):
    assert find(2.0, 0.5, sigma) == {0: pytest.approx(0.5, rel=1e-3)}


def test_what_seven_standard_deviations_do_not_exclude_is_kept():
    assert not find(2.0, 0.5, 0.08)


def test_next_to_no_information_contradicts_nothing():
    """0.5 mm of an antenna that is known to 3 mm, where measurements leave all but 0.0004 of its variance."""
    assert not find(np.inf, 1.25, 0.15)


def test_what_lasting_errors_of_the_model_make_of_a_place_outside_the_car_is_no_place():
    assert find(np.inf, 2.8, 0.09) == {0: pytest.approx(2.8, rel=1e-3)}
    assert not find(2.0, 2.8, 0.09)


def estimate(f: VehicleFilter, group: Group, value: float, variance: float) -> None:
    set_slow_state(f, index(f, group), value)
    f.set_variance(group, "", variance)


def doubt(f: VehicleFilter) -> None:
    """As long as a contradiction must last."""
    for _ in range(12):
        f.widen_parameters({})
        f.apply_corrections()


def test_a_parameter_that_measurements_contradict_gets_the_prior_that_lets_it_be_so():
    """Measurements that make of the prior σ² a third of that have found 1.5 times the estimate, by themselves."""
    f, sigma = make_moving(), Unknowns().steering_offset
    i = index(f, STEERING_OFFSET)
    estimate(f, STEERING_OFFSET, -12.0 * sigma, sigma**2 / 3)
    others = np.arange(len(f.states)) != i
    before = f.variances
    doubt(f)
    # Information of 2/σ², at −18 σ, beside a prior of 18 σ.
    expected = 1.0 / (2.0 / sigma**2 + 1.0 / (18.0 * sigma) ** 2)
    assert f.variances[i] == pytest.approx(expected, rel=1e-6)
    assert f.slow.get(STEERING_OFFSET) == pytest.approx([-18.0 * sigma * 2.0 / sigma**2 * expected], rel=1e-6)
    assert f.variances[others] == pytest.approx(before[others], rel=1e-9)
    doubt(f)  # which is not contradicted any more
    assert f.variances[i] == pytest.approx(expected, rel=1e-6)


def test_a_parameter_that_may_have_been_falsified_is_not_contradicted_by_what_was_found_before():
    """Estimates stay, and information about them is taken back: that is not a far larger error, seen vaguely.

    False fixes that had been followed left a latency of 4.5 σ at 0.96 σ²; measurements alone seemed to say 2.3 s,
    which moved the car by 45 m.
    """
    f, sigma = make_moving(), 0.02
    estimate(f, GNSS.latency, -4.5 * sigma, 0.1 * sigma**2)
    before, place = f.slow.get(GNSS.latency), f.states.index(GNSS.latency, "")
    f.add_variance(GNSS.latency, "", 0.86 * sigma**2)
    variances = f.variances
    doubt(f)
    assert np.array_equal(f.slow.get(GNSS.latency), before)
    assert np.array_equal(f.variances, variances)
    # A contradiction by measurements alone still is one.
    estimate(f, GNSS.latency, -13.5 * sigma, 0.1 * sigma**2)
    doubt(f)
    assert f.variances[place] > 1.05 * 0.1 * sigma**2


@pytest.mark.parametrize(("explained", "is_doubted"), [(17.0, True), (19.0, False)])
def test_a_parameter_is_doubted_only_beyond_what_something_else_explains(explained, is_doubted):
    """Measurements alone make 18 σ of it."""
    f, sigma = make_moving(), Unknowns().steering_offset
    estimate(f, STEERING_OFFSET, -12.0 * sigma, sigma**2 / 3)
    before = f.variances
    for _ in range(12):
        f.widen_parameters({STEERING_OFFSET: explained * sigma})
    assert np.array_equal(f.variances, before) != is_doubted


@pytest.mark.parametrize(("element", "is_doubted"), [("x", True), ("z", False)])
def test_the_height_of_an_antenna_is_not_doubted(element, is_doubted):
    """It shows by roll and pitch alone, which no model of car and road knows that well."""
    f = make_moving()
    i, before = f.states.index(GNSS.antenna, element), 0.9 * 0.003**2
    set_slow_state(f, i, -0.03)
    f.set_variance(GNSS.antenna, element, before)
    doubt(f)
    assert (f.variances[i] > 2.0 * before) == is_doubted


@pytest.mark.parametrize(("value", "share"), [(9.0, 0.01), (0.9, 0.99), (5.0, 1.0), (5.0, 1.2)])
def test_what_measurements_do_not_contradict_is_not_doubted(value, share):
    """An estimate within ten σ of what is known of it; and one that no measurement has made, of any size."""
    f, sigma = make_moving(), Unknowns().steering_offset
    estimate(f, STEERING_OFFSET, value * sigma, share * sigma**2)
    doubt(f)
    assert f.variances[index(f, STEERING_OFFSET)] == pytest.approx(share * sigma**2)


@pytest.mark.parametrize("days", [0.0, 5.0, 1000.0])
@pytest.mark.parametrize(("value", "sigma"), [(0.5, 0.98), (0.5, 0.1), (30.0, 0.5), (30.0, 5.0)])
def test_what_an_earlier_drive_has_found_is_not_doubted_by_itself(value, sigma, days):
    """In units of the initial σ; also what that drive has doubted itself, and what time has made uncertain."""
    f, given = make_moving(), Unknowns().steering_offset
    f.slow.set_parameters({"steering_offset": SlowState(value * given, sigma * given, "rad")}, days * 86400.0)
    i, (begin,) = index(f, STEERING_OFFSET), f.slow.get(STEERING_OFFSET)
    before = f.variances[i]
    assert (sigma * given) ** 2 <= before * (1.0 + 1e-9)
    assert before <= max(1.0, value**2 + sigma**2) * given**2 * (1.0 + 1e-9)
    if days == 0.0:
        assert (begin, before) == pytest.approx((value * given, (sigma * given) ** 2))
    if days == 1000.0:
        assert abs(begin) < 1e-3 * max(1.0, value) * given
    doubt(f)
    assert f.variances[i] == pytest.approx(before)
    assert f.slow.get(STEERING_OFFSET) == pytest.approx([begin])
