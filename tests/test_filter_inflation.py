"""Inflation of variances when observations keep failing their gate."""

import numpy as np
import pytest
from filter_rig import new_filter, place

from vehicled.filter.boundary import Observation
from vehicled.filter.states import ATTITUDE, POSITION, VELOCITY
from vehicled.sources.gnss.model import GNSS2

NONE = (0.0, 0.0)
"""Limits that reject every innovation."""
CASES = {
    "gnss.speed": ([23.0], [1e-4]),
    "gnss.course": ([0.8], [1e-6]),
    "imu.gyro": ([0.1, -0.2, 0.6], [1e-5] * 3),
}


@pytest.mark.parametrize("speed", [3.0, 20.0])
@pytest.mark.parametrize("kind", CASES)
def test_after_inflation_the_innovation_is_about_one_standard_deviation(kind, speed):
    """At any speed the variance of each component's innovation grows by about the innovation squared."""
    f = new_filter()
    place(f, np.zeros(3), 0.3, speed)
    value, variance = CASES[kind]
    observation = Observation(kind, 0, value, variance)
    before = f.update(observation, NONE)
    assert before.reason == "gate"
    f.inflate(observation, before)
    after = f.update(observation, NONE)
    grown = np.array(after.variance) - before.variance
    # A state that several components depend on is inflated once, for the component that needs most.
    assert (grown >= 0.99 * np.square(before.innovation)).all()
    assert grown == pytest.approx(np.square(before.innovation), rel=0.5)


def test_states_that_the_observation_does_not_depend_on_are_not_inflated():
    f = new_filter()
    place(f, np.zeros(3), 0.3, 10.0)
    observation = Observation("gnss.speed", 0, [15.0], [1e-4])
    variances = f.variances
    f.inflate(observation, f.update(observation, NONE))
    opened = set(np.flatnonzero(f.variances > variances))
    assert f.states.index(VELOCITY, "ahead") in opened
    assert opened.isdisjoint(f.states.places(POSITION))
    assert (
        f.states.index(ATTITUDE, "v1z") not in opened or f.variances[f.states.index(ATTITUDE, "v1z")] < 1e-3
    )


def test_states_are_inflated_by_their_own_scale():
    """A wrong GNSS speed inflates the speed, and not the heading, which has a small effect by the lever arm."""
    f = new_filter()
    place(f, np.zeros(3), 0.3, 10.0)
    observation = Observation("gnss.speed", 0, [15.0], [1e-4])
    f.inflate(observation, f.update(observation, NONE))
    assert f.variances[f.states.index(VELOCITY, "ahead")] == pytest.approx(25.0, rel=0.1)
    assert f.variances[f.states.index(ATTITUDE, "yaw")] < 1e-2


def test_adding_variance_to_an_absent_state_changes_nothing():
    f = new_filter()
    place(f, np.zeros(3), 0.3, 10.0)
    before = f.variances.copy()
    latency = GNSS2.latency
    assert latency not in f.states
    f.add_variance(latency, "", 0.02**2)
    assert f.variances == pytest.approx(before)
    f.add_variance(POSITION, "x", 0.5)
    assert f.variances[f.states.index(POSITION, "x")] == pytest.approx(
        before[f.states.index(POSITION, "x")] + 0.5
    )
