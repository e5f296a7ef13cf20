"""What estimates are given of: the section `output` of the configuration, and the places of points by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np

from vehicled.errors import UsageError
from vehicled.points import ORIGIN
from vehicled.units import MetresVector, Vector, parse_unit, split_quantity

if TYPE_CHECKING:
    from vehicled.sources.sensors import Sensors
    from vehicled.vehicle.parameters import Vehicle

PointName = Literal["center_of_mass", "front_axle", "rear_axle", "imu", "antenna"]


MOST_POINTS = 8
"""Largest number of further points: each is computed and sent with every step."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """Which points of the car position, velocity, sideslip and acceleration are given of, and what beside."""

    point: PointName | MetresVector = "center_of_mass"
    """`center_of_mass`: of the car at rest, the vehicle origin; `front_axle`, `rear_axle`: midway between the wheel
    centres of the car at rest; `imu`, `antenna`: as `sensors` places them; or a place in vehicle axes."""
    points: dict[str, PointName | MetresVector] = field(default_factory=dict)
    """Further points by name, whose position, velocity, sideslip and acceleration are given beside it."""
    loads: bool = False
    """Whether the forces in the joints of the suspensions are given too."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for more points than are meant."""
        if len(self.points) > MOST_POINTS:
            yield "points", f"expected at most {MOST_POINTS}, got {len(self.points)}"


def parse_point(text: str) -> PointName | Vector:
    """A point by its name, or `x,y,z` in m or with one unit behind all three, vehicle axes. Raises UsageError."""
    for name in get_args(PointName):
        if text == name:
            return cast(PointName, name)
    try:
        numbers, unit = split_quantity(text)
        factor, dimension = parse_unit(unit or "m")
        if dimension == parse_unit("m")[1] and np.isfinite(numbers).all():
            x, y, z = (n * factor for n in numbers)
            return x, y, z
    except ValueError:  # of units, of how many there are
        pass
    names = ", ".join(get_args(PointName))
    raise UsageError(
        f"{text}: expected one of {names}, or x,y,z from the centre of mass at rest: "
        "in m, or with one unit behind all three, as in '-130,0,-17 cm'"
    )


def locate(point: PointName | Vector, vehicle: Vehicle, sensors: Sensors) -> Vector | None:
    """Place of a point in vehicle axes from the vehicle origin, m; None where its sensor is left out."""
    if not isinstance(point, str):
        return point
    if point == "center_of_mass":
        return ORIGIN
    if point == "imu":
        return None if sensors.imu is None else sensors.imu.position
    if point == "antenna":
        return None if sensors.gnss is None else sensors.gnss.antenna
    axle = vehicle.front if point == "front_axle" else vehicle.rear
    x, _, z = axle.hard_points.wheel_center
    place = np.array([x, 0.0, z]) - vehicle.center_of_mass()
    return float(place[0]), 0.0, float(place[2])
