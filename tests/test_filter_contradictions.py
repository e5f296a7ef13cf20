"""Detection of parameters whose priors are contradicted by measurements, and their new priors."""

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
"""σ of the prior, m; limit in σ of the estimate; number of consecutive calls."""


def find(largest: float, alone: float, sigma: float) -> dict[int, float]:
    """Result of `CALLS` calls for a parameter that measurements alone estimate as `alone` ± `sigma`."""
    variance = 1.0 / (PRIOR**-2 + sigma**-2)
    estimate = alone * variance / sigma**2
    tested, found = Contradictions(np.array([largest])), {}
    for _ in range(CALLS):
        assert not found
        given = (np.array([x]) for x in (estimate, variance, PRIOR, LIMIT, 0.0))
        found = tested.find(*given, np.array([True]))
    return found


@pytest.mark.parametrize("sigma", [0.01, 0.05])
def test_an_antenna_error_of_half_a_metre_is_found(sigma):
    assert find(2.0, 0.5, sigma) == {0: pytest.approx(0.5, rel=1e-3)}


def test_an_error_within_seven_standard_deviations_is_no_contradiction():
    assert not find(2.0, 0.5, 0.08)


def test_measurements_with_very_little_information_contradict_nothing():
    """The estimate is 0.5 mm, with a prior σ of 3 mm; measurements have removed 0.0004 of the variance."""
    assert not find(np.inf, 1.25, 0.15)


def test_an_antenna_error_beyond_the_largest_possible_one_is_no_contradiction():
    assert find(np.inf, 2.8, 0.09) == {0: pytest.approx(2.8, rel=1e-3)}
    assert not find(2.0, 2.8, 0.09)


def test_of_two_parameters_the_one_that_explains_more_comes_first():
    """The place of a velocity sensor is wrong: its estimate is 8 σ off, and the antenna's, known better, 7.4 σ."""
    sigma, share = np.array([0.003, 0.02]), 0.01
    estimates = np.array([7.4, 8.2]) * sigma * np.sqrt(share)
    given = estimates, sigma**2 * (1.0 - share), sigma, np.full(2, LIMIT), np.zeros(2), np.array([True, True])
    tested = Contradictions(np.array([2.0, 5.0]))
    (found,) = filter(None, [tested.find(*given) for _ in range(CALLS)])
    assert list(found) == [1, 0]


def estimate(f: VehicleFilter, group: Group, value: float, variance: float) -> None:
    set_slow_state(f, index(f, group), value)
    f.set_variance(group, "", variance)


def doubt(f: VehicleFilter) -> None:
    """Test for contradictions for as many calls as one must last."""
    for _ in range(12):
        f.widen_parameters({}, 0.1)
        f.apply_corrections()


def test_a_contradicted_parameter_gets_a_prior_that_allows_its_value():
    """Measurements that reduce the variance σ² to a third give 1.5 times the estimate by themselves."""
    f, sigma = make_moving(), Unknowns().steering_offset
    i = index(f, STEERING_OFFSET)
    estimate(f, STEERING_OFFSET, -12.0 * sigma, sigma**2 / 3)
    others = np.arange(len(f.states)) != i
    before = f.variances
    doubt(f)
    # Measurements have an information of 2/σ² and give −18 σ; the new prior is 18 σ.
    expected = 1.0 / (2.0 / sigma**2 + 1.0 / (18.0 * sigma) ** 2)
    assert f.variances[i] == pytest.approx(expected, rel=1e-6)
    assert f.slow.get(STEERING_OFFSET) == pytest.approx([-18.0 * sigma * 2.0 / sigma**2 * expected], rel=1e-6)
    assert f.variances[others] == pytest.approx(before[others], rel=1e-9)
    doubt(f)  # the new prior is not contradicted
    assert f.variances[i] == pytest.approx(expected, rel=1e-6)


