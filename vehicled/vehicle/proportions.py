"""Checks of a car's parts against each other, for figures that are plausible one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from vehicled.units import Unit
from vehicled.vehicle.ranges import CENTER_OF_MASS_HEIGHT, MASS, WHEELBASE

if TYPE_CHECKING:
    from vehicled.vehicle.parameters import AnyAxle, Vehicle

_FAR = 2.0
"""Largest distance of a body from its wheel, m."""
_SOFT = 0.2
"""Deflection of a tyre at rest over its radius, above which the car stands on its rims."""
_OFF_GROUND = 0.5
"""Largest distance of a wheel's lowest point from the ground in design position, over the tyre's radius."""
_METRES, _KILOGRAMS = Unit("m"), Unit("kg")


def check_proportions(vehicle: Vehicle) -> Iterable[tuple[str, str]]:
    """Yield (key, what is wrong); entries after the first may be mere consequences of it."""
    axles = {"front": vehicle.front, "rear": vehicle.rear}
    mass = vehicle.mass
    if mass not in MASS:
        yield "chassis.mass", f"the whole car has {mass:.6g} kg: expected {MASS.describe(_KILOGRAMS)}"
    if vehicle.wheelbase not in WHEELBASE:
        expected = WHEELBASE.describe(_METRES)
        yield (
            "rear.hard_points.wheel_center",
            f"{vehicle.wheelbase:.4g} m behind the front wheels: expected {expected}",
        )
    front = vehicle.front.hard_points.wheel_center
    x, y, z = vehicle.center_of_mass()
    key, subject = "chassis.center_of_mass", "with it the whole car's lies"
    if not -vehicle.wheelbase < x - front[0] < 0.0:
        ahead = x >= front[0]
        by = x - front[0] if ahead else front[0] - vehicle.wheelbase - x
        side = "ahead of the front axle" if ahead else "behind the rear axle"
        yield key, f"{subject} {by:.4g} m {side}: expected between the axles"
    half_track = min(axle.hard_points.wheel_center[1] for axle in axles.values())
    if abs(y) >= half_track:
        yield key, f"{subject} {abs(y):.4g} m beside the middle: expected between the wheels"
    if z not in CENTER_OF_MASS_HEIGHT:
        expected = CENTER_OF_MASS_HEIGHT.describe(_METRES)
        yield key, f"{subject} {z:.4g} m over the ground: expected {expected}"
    yield from _check_near("rack", vehicle.rack.center_of_mass, front)
    share = (x - front[0] + vehicle.wheelbase) / vehicle.wheelbase
    for name, axle in axles.items():
        yield from _check_axle(
            name, axle, mass * (share if name == "front" else 1.0 - share), vehicle.gravity
        )


def _check_axle(name: str, axle: AnyAxle, carried: float, gravity: float) -> Iterable[tuple[str, str]]:
    """Check one axle. `carried`: mass that stands on both wheels, kg."""
    bodies = {key: getattr(axle, key) for key in axle.BODIES}
    for key, body in bodies.items():
        yield from _check_near(f"{name}.{key}", body.center_of_mass, axle.hard_points.wheel_center)
        if key != "axle" and body.center_of_mass[1] < 0.0:
            found = f"got y {body.center_of_mass[1]:.4g} m"
            yield f"{name}.{key}.center_of_mass", f"expected that of the left one, {found}"
    sides = {"wheel": 2.0 * axle.wheel.mass} | {
        key: body.mass * (1.0 if key == "axle" else 2.0) for key, body in bodies.items()
    }
    unsprung = sum(sides.values())
    if unsprung > 0.5 * carried:
        heaviest = max(sides, key=sides.__getitem__)
        yield (
            f"{name}.{heaviest}.mass",
            f"wheels and suspension have {unsprung:.4g} kg: expected at most half of what stands on that axle, "
            f"here {carried:.4g} kg",
        )
    tyre, height = axle.tyre, axle.hard_points.wheel_center[2]
    deflection = 0.5 * carried * gravity / tyre.vertical_stiffness
    if deflection > _SOFT * tyre.radius:
        yield f"{name}.tyre.vertical_stiffness", "so soft that the car stands on its rims"
    if abs(height - tyre.radius) > _OFF_GROUND * tyre.radius:
        yield (
            f"{name}.hard_points.wheel_center",
            f"{height:.4g} m over the ground: expected the tyre's radius less its deflection, "
            f"{tyre.radius - deflection:.4g} m",
        )


def _check_near(
    body: str, center_of_mass: tuple[float, float, float], wheel: tuple[float, float, float]
) -> Iterable[tuple[str, str]]:
    distance = float(np.linalg.norm(np.subtract(center_of_mass, wheel)))
    key = f"{body}.center_of_mass"
    if distance > _FAR:
        yield key, f"{distance:.4g} m from the wheel's centre: expected at most {_FAR:g} m"
    if center_of_mass[2] < 0.0:
        yield key, f"expected a point over the ground, got z {center_of_mass[2]:.4g} m"
