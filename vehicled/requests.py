"""Arguments of commands that several modules use: their contents and limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec

from vehicled.messages import SlowState

_LARGEST = 100.0
"""Limit on slow states and their standard deviations: m, rad, s, m/s² or relative."""
_FARTHEST, _HIGHEST = 1e7, 1e5
"""m: half-way around the Earth, and the limit of `sources.limits` on estimates."""
_LEAST_SIGMA, _LEAST_YAW_SIGMA = 1e-3, 1e-4
"""m and rad: smaller values are not credible, and would make the filter's covariance invalid."""

LONGEST_MARK = 200
"""Number of characters."""
_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

_Coordinate = Annotated[float, msgspec.Meta(ge=-_FARTHEST, le=_FARTHEST)]


class SetPosition(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Set the position of the vehicle origin: `lat` and `lon`, or `x` and `y`; the rest is optional."""

    lat: Annotated[float, msgspec.Meta(ge=-90, le=90)] | None = None
    """deg, WGS 84."""
    lon: Annotated[float, msgspec.Meta(ge=-180, le=180)] | None = None
    """deg, WGS 84."""
    alt: Annotated[float, msgspec.Meta(ge=-1000, le=20000)] | None = None
    """m above the ellipsoid."""
    x: _Coordinate | None = None
    """m east of the world's origin."""
    y: _Coordinate | None = None
    """m north of the world's origin."""
    z: Annotated[float, msgspec.Meta(ge=-_HIGHEST, le=_HIGHEST)] | None = None
    """m above the world's origin."""
    yaw: Annotated[float, msgspec.Meta(ge=-7, le=7)] | None = None
    """rad from east, counter-clockwise."""
    sigma: Annotated[float, msgspec.Meta(ge=_LEAST_SIGMA, le=1e5)] = 0.1
    """m: standard deviation of x and y."""
    yaw_sigma: Annotated[float, msgspec.Meta(ge=_LEAST_YAW_SIGMA, le=4)] = 0.05
    """rad: standard deviation of `yaw`."""

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec turns into its own error, as for a wrong type."""
        geodetic = self.lat is not None and self.lon is not None
        local = self.x is not None and self.y is not None
        if geodetic == local or (geodetic and (self.x, self.y, self.z) != (None,) * 3):
            raise ValueError("Expected either `lat` and `lon`, or `x` and `y`")
        if local and (self.lat, self.lon, self.alt) != (None,) * 3:
            raise ValueError("Expected either `lat` and `lon`, or `x` and `y`")


class Mark(msgspec.Struct, forbid_unknown_fields=True):
    """Note in results and recording what happens now: it changes nothing else."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_MARK, pattern=_PRINTABLE)]
    """Without control characters: it is also shown in terminals."""


class SetParameters(msgspec.Struct, forbid_unknown_fields=True):
    """Begin the next drives with slow states that an earlier drive has found."""

    parameters: dict[str, SlowState]
    """Slow states by name, as the estimator's `parameters` returned them."""
    age: float
    """Time since then, s."""

    def __post_init__(self) -> None:
        """Raises ValueError for impossible numbers."""
        if not 0.0 <= self.age < math.inf:
            raise ValueError(f"age: expected a finite number of seconds, at least 0, got {self.age:g}")
        for name, p in self.parameters.items():
            if not (abs(p.value) <= _LARGEST and 0.0 <= p.sigma <= _LARGEST):
                raise ValueError(
                    f"{name}: expected a value within ±{_LARGEST:g} and a standard deviation from 0 to "
                    f"{_LARGEST:g}, got {p.value:g} and {p.sigma:g}"
                )


@dataclass(frozen=True)
class SlowBound:
    """Limits of a slow state."""

    largest: float
    """Largest magnitude of its value, and largest standard deviation."""
    unit: str

    def find_fault(self, found: SlowState) -> str | None:
        """Fault of an estimated state, and what was expected; None if there is none."""
        if found.unit != self.unit:
            return f"expected the unit {self.unit!r}, got {found.unit!r}"
        if abs(found.value) <= self.largest and found.sigma <= self.largest:
            return None
        return f"expected at most ±{self.largest:g} {self.unit}, got {found.value:g} with σ {found.sigma:g}"
