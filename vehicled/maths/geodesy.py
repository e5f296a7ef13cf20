"""Between the world frame and geodetic coordinates: WGS 84."""

from __future__ import annotations

import math
from operator import sub
from typing import Protocol

import numpy as np

MEAN_RADIUS = 6.371e6
"""m: of the Earth, for directions and speeds."""
_AXIS, _FLATTENING = 6378137.0, 1 / 298.257223563
"""Semi-major axis, m, and flattening of the ellipsoid of WGS 84."""
_SHORT_AXIS = _AXIS * (1.0 - _FLATTENING)
_ECCENTRICITY = _FLATTENING * (2.0 - _FLATTENING)
"""Square of the first eccentricity."""
_SECOND = _ECCENTRICITY / (1.0 - _ECCENTRICITY)
"""Square of the second eccentricity."""


class Geodetic(Protocol):
    """Latitude and longitude in radians, height above the ellipsoid in m."""

    @property
    def latitude(self) -> float:
        """rad, positive north."""

    @property
    def longitude(self) -> float:
        """rad, positive east."""

    @property
    def height(self) -> float:
        """m, above the WGS 84 ellipsoid."""


class WorldOrigin:
    """A local east-north-up tangent plane and its place on the Earth."""

    def __init__(self, latitude: float, longitude: float, height: float) -> None:
        """Degrees, degrees, metres above the ellipsoid."""
        self.latitude, self.longitude, self.height = latitude, longitude, height
        self._ecef = _to_ecef(latitude, longitude, height)
        angles = math.radians(latitude), math.radians(longitude)
        self._directions = [(math.cos(a), math.sin(a)) for a in angles]
        """Cosine and sine of latitude and longitude."""

    @classmethod
    def of(cls, given: Geodetic) -> WorldOrigin:
        """The origin at a place in radians, as configurations give it."""
        return cls(math.degrees(given.latitude), math.degrees(given.longitude), given.height)

    def to_world(self, latitude: float, longitude: float, height: float) -> np.ndarray:
        """(3,) east, north, up in m."""
        # In plain numbers, as fixes come in the midst of a step of the filter.
        x, y, z = map(sub, _to_ecef(latitude, longitude, height), self._ecef)
        (cos_lat, sin_lat), (cos_lon, sin_lon) = self._directions
        outwards = cos_lon * x + sin_lon * y
        return np.array(
            [cos_lon * y - sin_lon * x, cos_lat * z - sin_lat * outwards, cos_lat * outwards + sin_lat * z]
        )

    def from_plane(self, other: WorldOrigin) -> np.ndarray:
        """(3, 4) rotation, and translation in m, from the plane about another origin to this one."""
        place = self.to_world(other.latitude, other.longitude, other.height)
        return np.column_stack([self._axes.T @ other._axes, place])

    @property
    def _axes(self) -> np.ndarray:
        """(3, 3) columns east, north and up, geocentric."""
        (cos_lat, sin_lat), (cos_lon, sin_lon) = self._directions
        return np.array(
            [
                [-sin_lon, -sin_lat * cos_lon, cos_lat * cos_lon],
                [cos_lon, -sin_lat * sin_lon, cos_lat * sin_lon],
                [0.0, cos_lat, sin_lat],
            ]
        )

    def find_north(self, latitude: float, longitude: float) -> float:
        """Where north is at a place (degrees): rad, clockwise from the y axis of this plane.

        Meridians converge: 10 km east of an origin at 52° of latitude, it is 0.11° counter-clockwise.
        """
        phi, (cos, sin) = math.radians(latitude), self._directions[0]
        east = math.radians(longitude - self.longitude)
        north = math.cos(phi) * cos + math.sin(phi) * sin * math.cos(east)
        return math.atan2(-math.sin(phi) * math.sin(east), north)

    def to_geodetic(self, position: np.ndarray) -> tuple[float, float, float]:
        """Latitude and longitude in degrees, and height in m, of a world position (3,)."""
        # Plain numbers: this is done in each step of the filter, and operations on arrays so small take longer.
        east, north, up = position.tolist()
        x0, y0, z0 = self._ecef
        (cos_lat, sin_lat), (cos_lon, sin_lon) = self._directions
        outwards = cos_lat * up - sin_lat * north
        return _from_ecef(
            x0 + cos_lon * outwards - sin_lon * east,
            y0 + sin_lon * outwards + cos_lon * east,
            z0 + cos_lat * north + sin_lat * up,
        )


def _to_ecef(latitude: float, longitude: float, height: float) -> tuple[float, float, float]:
    """Geocentric place, m, of one in degrees and m above the ellipsoid."""
    phi, lam = math.radians(latitude), math.radians(longitude)
    cos, sin = math.cos(phi), math.sin(phi)
    squared = (1.0 - _FLATTENING) ** 2
    n = _AXIS / math.sqrt(cos * cos + squared * sin * sin)
    away = (n + height) * cos
    return away * math.cos(lam), away * math.sin(lam), (squared * n + height) * sin


def _from_ecef(x: float, y: float, z: float) -> tuple[float, float, float]:
    """Degrees, and m above the ellipsoid, of a geocentric place, m.

    By B. R. Bowring, "The accuracy of geodetic latitude and height equations", Survey Review 28 (1985): without
    iteration, right to 2 µm from 1 km below the ellipsoid to 400 km above it.
    """
    away = math.hypot(x, y)
    rise, run = _SHORT_AXIS * z * (1.0 + _SECOND * _SHORT_AXIS / math.hypot(away, z)), _AXIS * away
    length = math.hypot(rise, run)
    sin, cos = rise / length, run / length  # of the parametric latitude
    rise, run = z + _SECOND * _SHORT_AXIS * sin**3, away - _ECCENTRICITY * _AXIS * cos**3
    length = math.hypot(rise, run)
    sin, cos = rise / length, run / length
    height = away * cos + z * sin - _AXIS * math.sqrt(1.0 - _ECCENTRICITY * sin * sin)
    return math.degrees(math.atan2(rise, run)), math.degrees(math.atan2(y, x)), height
