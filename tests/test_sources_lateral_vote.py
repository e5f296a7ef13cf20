"""A lateral accelerometer against gyroscope and course, on samples of a car that turns at constant speed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from vehicled.messages import Measurement
from vehicled.sources.checks.lateral_vote import LateralVote
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import Imu

Signal = Callable[[float], float]
SPEED, GRAVITY, BEGINS = 20.0, 9.81, 3.0
RATE, LATE = 250, 0.08


def slalom(t: float) -> float:
    return 0.25 * math.sin(1.2 * t)


def bend(t: float) -> float:
    return 0.25 * min(max(t - 1.0, 0.0), 1.0)


def on_ice(t: float) -> float:
    """The share of a bend's curvature that remains on ice."""
    return 1.0 if t < BEGINS else 0.2


def drive(
    turning: Signal = bend,
    path: Signal = lambda t: 1.0,
    force: Callable[[float, float], float] = lambda t, a: a,
    gyroscope: Callable[[float, float], float] = lambda t, w: w,
    course_jump: float = 0.0,
    seconds: float = 12.0,
    imu: Imu | None = None,
    split: bool = False,
    steering: Signal | None = None,
    silent: str = "",
    refused: str = "",
) -> list[float]:
    """Times, s, at which the accelerometer was found to be wrong, and right again; ends once the axis `silent` is.

    `path`: curvature of the path over that by the yaw rate; `force`, `gyroscope`: readings by time and true value;
    `steering`: yaw rate by the steering angle.
    """
    random, vote = np.random.default_rng(2), LateralVote(imu or Imu(), Gnss(), GRAVITY)
    channel = "imu.ax" if imu else "imu.ay"
    course, found, courses = 0.0, [], []
    for k in range(round(seconds * RATE)):
        t = k / RATE
        rate = turning(t)
        course -= rate * path(t) / RATE
        values = dict.fromkeys(("imu.ax", "imu.ay", "imu.wx", "imu.wy"), 0.0) | {"imu.az": GRAVITY}
        values[channel] = force(t, SPEED * rate * path(t)) + 0.3 * random.standard_normal()
        values["imu.wz"] = gyroscope(t, rate) + 0.002 * random.standard_normal()
        at = round(t * 1e9)
        if t > BEGINS:
            values.pop(refused, None)
        parts = [{c: v} for c, v in values.items()] if split else [values]
        for part in parts:
            vote.take(Measurement("imu", at, at, part), SPEED, steering and steering(t))
            if vote.silent:
                assert vote.silent.channel == silent
                return [*found, t]
        courses.append((at, course))
        if k % (RATE // 5) == 0 and t > LATE:
            measured_at, measured = courses[-1 - round(LATE * RATE)]
            measured += course_jump * (t > BEGINS) + 0.0025 * random.standard_normal()
            vote.take(
                Measurement("gnss", measured_at, at, {"gnss.course": measured, "gnss.s_acc": 0.05}),
                SPEED,
                steering and steering(t),
            )
        if bool(vote.wrong) != bool(len(found) % 2):
            found.append(t)
    return found


@pytest.mark.parametrize(
    "of",
    [
        {},
        {"turning": slalom},
        {"path": on_ice},
        {"force": lambda t, a: a + 1.0},
        {"gyroscope": lambda t, w: w + 0.3 * (t > BEGINS)},
        {"gyroscope": lambda t, w: 0.0},
        {"course_jump": 0.5},
    ],
    ids=["bend", "slalom", "ice", "bias", "wrong gyroscope", "dead gyroscope", "course that jumps"],
)
def test_a_sound_accelerometer_is_used(of):
    assert drive(**of) == []


@pytest.mark.parametrize("turning", [bend, slalom])
@pytest.mark.parametrize("split", [False, True])
def test_a_dead_accelerometer_is_found_within_a_second_of_a_bend(turning, split):
    (found,) = drive(turning, force=lambda t, a: a * (t < BEGINS), split=split)
    due = (
        BEGINS if turning is bend else next(t for t in np.arange(BEGINS, 9.0, 0.01) if abs(slalom(t)) > 0.15)
    )
    assert due < found < due + 1.0


def test_it_is_used_again_once_it_agrees_in_a_bend():
    found, again = drive(force=lambda t, a: a * (not BEGINS < t < 5.0))
    assert BEGINS < found < 4.0
    assert 6.0 < again < 7.5


def test_the_axis_that_measures_to_the_left_is_the_one_that_is_judged():
    turned = Imu(rotation=(0.0, 0.0, math.radians(90.0)))
    assert drive(imu=turned) == []
    assert len(drive(imu=turned, force=lambda t, a: a * (t < BEGINS))) == 1


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    ("silent", "of"),
    [("imu.ay", {"force": lambda t, a: 0.0}), ("imu.wz", {"gyroscope": lambda t, w: 0.0})],
)
def test_an_axis_that_measures_nothing_is_found_at_once_if_the_steering_shows_the_bend(silent, of, split):
    (found,) = drive(**of, split=split, steering=lambda t: 0.8 * bend(t), silent=silent)
    begins = next(t for t in np.arange(0.0, 4.0, 0.004) if SPEED * bend(t) > 2.0)
    assert begins < found < begins + 0.2


@pytest.mark.parametrize(
    "of",
    [
        {"steering": bend},
        {"turning": slalom, "steering": lambda t: slalom(t + 0.1)},
        {"path": lambda t: 0.1, "steering": lambda t: 0.0},
        {"gyroscope": lambda t, w: w + 0.3, "turning": lambda t: 0.0, "steering": lambda t: 0.0},
    ],
    ids=["bend", "slalom that the steering leads", "spin", "wrong gyroscope"],
)
def test_an_axis_that_measures_little_is_not_taken_for_one_that_is_lost(of):
    assert drive(**of, seconds=6.0) == []


@pytest.mark.parametrize("refused", ["imu.wz", "imu.ay"])
def test_an_axis_that_is_not_used_any_more_makes_no_other_one_wrong(refused):
    assert drive(slalom, steering=slalom, refused=refused) == []
