"""Doubtful places of sensors: below the road, or far outside the car."""

from __future__ import annotations

from collections.abc import Iterable

from vehicled.reading.expectations import type_hints
from vehicled.sources.sensors import Sensors
from vehicled.sources.source import Place
from vehicled.units import Vector
from vehicled.vehicle.parameters import Vehicle

_HIGHEST = 4.5
"""m over the road: an antenna on the roof of a lorry."""
_BEYOND_AXLES = 2.5
"""m ahead of the front axle and behind the rear one: overhang, and a bracket."""
_BEYOND_WHEELS = 0.6
"""m to the side of the wheel centres: bodywork, and a bracket."""


def find_place_doubts(sensors: Sensors, vehicle: Vehicle, height: float) -> list[tuple[str, str]]:
    """(key below `sensors`, what is doubtful). `height`: of the vehicle origin over the road at rest, m."""
    return [
        (f"{name}.{key}", doubt)
        for name, settings in sensors.items()
        for key, hint in type_hints(type(settings)).items()
        if hint == Place
        for doubt in _find(getattr(settings, key), vehicle, height)
    ]


def _find(place: Vector, vehicle: Vehicle, height: float) -> Iterable[str]:
    x, y, z = place
    if z + height < 0.0:
        yield f"it lies {-(z + height):.2g} m below the road: expected z upwards from the centre of mass"
    elif z + height > _HIGHEST:
        yield f"it lies {z + height:.3g} m over the road"
    centers = [axle.hard_points.wheel_center for axle in (vehicle.front, vehicle.rear)]
    front, rear = (center[0] - float(vehicle.center_of_mass()[0]) for center in centers)
    if x > front + _BEYOND_AXLES:
        yield f"it lies {x - front:.3g} m ahead of the front axle: expected x ahead from the centre of mass"
    elif x < rear - _BEYOND_AXLES:
        yield f"it lies {rear - x:.3g} m behind the rear axle: expected x ahead from the centre of mass"
    half = max(center[1] for center in centers)
    if abs(y) > half + _BEYOND_WHEELS:
        yield f"it lies {abs(y):.3g} m beside the middle of the car, whose wheels are {half:.3g} m from it"
