"""Conversion between world and geodetic coordinates: against another library, and round trips."""

import numpy as np
import pymap3d
import pytest

from vehicled.maths.geodesy import WorldOrigin

PLACES = [
    (43.33, -8.41, 100.0),
    (-33.9, 151.2, 5.0),
    (0.0, 0.0, 0.0),
    (69.6, 18.9, 300.0),
    (10.0, 179.9999, 0.0),
]


@pytest.mark.parametrize("place", PLACES)
def test_the_origin_is_zero_and_axes_are_east_north_up(place):
    origin = WorldOrigin(*place)
    assert origin.to_world(*place) == pytest.approx([0, 0, 0], abs=1e-8)
    latitude, longitude, height = place
    assert origin.to_world(latitude + 1e-5, longitude, height)[1] == pytest.approx(1.11, abs=0.01)
    east = 1.113 * np.cos(np.radians(latitude))
    assert origin.to_world(latitude, longitude + 1e-5, height)[0] == pytest.approx(east, abs=0.01)
    assert origin.to_world(latitude, longitude, height + 3.0)[2] == pytest.approx(3.0, abs=1e-6)


@pytest.mark.parametrize("height", [-1e3, 0.0, 2e4])
def test_places_all_over_the_earth_are_those_of_an_independent_library(height):
    rng = np.random.default_rng(0)
    for latitude in (*np.degrees(np.arcsin(rng.uniform(-1.0, 1.0, 300))), 90.0, -90.0, 0.0):
        origin = WorldOrigin(float(latitude), float(rng.uniform(-180.0, 180.0)), height)
        position = rng.uniform(-1e4, 1e4, 3)
        expected = pymap3d.enu2geodetic(*position, origin.latitude, origin.longitude, origin.height)
        found = origin.to_geodetic(position)
        assert pymap3d.geodetic2ecef(*found) == pytest.approx(pymap3d.geodetic2ecef(*expected), abs=3e-6)


@pytest.mark.parametrize("place", PLACES)
def test_a_round_trip_ends_where_it_began(place):
    origin = WorldOrigin(*place)
    for position in np.random.default_rng(1).uniform(-3e4, 3e4, (200, 3)):
        assert origin.to_world(*origin.to_geodetic(position)) == pytest.approx(position, abs=3e-6)


def test_at_the_date_line_longitudes_stay_within_half_a_turn():
    origin = WorldOrigin(10.0, 179.9999, 0.0)
    east, west = (origin.to_geodetic(np.array([x, 0.0, 0.0]))[1] for x in (5.0, 50.0))
    assert east == pytest.approx(179.99995, abs=1e-5)
    assert west == pytest.approx(-179.99964, abs=1e-5)


def test_nan_gives_nan_and_does_not_affect_later_results():
    origin = WorldOrigin(43.33, -8.41, 100.0)
    assert np.isnan(origin.to_geodetic(np.full(3, np.nan))).all()
    assert np.isfinite(origin.to_geodetic(np.zeros(3))).all()
