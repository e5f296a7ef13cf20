"""A speed that positions and another speed contradict, with simulated averages over half a second."""

import numpy as np
import pytest

from vehicled.sources.checks.speed_vote import SpeedVote


def vote(
    seconds: float = 10.0, speed: float = 15.0, noise: float = 0.02, **scales: float | None
) -> SpeedVote:
    """The vote after `seconds`; `scales`: each speed over the car's; `noise`: of positions, m/s."""
    found, rng = SpeedVote(), np.random.default_rng(1)
    scales = {"positions": 1.0, "receiver": 1.0, "bus": 1.0} | scales
    for _ in range(round(2.0 * seconds)):
        speeds = {NAMES[name]: scale * speed for name, scale in scales.items() if scale is not None}
        if "position" in speeds:
            speeds["position"] += noise * rng.standard_normal()
        found.take(speeds)
    return found


NAMES = {
    "positions": "position",
    "receiver": "gnss.speed",
    "bus": "vehicle.speed",
    "wheels": "wheel speeds",
}


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_the_speed_that_two_others_contradict_is_found_within_two_seconds(scale):
    assert vote(bus=scale, seconds=2.0).wrong == {"vehicle.speed"}
    assert vote(receiver=scale, seconds=2.0).wrong == {"gnss.speed"}


def test_usual_scale_errors_of_speedometers_are_not_reported():
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
def test_no_speed_is_wrong_unless_positions_and_another_speed_contradict_it(case):
    assert vote(**case).wrong == set()


def test_a_speed_that_agrees_again_is_used_again():
    found = vote(bus=1.1)
    for _ in range(5):
        found.take({"position": 15.0, "gnss.speed": 15.0, "vehicle.speed": 15.0})
    assert found.wrong == set()


def test_a_wrong_speed_that_is_left_out_for_an_interval_stays_wrong():
    found = vote(receiver=0.8, bus=None, wheels=1.0)
    for _ in range(5):
        found.take({"position": 15.0, "wheel speeds": 15.0})
        assert found.wrong == {"gnss.speed"}


def test_positions_that_come_near_a_wrong_speed_do_not_make_it_right():
    found = vote(receiver=0.9, bus=None, wheels=1.0)
    for _ in range(5):
        found.take({"position": 13.6, "gnss.speed": 13.5, "wheel speeds": 15.0})
    assert found.wrong == {"gnss.speed"}


@pytest.mark.parametrize("scale", [0.54, 0.75, 0.9, 1.1, 1.3])
@pytest.mark.parametrize("radius", [0.98, 1.0, 1.02])
def test_wheels_confirm_positions_against_the_receiver(scale, radius):
    found = vote(bus=None, receiver=scale, wheels=radius, noise=0.3)
    assert found.wrong == {"gnss.speed"}
    factor, _, words = found.find()["gnss.speed"].partition(" ")
    assert float(factor) == pytest.approx(scale, abs=0.03)
    assert words.startswith("times the speed of the positions")


@pytest.mark.parametrize("radius", [0.9, 0.95, 1.05, 1.1])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_wheels_of_another_radius_do_not_outvote_a_receiver(radius, noise):
    for seconds in range(2, 60):
        assert vote(bus=None, wheels=radius, noise=noise, seconds=seconds).wrong == set()


def test_two_speeds_of_the_car_against_two_of_the_receiver_decide_nothing():
    assert vote(bus=1.1, wheels=1.1).wrong == set()


@pytest.mark.parametrize("positions", [0.8, 1.2])
def test_positions_displaced_by_reflections_do_not_outvote_a_speed(positions):
    assert vote(bus=None, wheels=1.02, positions=positions).wrong == set()


def test_a_speed_that_comes_late_is_not_wrong_while_the_car_brakes():
    found, speed = SpeedVote(), 33.0
    for _ in range(7):
        late = speed + 0.25 * 8.0
        found.take({"position": late, "gnss.speed": late, "vehicle.speed": speed, "wheel speeds": speed})
        found.take({"position": speed, "gnss.speed": late, "vehicle.speed": speed, "wheel speeds": speed})
        speed -= 0.5 * 8.0
    assert found.wrong == set()
