"""Late observations of a linear system with Gaussian noise, against the filter that had them in time."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from late_rig import CONSIDERED, STEPS, Fix, LinearFilter, make_fixes
from late_rig import H_NS as H

from vehicled.filter.covariance import MISSING
from vehicled.symbolic.record_code import NO_MOMENT

DELAYS = {
    "one": [1],
    "long": [40],
    "in order, one within the lateness of the next": [12] * 20,
    "out of order": [30, 3, 25, 1, 17, 30, 2, 9, 5, 20],
}


@pytest.mark.parametrize("delays", DELAYS.values(), ids=DELAYS)
def test_late_observations_are_as_good_as_timely_ones(delays):
    """State and covariance after the last arrival are those of the filter that had all of them in time."""
    fixes = make_fixes(1, delays)
    timely = [Fix(f.step, f.step, f.rows, f.noise, f.value) for f in fixes]
    late, oracle = LinearFilter(7).drive(fixes), LinearFilter(7).drive(timely)
    without = LinearFilter(7).drive([f for f in fixes if f.arrival == f.step])
    assert late.state == pytest.approx(oracle.state, rel=1e-9, abs=1e-9)
    assert late.covariance == pytest.approx(oracle.covariance, rel=1e-9, abs=1e-9)
    assert np.abs(without.covariance - oracle.covariance).max() > 1e-7


def test_late_observations_are_exact_if_others_do_not_correct_a_state():
    """IMU samples, for example, do not correct the latency of fixes. All other states are as with a timely fix."""

    def leave_out(fix: Fix) -> Fix:
        rows = fix.rows.copy()
        rows[:, CONSIDERED] = 0.0
        return dataclasses.replace(fix, rows=rows, corrects_all=False)

    *timely, late = make_fixes(1, [40])
    samples, in_time = list(map(leave_out, timely)), dataclasses.replace(late, arrival=late.step)
    assert late.rows[:, CONSIDERED].any()
    found, oracle, without = (LinearFilter(7).drive([*each, *samples]) for each in ([late], [in_time], []))
    others = np.arange(len(found.state)) != CONSIDERED
    assert found.state[others] == pytest.approx(oracle.state[others], rel=1e-9, abs=1e-9)
    assert found.covariance[others] == pytest.approx(oracle.covariance[others], rel=1e-9, abs=1e-9)
    assert np.abs(without.covariance - oracle.covariance)[others].max() > 1e-7


def test_evaluating_a_late_observation_changes_nothing():
    filter = LinearFilter(3).drive(make_fixes(3, [20]))
    before = filter.errors.matrix, filter.errors.x.copy()
    later = make_fixes(4, [20])[-1]
    first, second = (filter.evaluate(later, STEPS - 1) for _ in range(2))
    assert first == second
    assert np.array_equal(filter.errors.matrix, before[0])
    assert np.array_equal(filter.errors.x, before[1])


def test_a_missing_component_of_a_late_observation_has_no_effect():
    *timely, late = make_fixes(3, [20])
    assert len(late.rows) > 1
    missing = dataclasses.replace(late, noise=np.array([MISSING, *late.noise[1:]]))
    rest = dataclasses.replace(late, rows=late.rows[1:], noise=late.noise[1:], value=late.value[1:])
    with_it, without = (LinearFilter(7).drive([*timely, fix]) for fix in (missing, rest))
    assert with_it.state == pytest.approx(without.state, abs=1e-9)
    assert with_it.covariance == pytest.approx(without.covariance, abs=1e-9)


def change_after(step: int, change: Callable[[LinearFilter], None], fixes: list[Fix]) -> LinearFilter:
    """The filter of these fixes, changed at the end of a step."""
    filter = LinearFilter(7)

    def after(ended: int) -> None:
        if ended == step:
            change(filter)
            filter.apply()

    return filter.drive(fixes, after)


def test_a_late_observation_does_not_correct_a_state_that_was_set_meanwhile():
    """The variance of state 4 is set between a late observation and its arrival."""
    *timely, late = make_fixes(6, [20])
    others = late.rows.copy()
    assert others[:, 4].any()
    others[:, 4] = 0.0
    with_it, without = (
        change_after(late.step + 10, lambda f: f.errors.set_variance(4, 1e-12), [*timely, fix])
        for fix in (late, dataclasses.replace(late, rows=others))
    )
    assert with_it.covariance == pytest.approx(without.covariance, abs=1e-6)


def add_error(filter: LinearFilter) -> None:
    """Add an independent error to state 4."""
    added = np.zeros(7)
    added[4] = 0.3
    filter.errors.add_variances(added)


def remove_information(filter: LinearFilter) -> None:
    """Remove the information of a wrong prior from state 2."""
    filter.errors.remove_information(2, 0.1, -filter.state[2])


def replace_state(filter: LinearFilter) -> None:
    """Replace state 4 by another one with its own estimate and variance."""
    filter.state[4] = 0.5
    filter.errors.replace(4, 0.2)


@pytest.mark.parametrize("change", [add_error, remove_information, replace_state])
def test_late_observations_are_exact_if_states_are_changed_meanwhile(change):
    """A change while an observation is under way gives the same result as after a timely observation."""
    *timely, late = make_fixes(6, [20])
    in_time = dataclasses.replace(late, arrival=late.step)
    found, expected = (change_after(late.step + 5, change, [*timely, fix]) for fix in (late, in_time))
    assert found.state == pytest.approx(expected.state, abs=1e-9)
    assert found.covariance == pytest.approx(expected.covariance, abs=1e-9)


def test_a_flood_of_observations_shortens_the_memory(monkeypatch):
    monkeypatch.setattr("vehicled.filter.history.MOST_EVENTS", 20)
    history = LinearFilter(0, memory=0.2)
    for step in range(1, 40):
        history.predict(step)
        for fix in make_fixes(step, [1])[:5]:
            history.observe(dataclasses.replace(fix, step=step), step)
    assert history.history.find(35 * H, 0.0) >= 0
    assert history.history.find(33 * H, 0.0) == NO_MOMENT


def test_an_observation_beyond_its_limit_has_no_effect():
    """It does not change the update by a late observation that arrives after it either."""
    filter, without = LinearFilter(7), LinearFilter(7)
    late = make_fixes(6, [20])[-1]
    for each in (filter, without):
        for step in range(1, late.arrival + 1):
            each.predict(step)
            rejected = dataclasses.replace(late, step=step, value=late.value + 100.0)
            if each is filter and step > late.step:
                assert not each.observe(rejected, step, limit=1.0)
            each.apply()
        assert each.observe(late, late.arrival)
    assert np.array_equal(filter.errors.matrix, without.errors.matrix)
    assert np.array_equal(filter.errors.x, without.errors.x)


def test_a_late_observation_that_arrives_after_hundreds_of_others_is_exact():
    *_, late = make_fixes(6, [20])
    others = [
        dataclasses.replace(f, step=late.step + 5, arrival=late.step + 5) for f in make_fixes(5, [1] * 10)
    ]
    in_time = dataclasses.replace(late, arrival=late.step)
    found, expected = (LinearFilter(7).drive([*others * 10, fix]) for fix in (late, in_time))
    assert len(others) * 10 > 256
    assert found.state == pytest.approx(expected.state, abs=1e-9)
    assert found.covariance == pytest.approx(expected.covariance, abs=1e-9)
