"""One of three speeds that contradicts both others, by made-up averages of half a second."""

import numpy as np
import pytest

from vehicled.sources.averages import Averages
from vehicled.sources.speed_vote import SpeedVote


def vote(
    receiver: float = 1.0,
    bus: float = 1.0,
    positions: float | None = 1.0,
    seconds: float = 10.0,
    speed: float = 15.0,
    noise: float = 0.02,
) -> SpeedVote:
    """After a while in which these speeds are so many times the car's, with noise of positions, m/s."""
    found, rng = SpeedVote(), np.random.default_rng(1)
    for _ in range(round(2.0 * seconds)):
        by_position = None if positions is None else positions * speed + noise * rng.standard_normal()
        found.take(
            Averages(
                {"gnss.speed": receiver * speed, "vehicle.speed": bus * speed}, position_speed=by_position
            )
        )
    return found


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_the_speed_that_two_others_contradict_is_found_within_two_seconds(scale):
    assert vote(bus=scale, seconds=2.0).wrong == {"vehicle.speed"}
    assert vote(receiver=scale, seconds=2.0).wrong == {"gnss.speed"}


def test_what_wheels_and_speedometers_are_off_by_is_not():
    assert vote(bus=1.05, receiver=0.995).wrong == set()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"bus": 1.1, "positions": None}, id="without positions"),
        pytest.param({"positions": 1.1}, id="positions alone are off"),
        pytest.param({"bus": 1.1, "receiver": 0.9}, id="all differ"),
        pytest.param({"bus": 1.1, "noise": 3.0}, id="positions are noise"),
        pytest.param({"bus": 1.1, "speed": 3.0}, id="slow"),
    ],
)
def test_nothing_is_found_where_two_do_not_agree(case):
    assert vote(**case).wrong == set()


def test_a_speed_that_agrees_again_is_used_again():
    found = vote(bus=1.1)
    for _ in range(5):
        found.take(Averages({"gnss.speed": 15.0, "vehicle.speed": 15.0}, position_speed=15.0))
    assert found.wrong == set()
