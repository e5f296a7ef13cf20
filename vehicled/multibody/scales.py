"""Units of lengths, constraints and forces: the size of the mechanism itself.

Coordinates are lengths as well as angles and unit vectors, and constraints squares of lengths as well as
cosines. With lengths relative to the size of the mechanism all are of order one, so that ranks, tolerances
and penalties have the same meaning for a mechanism of micrometres and one of kilometres.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vehicled.multibody.dimensions import find_length_powers, name_coordinate_units
from vehicled.multibody.model import Model
from vehicled.multibody.placement import PlacedBody


def list_length_powers(model: Model) -> tuple[np.ndarray, list[float | None]]:
    """(n,) whether a coordinate is a length, and for each constraint its power of length.

    The latter is None if the constraint's expression adds terms of different units.
    """
    units = name_coordinate_units(model.system, model.name_angles())
    known = {a: model.units[name] for name, a in model.symbols.items()} | {model.t: "s"}
    known |= {c.q: unit for c, unit in zip(model.system.coordinates, units, strict=True)}
    powers = find_length_powers([phi for _, phi in model.system.constraints], known)
    return np.array([unit == "m" for unit in units]), powers


def find_size(points: Sequence[np.ndarray], bodies: Sequence[PlacedBody], q: np.ndarray) -> float:
    """The largest extent of all points and centres of mass along an axis, m.

    If all are at one place: the largest radius of gyration, or the largest distance of that place from the
    origin along an axis; else 1 m.
    """
    massive = [body for body in bodies if body.moments[0, 0] > 0.0]
    centres = [body.moments[0] @ body.place(q) / body.moments[0, 0] for body in massive]
    places = np.array([*points, *centres]).reshape(-1, 3)
    places = places[np.all(np.isfinite(places), axis=1)]
    if not len(places):
        return 1.0
    turning = [np.diag(body.moments)[1:].sum() / body.moments[0, 0] for body in massive]
    candidates = (
        float(np.ptp(places, axis=0).max()),
        float(np.sqrt(max([*turning, 0.0]))),
        float(np.abs(places).max()),
    )
    return next((size for size in candidates if 0.0 < size < np.inf), 1.0)


def calc_constraint_units(
    powers: Sequence[float | None], size: float, calc_slopes: Callable[[], np.ndarray]
) -> np.ndarray:
    """(m,) unit of each constraint.

    `calc_slopes` (m,): largest change of each constraint with a coordinate by one unit, for constraints
    without a unit.
    """
    if None not in powers:
        return np.array([size**p for p in powers if p is not None])
    slopes = np.nan_to_num(calc_slopes(), nan=1.0, posinf=1.0)
    own = [slope if p is None else size**p for p, slope in zip(powers, slopes, strict=True)]
    return np.array([unit or 1.0 for unit in own])
