"""Whether a car that seems to stand may have pulled off, by the change of its longitudinal acceleration."""

import numpy as np
import pytest

from vehicled.sources.departure import Departure

STANDS = 20.0
"""s"""


def follow(ahead, seconds: float = 40.0, noise: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """Times (s), and whether a departure is possible then; `ahead`: acceleration, m/s², as means of 20 ms."""
    departure, random = Departure(), np.random.default_rng(3)
    t = np.arange(0.0, seconds, 0.02)
    possible = []
    for at in t:
        departure.take(at, ahead(at) + noise * random.standard_normal())
        possible.append(departure.is_possible(at))
    return t, np.array(possible)


@pytest.mark.parametrize("slope", [0.0, 0.8])
def test_a_departure_is_ruled_out_after_ten_seconds_at_rest(slope):
    t, possible = follow(lambda t: slope)
    assert possible[t < 10.0].all()
    assert not possible[t > 10.5].any()


@pytest.mark.parametrize(("pull", "within"), [(2.0, 0.1), (0.5, 0.2), (0.15, 0.7)])
def test_a_departure_is_noticed_before_the_car_is_fast(pull, within):
    t, possible = follow(lambda t: pull if t > STANDS else 0.0)
    assert not possible[(t > 11.0) & (t < STANDS)].any()
    assert possible[(t > STANDS + within) & (t < STANDS + 10.0)].all()


def test_after_pulling_off_a_car_may_go_on_at_a_steady_speed():
    t, possible = follow(lambda t: 1.0 if STANDS < t < STANDS + 0.5 else 0.0)
    assert possible[(t > STANDS + 0.2) & (t < STANDS + 9.0)].all()


def test_a_departure_is_possible_without_accelerometers_and_after_a_gap():
    assert Departure().is_possible(100.0)
    departure = Departure()
    for k in range(1000):
        departure.take(0.02 * k, 0.0)
    assert not departure.is_possible(20.0)
    assert departure.is_possible(20.5)
    departure.take(30.0, 0.0)
    assert departure.is_possible(30.0)
