"""Motion at another point of the car: moves tables of estimates or truth from one point to another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymap3d

from vehicled.units import Vector

POINT_COLUMNS = ("point.x", "point.y", "point.z")
"""Columns of a table, the same in all rows: the point of position, velocity, sideslip and acceleration, m in
vehicle axes from the vehicle origin. In estimates, missing columns mean the origin itself."""

ORIGIN: Vector = (0.0, 0.0, 0.0)

Columns = Mapping[str, np.ndarray]


def find_point(columns: Columns) -> Vector | None:
    """The point of a table, m in vehicle axes; None if it is not stated."""
    if not set(POINT_COLUMNS) <= columns.keys():
        return None
    given = np.column_stack([columns[c] for c in POINT_COLUMNS])
    given = given[np.isfinite(given).all(axis=1)]
    if not len(given):
        return None
    x, y, z = given[0].tolist()
    return x, y, z


def with_point(columns: Columns, point: Vector) -> dict[str, np.ndarray]:
    """The same columns, and the statement that they are of this point."""
    rows = len(next(iter(columns.values()), ()))
    return {**columns, **{c: np.full(rows, p) for c, p in zip(POINT_COLUMNS, point, strict=True)}}


def rotations(roll: np.ndarray, pitch: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """R_world_vehicle (n, 3, 3) = Rz(yaw) Ry(pitch) Rx(roll) of angles (n,) in rad."""
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def move(
    columns: Columns, to: Vector, angular_acceleration: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The columns (n,) of a table, moved from its own point to the point `to` (m, vehicle axes): v + ω × r.

    Quantities that cannot be moved are omitted: velocity without `wz`, position without `yaw`, acceleration
    without the angular acceleration, (n, 3) rad/s² in vehicle axes. Roll, pitch and their rates count as zero
    if the table lacks them. Standard deviations remain those of the table's own point, as the errors of the
    rates are unknown.
    """
    arm = np.subtract(to, find_point(columns) or ORIGIN)
    moved = with_point(columns, to)
    zero = np.zeros(len(moved[POINT_COLUMNS[0]]))

    def get(*names: str) -> np.ndarray:
        return np.column_stack([columns.get(n, zero) for n in names])

    def put(names: tuple[str, ...], values: np.ndarray, known: bool) -> None:
        for name, value in zip(names, values.T, strict=True):
            if name in columns and known:
                moved[name] = value
            else:
                moved.pop(name, None)

    w = get("wx", "wy", "wz")
    velocity = ("vx", "vy", "vz")
    put(velocity, get(*velocity) + np.cross(w, arm), "wz" in columns)
    put(
        ("sideslip",),
        np.arctan2(moved.get("vy", zero), moved.get("vx", zero))[:, None],
        {"vx", "vy"} <= moved.keys(),
    )
    acceleration = ("ax", "ay", "az")
    a = get(*acceleration) + np.cross(w, np.cross(w, arm))
    if angular_acceleration is not None:
        a = a + np.cross(angular_acceleration, arm)
    put(acceleration, a, angular_acceleration is not None)
    shift = rotations(*get("roll", "pitch", "yaw").T) @ arm
    position, geodetic = ("x", "y", "z"), ("lat", "lon", "alt")
    put(position, get(*position) + shift, "yaw" in columns)
    place = np.column_stack(pymap3d.enu2geodetic(*shift.T, *get(*geodetic).T))
    put(geodetic, place, {"yaw", "lat", "lon"} <= columns.keys())
    return moved


def format_point(point: Vector) -> str:
    """A point as text."""
    return f"({', '.join(f'{p:.4g}' for p in point)}) m"
