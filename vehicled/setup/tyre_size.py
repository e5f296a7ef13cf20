"""Sizes of tyres as given on the sidewall, or the radius instead."""

import re
from typing import NamedTuple

from vehicled.units import UnitError, parse_unit, split_quantity
from vehicled.vehicle.ranges import WHEEL_RADIUS

_METRIC = re.compile(
    r"(?:P|LT|T)?\s*(\d{2,3})\s*(?:/\s*(\d{2,3})\s*(?:-?\s*Z?RF?|-)|-?\s*[SH]?R)\s*(\d{1,2}(?:\.5)?)"
    r"(?:\s*C|[\s-]*[A-Z]?\s*\d{2,3}.*)?",
    re.IGNORECASE,
)
"""Tyres of cars, with `C` of vans, on half inches of lorries, and with `-` of golf carts: width in mm, height in
% of it, rim in inches. Older sizes have no height, as `155 SR 13`."""
_UNSTATED = "80"
"""Height of those in % of the width, such that 155 R 13 has an outer diameter of 578 mm, and 205 R 16 of 734 mm."""
_INCHES = re.compile(
    r"(?:AT)?\s*(\d{1,2}(?:\.\d+)?)\s*[x×]\s*(\d{1,2}(?:\.\d+)?)\s*[-R]\s*(\d{1,2})(?:\s*[A-Z].*|\s.*)?",
    re.IGNORECASE,
)
"""Tyres of golf carts, ATVs, karts and racing cars: outer diameter, width and rim."""
_INCH = 0.0254

EXPECTED = (
    "a size such as '205/55 R16' (width in mm / height in % of it, rim in inches) or '18x8.50-8' (outer diameter x "
    "width - rim, inches), or the radius, such as '0.23 m'"
)


class TyreSize(NamedTuple):
    """Data of a tyre from its size."""

    radius: float
    """Undeformed radius, m."""
    description: str
    """The size, and how the radius follows from it; or that the radius is given."""


def read_tyre(text: str) -> TyreSize:
    """The tyre of a size, or of a radius with its unit. Raises ValueError with what was expected."""
    size = text.strip()
    if found := _METRIC.fullmatch(size):
        width, height, rim = (float(part or _UNSTATED) for part in found.groups())
        is_one = 75 <= width <= 455 and 20 <= height <= 105 and 4 <= rim <= 26
        sidewall = "the sidewall" if found[2] else f"a sidewall of {_UNSTATED} % of the width"
        tyre = TyreSize(
            0.5 * rim * _INCH + 1e-3 * width * 1e-2 * height, f"{size}, half the rim and {sidewall}"
        )
    elif found := _INCHES.fullmatch(size):
        outer, across, inner = map(float, found.groups())
        is_one = 2.0 <= across <= 20.0 and 3.0 <= inner < outer
        tyre = TyreSize(0.5 * outer * _INCH, f"{size}, half the outer diameter")
    else:
        is_one, tyre = True, TyreSize(_read_length(size), "the radius itself")
    if not (is_one and tyre.radius in WHEEL_RADIUS):
        raise ValueError(f"expected {EXPECTED}; no car has {text!r}")
    return tyre


def _read_length(text: str) -> float:
    """A length, m."""
    try:
        numbers, unit = split_quantity(text)
        factor, dimension = parse_unit(unit)
    except UnitError:
        numbers, dimension = [], None
    if len(numbers) != 1 or dimension != parse_unit("m")[1]:
        raise ValueError(f"expected {EXPECTED}, got {text!r}")
    return numbers[0] * factor
