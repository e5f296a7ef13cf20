"""Conversion between world and geodetic coordinates: round trips, and the expansion near a point."""

import numpy as np
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


@pytest.mark.parametrize("place", PLACES)
def test_round_trip_along_a_drive_is_within_a_tenth_of_a_millimetre(place):
    """Step by step, so that most of it goes through the expansion; then a jump of 5 km."""
    origin = WorldOrigin(*place)
    rng = np.random.default_rng(0)
    position = np.array([500.0, -2000.0, 8.0])
    largest = 0.0
    for k in range(600):
        position += rng.normal(size=3) * (2.0, 2.0, 0.3)
        if k == 400:
            position += (4000.0, 3000.0, 20.0)
        back = origin.to_world(*origin.to_geodetic(position))
        largest = max(largest, float(np.linalg.norm(back - position)))
    assert largest < 1e-4


@pytest.mark.parametrize("latitude", [0.0, 43.33, -75.0])
def test_the_expansion_is_as_exact_as_promised_up_to_its_limit(latitude):
    """The Earth falls away by d²/2R, 8 µm at 10 m; meridians converge by d² tan φ / 2R, 29 µm at 75°."""
    origin = WorldOrigin(latitude, -8.41, 100.0)
    centre = np.array([1000.0, 1000.0, 0.0])
    origin.to_geodetic(centre)
    diagonal = np.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]]) / np.sqrt(2)
    for direction in np.vstack([np.eye(3), -np.eye(3), diagonal, -diagonal]):
        position = centre + 9.99 * direction
        back = origin.to_world(*origin.to_geodetic(position))
        assert np.linalg.norm(back - position) < 5e-5


def test_nan_gives_nan_and_does_not_affect_later_results():
    origin = WorldOrigin(43.33, -8.41, 100.0)
    assert np.isnan(origin.to_geodetic(np.full(3, np.nan))).all()
    assert np.isfinite(origin.to_geodetic(np.zeros(3))).all()
