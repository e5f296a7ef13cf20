"""Doubtful properties of a car at rest: possible, but more often a mistake in its file than intended."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from vehicled.messages import WHEELS
from vehicled.vehicle.car import Car
from vehicled.vehicle.parameters import Axle, MacphersonAxle, Vehicle
from vehicled.vehicle.steering import SteeringGeometry

_OFF = 0.02
"""Largest distance between rest and design position, m."""
_SHARES = 0.2, 0.8
"""Least and largest share of an axle in the weight of a car."""
_LEAST_LOAD = 0.5
"""Least load of a wheel, over half of its axle's load."""
_LEAST_STEERING = math.radians(20.0)
_BEND, _MORE = math.radians(15.0), 1.02
"""Angle of the inner wheel, and largest ratio of the outer wheel's angle to it."""
_OBLIQUE = math.radians(30.0)
"""Largest angle between a tie rod and the rack."""
_RACK_OFF = 0.1
"""Largest distance of the rack's centre of mass from the line of its ends, m."""


def find_doubts(car: Car) -> list[tuple[str, str]]:
    """(key below `vehicle`, message) for doubts about a car whose outputs are those at rest on level ground.

    The key is empty where cars by hard points and by handbook figures have different keys.
    """
    vehicle = car.vehicle
    return [
        *_find_in_loads(car),
        *_find_in_height(car),
        *_find_in_steering(vehicle),
        *_find_in_sides(vehicle),
    ]


def _find_in_loads(car: Car) -> Iterable[tuple[str, str]]:
    loads = car.corner_output("tyre.fz")
    front = float(loads[:2].sum() / loads.sum())
    low, high = _SHARES
    if not low < front < high:
        yield "", f"the front axle carries {100 * front:.0f} % of the weight, by the centre of mass"
    for n, wheel in enumerate(WHEELS):
        of_axle = loads[:2] if wheel[0] == "f" else loads[2:]
        if loads[n] < _LEAST_LOAD * of_axle.mean():
            other = WHEELS[n ^ 1]
            yield "chassis.center_of_mass", f"{wheel} carries {loads[n]:.0f} N, {other} {loads[n ^ 1]:.0f} N"
    preloads = car.get_corner_parameter("spring.preload")
    for n, name in ((0, "front"), (2, "rear")):
        if preloads[n] < 0.0:
            yield f"{name}.spring", f"it pulls in design position, with {-preloads[n]:.0f} N"


def _find_in_height(car: Car) -> Iterable[tuple[str, str]]:
    loads, travel = car.corner_output("tyre.fz"), car.get_corner_parameter("rest.travel")
    stiffness = car.get_corner_parameter("tyre.vertical_stiffness")
    for n, name in ((0, "front"), (2, "rear")):
        axle = car.vehicle.axle(WHEELS[n])
        if abs(travel[n]) > _OFF:
            what = "compressed" if travel[n] > 0.0 else "extended"
            found = f"at rest the strut is {what} by {1e3 * abs(travel[n]):.0f} mm from design position"
            if axle.spring.preload is not None:
                yield f"{name}.spring.preload", found
            else:
                yield f"{name}.hard_points", f"no force of the spring carries the car there: {found}"
        height = axle.tyre.radius - loads[n] / stiffness[n]
        design = axle.hard_points.wheel_center[2]
        if abs(height - design) > _OFF:
            yield (
                f"{name}.hard_points.wheel_center",
                f"at rest it is {height:.4g} m over the ground, by the tyre's radius and deflection, "
                f"in design position {design:.4g} m",
            )


def _find_in_steering(vehicle: Vehicle) -> Iterable[tuple[str, str]]:
    axle = vehicle.front
    if not isinstance(axle, Axle | MacphersonAxle):
        return
    points, rack = axle.hard_points, vehicle.rack.center_of_mass
    rod = np.subtract(points.tie_rod_outer, points.tie_rod_inner)
    angle = math.acos(rod[1] / np.linalg.norm(rod))
    if angle > _OBLIQUE:
        yield (
            "front.hard_points.tie_rod_inner",
            f"the tie rod lies {math.degrees(angle):.0f}° off the rack, which moves across the car",
        )
    off = math.hypot(rack[0] - points.tie_rod_inner[0], rack[2] - points.tie_rod_inner[2])
    if off > _RACK_OFF:
        yield "rack.center_of_mass", f"{1e3 * off:.0f} mm off the line of the rack's ends, tie_rod_inner"
    key, steering = "front.hard_points.tie_rod_outer", SteeringGeometry(vehicle)
    if steering.reach < _LEAST_STEERING:
        yield key, f"the rack turns the wheels by {math.degrees(steering.reach):.0f}° at most"
        return
    outer = steering.angle(1, steering.rod(0, _BEND))
    if outer > _MORE * _BEND:
        yield (
            key,
            f"in a bend the outer wheel turns by {math.degrees(outer):.1f}° where the inner one turns by "
            f"{math.degrees(_BEND):.1f}°",
        )


def _find_in_sides(vehicle: Vehicle) -> Iterable[tuple[str, str]]:
    for name, axle in (("front", vehicle.front), ("rear", vehicle.rear)):
        for key, point in axle.hard_points.points().items():
            if point[1] < 0.0 and key not in axle.hard_points.MIDDLE:
                yield f"{name}.hard_points.{key}", "it lies on the right: expected that of the left wheel"
