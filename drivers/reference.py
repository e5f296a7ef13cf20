"""The navigation solution of an inertial sensor as channels `reference.…`: recorded, never used for the estimate.

It has been made of the same gyroscopes and the same receiver: to use it beside them would count their errors twice.
Attitude is that of the device, its axes turned to x forward, y left, z up, in the world of east, north and up.
"""

import math
from collections.abc import Sequence

from drivers.pvt import find_position


def attitude_by_ned(yaw: float, pitch: float, roll: float) -> dict[str, float]:
    """Attitude of a device with x forward, y right, z down: yaw clockwise from north, pitch up, roll right; rad."""
    return {"reference.roll": roll, "reference.pitch": -pitch, "reference.yaw": _wrap(math.pi / 2.0 - yaw)}


def attitude_by_enu(yaw: float, pitch: float, roll: float) -> dict[str, float]:
    """Attitude of a device with x forward, y left, z up: yaw counter-clockwise from east; rad."""
    return {"reference.roll": roll, "reference.pitch": pitch, "reference.yaw": _wrap(yaw)}


def velocity(north: float, east: float, down: float) -> dict[str, float]:
    """Velocity of the device, m/s."""
    return {"reference.vn": north, "reference.ve": east, "reference.vd": down}


def position(place: Sequence[float]) -> dict[str, float]:
    """Place of the device: latitude, longitude (deg), ellipsoidal height (m); empty if it is not on the Earth."""
    found = find_position(*place)
    return {} if found is None else {c.replace("gnss", "reference"): v for c, v in found.items()}


def _wrap(angle: float) -> float:
    return (angle + math.pi) % math.tau - math.pi
