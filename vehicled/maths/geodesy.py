"""Between the world frame and geodetic coordinates: WGS 84."""

from __future__ import annotations

import math
from operator import sub
from typing import Protocol

import numpy as np
import pymap3d

MEAN_RADIUS = 6.371e6
"""m: of the Earth, for directions and speeds."""
_NEAR = 10.0
"""m: so far from its centre is an expansion to first order used; it is then right to 0.05 mm up to 75° of
latitude."""
_STEEPEST = math.tan(math.radians(75.0))
"""Beyond this tangent of the latitude meridians converge faster, and the expansion is used less far."""
_AXIS, _FLATTENING = 6378137.0, 1 / 298.257223563
"""Semi-major axis, m, and flattening of the ellipsoid of WGS 84."""


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
        self._centre = [math.inf] * 3
        self._near_squared = 0.0
        self._value = 0.0, 0.0, 0.0
        self._gradient = [[0.0] * 3] * 3

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
        x, y, z = position.tolist()
        x0, y0, z0 = self._centre
        x, y, z = x - x0, y - y0, z - z0
        if not x * x + y * y + z * z < self._near_squared:
            self._expand(position)
            return self._value
        (a, b, c), ((ax, ay, az), (bx, by, bz), (cx, cy, cz)) = self._value, self._gradient
        return (
            a + (ax * x + ay * y + az * z),
            # A longitude within half a turn is returned to the last bit.
            math.remainder(b + (bx * x + by * y + bz * z), 360.0),
            c + (cx * x + cy * y + cz * z),
        )

    def _expand(self, position: np.ndarray) -> None:
        points = position + np.vstack([np.zeros(3), np.eye(3)])
        values = np.array(pymap3d.enu2geodetic(*points.T, self.latitude, self.longitude, self.height))
        self._centre = position.tolist()
        latitude, longitude, height = values[:, 0].tolist()
        self._value = latitude, longitude, height
        changes = values[:, 1:] - values[:, :1]
        # Within this metre there may be the date line, where longitudes jump by a turn.
        changes[1] -= 360.0 * np.rint(changes[1] / 360.0)
        self._gradient = changes.tolist()
        # The error of the expansion, d² tan φ / 2R, is kept as small as at `_STEEPEST`.
        steepness = abs(math.tan(math.radians(latitude)))
        self._near_squared = _NEAR * _NEAR * _STEEPEST / max(steepness, _STEEPEST)


def _to_ecef(latitude: float, longitude: float, height: float) -> tuple[float, float, float]:
    """Geocentric place, m, of one in degrees and m above the ellipsoid."""
    phi, lam = math.radians(latitude), math.radians(longitude)
    cos, sin = math.cos(phi), math.sin(phi)
    squared = (1.0 - _FLATTENING) ** 2
    n = _AXIS / math.sqrt(cos * cos + squared * sin * sin)
    away = (n + height) * cos
    return away * math.cos(lam), away * math.sin(lam), (squared * n + height) * sin
