"""Conversion of directions from a receiver's local north to the tangent plane of the estimates.

Local north differs from north at the plane's origin: meridians converge, by a tenth of a degree in ten
kilometres.
"""

from __future__ import annotations

import math

from vehicled.messages import Measurement
from vehicled.sources.world import WorldFrame

_RECEIVERS = "gnss.", "gnss2."
_DIRECTIONS = frozenset(f"{name}{what}" for name in _RECEIVERS for what in ("course", "heading"))
_VECTORS = tuple((f"{name}vn", f"{name}ve") for name in _RECEIVERS)
_TURNED = _DIRECTIONS.union(*_VECTORS)
_PLACES = tuple((f"{name}lat", f"{name}lon") for name in _RECEIVERS)
_READ = _TURNED.union(*_PLACES)


class TrueNorth:
    """Direction of north at the latest fix."""

    def __init__(self) -> None:
        self._angle = 0.0
        """rad, clockwise from the y axis of the plane."""

    def turn(self, m: Measurement, world: WorldFrame) -> Measurement:
        """Turn courses, headings and velocities of a measurement into the plane about the origin, if known."""
        values, origin = m.values, world.origin
        if origin is None or _READ.isdisjoint(values):
            return m
        for latitude, longitude in _PLACES:
            if latitude in values and longitude in values:
                place = values[latitude], values[longitude]
                # Otherwise this fix becomes the origin.
                is_in_plane = world.has_plane_at((*place, math.nan))
                self._angle = origin.find_north(*place) if is_in_plane else 0.0
        if _TURNED.isdisjoint(values):  # velocities may come in messages of their own
            return m
        angle, turned = self._angle, dict(values)
        for channel in _DIRECTIONS.intersection(values):
            turned[channel] = (values[channel] + angle) % (2.0 * math.pi)
        cos, sin = math.cos(angle), math.sin(angle)
        for north, east in _VECTORS:
            if north in values and east in values:
                vn, ve = values[north], values[east]
                turned[north], turned[east] = cos * vn - sin * ve, sin * vn + cos * ve
        return Measurement(m.source, m.t, m.arrival, turned)
