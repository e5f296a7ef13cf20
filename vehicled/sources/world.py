"""Where in the world the estimates are, and which way is east."""

from __future__ import annotations

import logging
import math

import numpy as np

from vehicled.filter.settings import World
from vehicled.maths.geodesy import WorldOrigin

_log = logging.getLogger(__name__)

_FARTHEST = 1e5
"""m: a configured origin farther away is not meant for this drive; one tangent plane does not fit a whole
country."""

_LOST = 0.5
"""rad, 1 σ: a heading less certain than this cannot be corrected, as errors are linearised."""

Fix = tuple[float, float, float]
"""Latitude and longitude (degrees) and height (m; NaN where a fix has none)."""


def _calc_distance(origin: WorldOrigin, fix: Fix) -> float:
    """m, on a straight line, through the Earth if need be; a fix without height is as high as the origin."""
    latitude, longitude, height = fix
    away = origin.to_world(latitude, longitude, origin.height if math.isnan(height) else height)
    return float(np.linalg.norm(away))


class WorldFrame:
    """The tangent plane of the estimates, as far as known."""

    def __init__(self, given: World | None) -> None:
        self._given = None if given is None else WorldOrigin.of(given)
        self._was_ignored = False
        """Whether the configured origin was too far away, which has then been logged."""
        self.reset()

    def reset(self) -> None:
        """Return to what the configuration gives."""
        self.origin = self._given
        self.known = False
        """Whether the estimates are relative to `origin`, and not in a local frame."""
        self.aligned = False
        """Whether the heading is known."""
        self.is_lost = False
        """Whether the heading has become unknown, as nothing has measured it for seconds; the filter then
        starts anew."""
        self.is_contradicted = False
        """Whether the heading was wrong, so that parameters estimated with it may be wrong as well."""

    def is_heading_lost(self, variance: float, is_contradicted: bool = False) -> bool:
        """Whether the heading has to be found anew; noted in `is_lost`. `variance`: of the heading, rad².

        `is_contradicted`: whether the car moves in another direction than the heading says.
        """
        self.is_contradicted |= is_contradicted  # of two receivers, one may contradict it
        self.is_lost = self.aligned and (variance > _LOST**2 or self.is_contradicted)
        return self.is_lost

    def has_plane_at(self, fix: Fix) -> bool:
        """Whether a fix is in the plane of the origin: once estimates are relative to it, however far they go.

        Before, only if the configured origin is near enough to be used.
        """
        return self.origin is not None and (self.known or _calc_distance(self.origin, fix) <= _FARTHEST)

    def find_origin(self, fix: Fix) -> None:
        """Take the first fix as origin, unless an origin within `_FARTHEST` of it is configured."""
        latitude, longitude, height = fix
        height = 0.0 if math.isnan(height) else height
        is_near, self.known = self.has_plane_at(fix), True
        if is_near:
            return
        if self.origin is not None and not self._was_ignored:
            self._was_ignored = True
            _log.warning(
                "world: %.4f, %.4f is %.0f km from the first fix, %.4f, %.4f: expected at most %.0f km; "
                "the origin is that fix",
                self.origin.latitude,
                self.origin.longitude,
                1e-3 * _calc_distance(self.origin, fix),
                latitude,
                longitude,
                1e-3 * _FARTHEST,
            )
        self.origin = WorldOrigin(latitude, longitude, height)

    def to_world(self, fix: Fix) -> np.ndarray:
        """(3,) place of a fix, m; a fix without height is taken to be at the height of the origin."""
        assert self.origin is not None
        return self.origin.to_world(fix[0], fix[1], self.origin.height if math.isnan(fix[2]) else fix[2])

    def to_world_or_level(self, fix: Fix) -> np.ndarray:
        """(3,) place of a fix, m; the height is NaN for a fix without one."""
        place = self.to_world(fix)
        if math.isnan(fix[2]):
            place[2] = math.nan
        return place
