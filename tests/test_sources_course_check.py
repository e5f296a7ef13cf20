"""Courses that are counted counter-clockwise are detected; sound ones are never suspected."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import vehicled
from vehicled import DaemonConfiguration, Measurement
from vehicled.sources.checks.unit_check import UnitCheck

RATE = 10
"""Hz, of fixes and of the gyroscope."""
EAST, NORTH = 0.5 * math.pi, 0.0
NOISE = 0.05
"""m, of a fix; and m/s, of a velocity."""


@pytest.fixture(scope="module")
def car() -> DaemonConfiguration:
    return vehicled.load_configuration("hatchback")


def drive(
    direction: Callable[[np.ndarray], np.ndarray],
    turned: Callable[[np.ndarray], np.ndarray],
    speed: float = 10.0,
) -> list[Measurement]:
    """Half a minute. By time: `direction`, course clockwise from north; `turned`, heading to the left of it; rad."""
    t, random = np.arange(30 * RATE) / RATE, np.random.default_rng(3)
    course = direction(t)
    heading = turned(t) - course
    degrees = 1.0 / (RATE * 111_195.0)
    lat, lon = (np.cumsum(speed * f(course) * degrees) for f in (np.cos, np.sin))
    lat, lon = (at + random.normal(0.0, NOISE * RATE * degrees, len(t)) for at in (lat, lon))
    course = course + random.normal(0.0, NOISE / speed, len(t))
    rates = np.gradient(heading, t)
    return [
        Measurement(
            "car",
            round(at * 1e9),
            round(at * 1e9),
            {"gnss.lat": a, "gnss.lon": 11.0 + b, "gnss.course": c % math.tau, "imu.wz": w},
        )
        for at, a, b, c, w in zip(t.tolist(), *(x.tolist() for x in (lat, lon, course, rates)), strict=True)
    ]


def weaving(t: np.ndarray) -> np.ndarray:
    """A course that changes by 28° to both sides."""
    return 1.1 + 0.5 * np.sin(0.8 * t)


def circling(t: np.ndarray) -> np.ndarray:
    return 0.3 * t


def along(t: np.ndarray) -> np.ndarray:
    """The heading relative to the course of a car that drives forwards without sideslip."""
    return np.zeros_like(t)


def counted_from(origin: float, measurements: list[Measurement]) -> list[Measurement]:
    """The same with courses that are counted counter-clockwise from `origin`."""
    return [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            m.values | {"gnss.course": (origin - m.values["gnss.course"]) % math.tau},
        )
        for m in measurements
    ]


def check(car: DaemonConfiguration, measurements: list[Measurement]) -> UnitCheck:
    found = UnitCheck(car.sensors, car.vehicle)
    for m in measurements:
        found.take(m)
    return found


@pytest.mark.parametrize("direction", [weaving, circling])
@pytest.mark.parametrize(("origin", "name"), [(EAST, "east"), (NORTH, "north")])
def test_counter_clockwise_courses_are_certain_after_some_turning(
    car: DaemonConfiguration, direction: Callable[[np.ndarray], np.ndarray], origin: float, name: str
) -> None:
    found = check(car, counted_from(origin, drive(direction, along)))
    assert found.wrong == {"gnss.course"}
    assert f"counted counter-clockwise from {name}:" in found.find()["gnss.course"]


def test_counter_clockwise_courses_are_not_certain_on_a_straight_road(car: DaemonConfiguration) -> None:
    found = check(car, counted_from(EAST, drive(lambda t: 2.0 + 0.0 * t, along)))
    assert not found.wrong
    assert "positions move in other directions" in found.find()["gnss.course"]


def test_a_result_found_in_turns_is_kept_on_the_straight_after_them(car: DaemonConfiguration) -> None:
    """On that straight, both senses give the same course."""
    found = check(
        car, counted_from(EAST, drive(lambda t: 0.25 * math.pi + 0.3 * np.minimum(t - 8.0, 0.0), along))
    )
    assert found.wrong == {"gnss.course"}


def test_courses_are_used_again_once_they_are_counted_clockwise(car: DaemonConfiguration) -> None:
    sound = drive(weaving, along)
    found = check(car, [*counted_from(EAST, sound[: 12 * RATE]), *sound[12 * RATE :]])
    assert not found.wrong


SLIDES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "ahead": (weaving, along),
    "circling": (circling, along),
    "backwards": (weaving, lambda t: math.pi + 0.0 * t),
    "a half spin each way": (lambda t: 0.3 + 0.02 * t, lambda t: 1.5 * np.sin(0.9 * t)),
    "spinning on and on": (lambda t: 0.3 + 0.02 * t, lambda t: 1.2 * t),
    "drifting against the bend": (weaving, lambda t: 1.2 * np.sin(0.8 * t)),
}


@pytest.mark.parametrize("name", SLIDES)
def test_a_sound_receiver_is_never_suspected(car: DaemonConfiguration, name: str) -> None:
    """The courses agree with the positions, whatever the heading and the yaw rate."""
    direction, turned = SLIDES[name]
    found = check(car, drive(direction, turned))
    assert not found.wrong
    assert "gnss.course" not in found.find()


@pytest.mark.parametrize("direction", [weaving, circling])
def test_exchanged_latitude_and_longitude_are_not_taken_for_wrong_courses(
    car: DaemonConfiguration, direction: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Compared with positions, both faults look the same; the gyroscope shows which one it is."""
    sound = drive(direction, along)
    swapped = [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            m.values | {"gnss.lat": m.values["gnss.lon"], "gnss.lon": m.values["gnss.lat"]},
        )
        for m in sound
    ]
    assert not check(car, swapped).wrong


def test_a_gyroscope_of_the_wrong_sign_is_not_taken_for_wrong_courses(car: DaemonConfiguration) -> None:
    sound = drive(weaving, along)
    turned = [
        Measurement(m.source, m.t, m.arrival, m.values | {"imu.wz": -m.values["imu.wz"]}) for m in sound
    ]
    assert not check(car, turned).wrong
