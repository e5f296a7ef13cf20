"""Origins of x, y, z in tables, and a truth that is about another one than the estimates."""

import math

import numpy as np

from replay.csv_log import Table
from vehicled.maths.geodesy import WorldOrigin

_SAME = 0.01
"""m: origins closer than this, or than latitude and longitude are rounded, count as equal."""
_DIGITS = range(4, 8)
"""Decimals of a degree to which latitudes may be rounded by more than that."""
_DEGREE = 111e3
"""m"""
_ROWS = 50
"""Number of rows, spread over a table, from whose places its origin is found."""


def move_to_origin(truth: Table, estimates: Table) -> tuple[Table, tuple[str, ...]]:
    """The truth about the origin of the estimates, with a remark if its own is elsewhere.

    Without a configured origin, that of the estimates is the first fix, which may be metres off. If one table
    does not have both x, y and lat, lon, the truth stays as it is.
    """
    height = find_height(estimates, truth)
    there, here = find_origin(truth, height), find_origin(estimates, height)
    if there is None or here is None:
        return truth, ()
    east, north, _ = here.to_world(there.latitude, there.longitude, there.height)
    apart = math.hypot(east, north)
    if apart <= max(_SAME, _find_rounding(truth), _find_rounding(estimates)):
        return truth, ()
    levels = _find_level(truth), _find_level(estimates)
    if has_heights := all(map(math.isfinite, levels)):
        there, here = (
            WorldOrigin(o.latitude, o.longitude, z) for o, z in zip((there, here), levels, strict=True)
        )
    moved = _move(truth.columns, there, here)
    if not has_heights:
        del moved["z"]
    what = "the truth is moved to that of the estimates"
    note = f"the origins of x and y are {apart:.{1 if apart > 0.1 else 2}f} m apart in the two files: {what}"
    return truth._replace(columns=truth.columns | moved), (note,)


def _find_rounding(table: Table) -> float:
    """Place value of the last decimal of latitudes, m; 0 for more than seven decimals."""
    latitudes = table.columns["lat"]
    known = latitudes[np.isfinite(latitudes)]
    return next((_DEGREE / 10**n for n in _DIGITS if np.array_equal(known.round(n), known)), 0.0)


def _find_level(table: Table) -> float:
    """Height of z = 0, m above the ellipsoid; NaN if the table does not show it."""
    if not {"z", "alt"} <= table.columns.keys():
        return math.nan
    levels = table.columns["alt"] - table.columns["z"]
    known = levels[np.isfinite(levels)]
    return float(np.median(known)) if len(known) else math.nan


def _move(columns: dict[str, np.ndarray], there: WorldOrigin, here: WorldOrigin) -> dict[str, np.ndarray]:
    """(n,) x, y, z and yaw about the origin `here`, of columns about `there`; without z, they are in its plane."""
    z = columns.get("z", np.zeros_like(columns["x"]))
    level = np.array([columns["x"], columns["y"], np.nan_to_num(z), np.ones_like(z)])
    moved = dict(zip("xyz", here.from_plane(there) @ level, strict=True))
    moved["z"] = np.where(np.isfinite(z), moved["z"], np.nan)
    if "yaw" in columns:
        moved["yaw"] = columns["yaw"] - here.find_north(there.latitude, there.longitude)
    return moved


def find_height(*tables: Table) -> float:
    """Mean height of the first table that has heights, m above the ellipsoid; 0 without any."""
    heights = [h[np.isfinite(h)] for h in (t.columns.get("alt", np.empty(0)) for t in tables)]
    return next((float(np.mean(h)) for h in heights if len(h)), 0.0)


def find_origin(table: Table, height: float) -> WorldOrigin | None:
    """The origin x = y = 0, from rows that have both kinds of coordinates, at a `height` of the drive, m.

    Its height is that of z = 0; without z, that of the drive.
    """
    names = ("x", "y", "lat", "lon")
    if not set(names) <= table.columns.keys():
        return None
    x, y, lat, lon = (table.columns[n] for n in names)
    known = np.flatnonzero(np.isfinite(x + y + lat + lon))
    if not len(known):
        return None
    rows = known[:: -(-len(known) // _ROWS)]
    z = table.columns.get("z", np.zeros(len(x)))
    world = np.column_stack([x, y, np.where(np.isfinite(z), z, 0.0)])[rows]
    found = WorldOrigin(float(lat[rows[0]]), float(lon[rows[0]]), height)
    # The axes of the plane rotate with its place; an iteration leaves a hundredth of the error, half near a pole.
    for _ in range(12):
        places = [found.to_world(float(lat[k]), float(lon[k]), height) for k in rows]
        found = WorldOrigin(*found.to_geodetic(np.mean(places - world, axis=0)))
    return found
