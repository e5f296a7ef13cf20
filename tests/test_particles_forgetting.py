"""The memory of a filter: white innovations lengthen it, innovations of one sign shorten it."""

import numpy as np
import pytest

from vehicled.particles.forgetting import Forgetting

SIGMA = 0.01


def feed(forgetting, seconds, interval, bias, seed=1, scale=1.0, acceleration=1.0):
    """Take innovations of one encoder whose mean is `bias`; return the memory after each."""
    random, memories = np.random.default_rng(seed), []
    for _ in range(round(seconds / interval)):
        off = scale * random.standard_normal() + bias
        forgetting.take([(0, off)], interval, acceleration)
        memories.append(forgetting.memory)
    return np.array(memories)


@pytest.mark.parametrize("interval", [0.002, 0.02])
@pytest.mark.parametrize("scale", [0.6, 1.0, 2.0])
def test_white_innovations_lengthen_the_memory_whatever_their_size(interval, scale):
    """A sensor may be better or worse than its configured deviation."""
    memories = feed(Forgetting(1.0, [SIGMA], [False]), 60.0, interval, 0.0, scale=scale)
    assert memories[0] < 0.15
    assert np.median(memories[len(memories) // 4 :]) > 0.4


@pytest.mark.parametrize("interval", [0.002, 0.02])
def test_innovations_of_one_sign_shorten_the_memory_to_its_limit(interval):
    forgetting = Forgetting(1.0, [SIGMA], [False])
    assert feed(forgetting, 5.0, interval, 3.0)[-1] == pytest.approx(0.5 * interval)
    assert forgetting.density == pytest.approx(SIGMA * interval**0.5 / (0.5 * interval) ** 2)
    assert not forgetting.explains


def test_a_small_unexplained_share_of_large_accelerations_is_accepted():
    forgetting = Forgetting(1.0, [SIGMA], [False])
    feed(forgetting, 5.0, 0.02, 3.0, acceleration=1e5)
    assert forgetting.explains


def test_nothing_is_forgotten_where_the_longest_memory_is_infinite():
    forgetting = Forgetting(np.inf, [SIGMA], [False])
    feed(forgetting, 1.0, 0.02, 3.0)
    assert (forgetting.density, forgetting.explains) == (0.0, True)
