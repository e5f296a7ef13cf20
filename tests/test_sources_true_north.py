"""Directions far from the origin of the tangent plane."""

import math

import numpy as np
import pymap3d
import pytest

from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import Measurement
from vehicled.sources.gnss.true_north import TrueNorth
from vehicled.sources.world import WorldFrame

ORIGIN = WorldOrigin(52.0, 10.0, 100.0)
PLACES = [(52.0, 10.6), (52.0, 9.4), (52.5, 10.5), (51.6, 10.0)]


def about(origin: WorldOrigin | None, known: bool = False) -> WorldFrame:
    """A world with that origin; `known`: whether estimates are relative to it."""
    world = WorldFrame(None)
    world.origin, world.known = origin, known
    return world


@pytest.mark.parametrize("place", PLACES)
def test_north_is_the_direction_to_a_place_farther_north(place):
    ahead = ORIGIN.to_world(place[0] + 1e-5, place[1], 0.0) - ORIGIN.to_world(*place, 0.0)
    assert ORIGIN.find_north(*place) == pytest.approx(math.atan2(ahead[0], ahead[1]), abs=1e-6)


def test_meridians_converge_by_a_tenth_of_a_degree_in_ten_kilometres():
    lat, lon, _ = pymap3d.enu2geodetic(10_000.0, 0.0, 0.0, 52.0, 10.0, 100.0)
    assert math.degrees(ORIGIN.find_north(lat, lon)) == pytest.approx(-0.115, abs=0.001)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("receiver", ["gnss", "gnss2"])
def test_velocity_and_directions_are_turned_into_the_plane(place, receiver):
    """One metre per second, by two places and by the measurements of a receiver there."""
    lat, lon = place
    vn, ve = 0.6, -0.8
    there = pymap3d.enu2geodetic(ve, vn, 0.0, lat, lon, 0.0)
    expected = (ORIGIN.to_world(*there) - ORIGIN.to_world(lat, lon, 0.0))[:2]
    course = math.atan2(ve, vn) % math.tau
    values = {"lat": lat, "lon": lon, "vn": vn, "ve": ve, "course": course, "heading": course}
    m = Measurement(receiver, 5, 7, {f"{receiver}.{what}": v for what, v in values.items()})

    found = TrueNorth().turn(m, about(ORIGIN))

    v = {c.split(".")[1]: value for c, value in found.values.items()}
    assert (found.t, found.arrival, list(found.values)) == (5, 7, list(m.values))
    assert np.array([v["ve"], v["vn"]]) == pytest.approx(expected, abs=1e-4)
    for direction in (v["course"], v["heading"]):
        assert (math.sin(direction), math.cos(direction)) == pytest.approx(tuple(expected), abs=1e-4)


def test_messages_without_a_place_are_turned_by_that_of_the_latest_fix():
    north = TrueNorth()
    place = Measurement("g", 0, 0, {"gnss.lat": 52.0, "gnss.lon": 10.6})
    assert north.turn(place, about(ORIGIN)) is place
    found = north.turn(Measurement("g", 0, 0, {"gnss.course": 1.0}), about(ORIGIN))
    assert found.values["gnss.course"] == pytest.approx(1.0 + ORIGIN.find_north(52.0, 10.6))
    rates = Measurement("imu", 0, 0, {"imu.wz": 1.0})
    assert north.turn(rates, about(ORIGIN)) is rates
    assert north.turn(Measurement("g", 0, 0, {"gnss.course": 1.0}), about(None)).values == {
        "gnss.course": 1.0
    }


def test_too_far_from_a_configured_origin_nothing_is_turned():
    m = Measurement("g", 0, 0, {"gnss.lat": 52.0, "gnss.lon": 30.0, "gnss.course": 1.0})
    assert TrueNorth().turn(m, about(ORIGIN)).values == m.values


def test_on_a_long_drive_directions_are_turned_however_far_it_goes():
    """137 km from the origin of the estimates, which are in its plane."""
    m = Measurement("g", 0, 0, {"gnss.lat": 52.0, "gnss.lon": 12.0, "gnss.course": 1.0})
    found = TrueNorth().turn(m, about(ORIGIN, known=True)).values["gnss.course"]
    assert found == pytest.approx(1.0 + ORIGIN.find_north(52.0, 12.0))


@pytest.mark.parametrize(("latitude", "away"), [(78.0, 90e3), (85.0, 60e3), (89.9, 1e3), (89.9, 5e3)])
def test_directions_are_turned_into_the_plane_near_the_poles(latitude, away):
    """As far as a configured origin is used: there are almost 4° or more between the norths."""
    origin = WorldOrigin(latitude, 20.0, 0.0)
    lat, lon, _ = pymap3d.enu2geodetic(away, 0.0, 0.0, latitude, 20.0, 0.0)
    ahead = origin.to_world(lat + 1e-5, lon, 0.0) - origin.to_world(lat, lon, 0.0)
    north = math.atan2(ahead[0], ahead[1])
    assert abs(north) > math.radians(3.7)
    m = Measurement("gnss", 0, 0, {"gnss.lat": lat, "gnss.lon": lon, "gnss.course": 1.0})
    assert TrueNorth().turn(m, about(origin)).values["gnss.course"] == pytest.approx(
        (1.0 + north) % math.tau, abs=1e-4
    )