def test_adding_variance_to_a_parameter_does_not_contradict_its_prior():
    """Added variance reduces the information on an estimate, which does not mean a far larger error.

    Before, false fixes had left a latency of 4.5 σ with a variance of 0.96 σ². Measurements alone seemed to give
    2.3 s, which moved the car by 45 m.
    """
    f, sigma = make_moving(), 0.02
    estimate(f, GNSS.latency, -4.5 * sigma, 0.1 * sigma**2)
    before, place = f.slow.get(GNSS.latency), f.states.index(GNSS.latency, "")
    f.add_variance(GNSS.latency, "", 0.86 * sigma**2)
    variances = f.variances
    doubt(f)
    assert np.array_equal(f.slow.get(GNSS.latency), before)
    assert np.array_equal(f.variances, variances)
    # A contradiction by measurements is still found.
    estimate(f, GNSS.latency, -13.5 * sigma, 0.1 * sigma**2)
    doubt(f)
    assert f.variances[place] > 1.05 * 0.1 * sigma**2


@pytest.mark.parametrize(("explained", "is_doubted"), [(17.0, True), (19.0, False)])
def test_a_parameter_is_doubted_only_beyond_the_error_explained_otherwise(explained, is_doubted):
    """Measurements alone give 18 σ."""
    f, sigma = make_moving(), Unknowns().steering_offset
    estimate(f, STEERING_OFFSET, -12.0 * sigma, sigma**2 / 3)
    before = f.variances
    for _ in range(12):
        f.widen_parameters({STEERING_OFFSET: explained * sigma}, 0.1)
    assert np.array_equal(f.variances, before) != is_doubted


@pytest.mark.parametrize(("element", "is_doubted"), [("x", True), ("z", False)])
def test_the_height_of_an_antenna_is_not_doubted(element, is_doubted):
    """The height is observable by roll and pitch alone, which no model of car and road predicts that accurately."""
    f = make_moving()
    i, before = f.states.index(GNSS.antenna, element), 0.9 * 0.003**2
    set_slow_state(f, i, -0.03)
    f.set_variance(GNSS.antenna, element, before)
    doubt(f)
    assert (f.variances[i] > 2.0 * before) == is_doubted


@pytest.mark.parametrize(("value", "share"), [(9.0, 0.01), (0.9, 0.99), (5.0, 1.0), (5.0, 1.2)])
def test_a_parameter_without_a_contradiction_is_not_doubted(value, share):
    """The estimate is within ten σ of its prior, or no measurement has reduced the variance."""
    f, sigma = make_moving(), Unknowns().steering_offset
    estimate(f, STEERING_OFFSET, value * sigma, share * sigma**2)
    doubt(f)
    assert f.variances[index(f, STEERING_OFFSET)] == pytest.approx(share * sigma**2)


@pytest.mark.parametrize("days", [0.0, 5.0, 1000.0])
@pytest.mark.parametrize(("value", "sigma"), [(0.5, 0.98), (0.5, 0.1), (30.0, 0.5), (30.0, 5.0)])
def test_a_value_of_an_earlier_drive_is_not_doubted_without_measurements(value, sigma, days):
    """Values are in units of the initial σ. Some exceed it, as after a doubt; some are old and uncertain."""
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


def test_of_two_parameters_that_only_together_contradict_their_priors_one_is_widened():
    """Measurements give the sum of two errors: once one of them may be large, they tell nothing of the other."""
    f, total, noise = make_moving(), 1.0, 0.02
    pair = [index(f, GNSS.antenna, axis) for axis in "xy"]
    p = f.covariance.copy()
    p[pair], p[:, pair] = 0.0, 0.0
    p[np.ix_(pair, pair)] = np.linalg.inv(np.eye(2) / PRIOR**2 + np.ones((2, 2)) / noise**2)
    f.errors.matrix = p
    for i in pair:
        set_slow_state(f, i, total * PRIOR**2 / (2.0 * PRIOR**2 + noise**2))
    doubt(f)
    found = f.slow.get(GNSS.antenna)[:2]
    assert np.sum(found) == pytest.approx(total, abs=2.0 * noise)
    assert np.max(np.abs(found)) < 1.1 * total
