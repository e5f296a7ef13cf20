"""Place and heading of a car before the filter knew them, from the car's motion up to that time.

Before a car has moved, or its course is known, the filter's heading is arbitrary; before the first fix, place and
heading are those of a local frame that begins with the drive. Speeds and yaw rate are correct all the while.
Integrated backwards in time from the first known heading and place, they give the earlier ones.
"""

from __future__ import annotations

import cmath
import math
from typing import NamedTuple

import numpy as np

from vehicled.messages import ESTIMATE_INDEX

_X, _Y, _Z, _YAW, _VX, _VY, _WZ = (ESTIMATE_INDEX[name] for name in ("x", "y", "z", "yaw", "vx", "vy", "wz"))
_SIGMA_X, _SIGMA_Y, _SIGMA_Z, _SIGMA_YAW, _SIGMA_VX, _SIGMA_VY = (
    ESTIMATE_INDEX[f"sigma.{name}"] for name in ("x", "y", "z", "yaw", "vx", "vy")
)
_LONGEST_NS = 2_000_000_000
"""Longest time between two estimates, ns: after a longer gap the filter starts anew."""
LOCAL = -1
"""Number of the origin of a local frame."""


class _Later(NamedTuple):
    """The following row."""

    t_ns: int
    origin: int
    row: np.ndarray
    rise: float
    """Height of that origin's frame over the local one, m; 0 outside of a local frame."""
    sigma_rise: float


class FirstHeading:
    """Takes smoothed estimates from the last to the first."""

    def __init__(self) -> None:
        self._later: _Later | None = None

    def take(self, t_ns: int, origin: int, row: np.ndarray, is_known: bool, sigma: float) -> int | None:
        """Set place and heading of an estimate (len(ESTIMATE_COLUMNS),) that the filter did not know.

        `origin`: number of the origin of the place, or LOCAL; `is_known`: whether the filter knew the heading in
        that frame; `sigma`: standard deviation of the constant error of the yaw rate, rad/s. Returns the number of
        the origin that the place has now, or None if the heading stays unknown.
        """
        later, self._later = self._later, None
        rise = sigma_rise = 0.0
        joins = later is not None and later.t_ns - t_ns <= _LONGEST_NS and origin in (LOCAL, later.origin)
        if later is not None and joins and (not is_known or later.origin != origin):
            if origin != later.origin:
                rise, sigma_rise = later.rise, later.sigma_rise
                if not sigma_rise:
                    rise, sigma_rise = later.row[_Z] - row[_Z], later.row[_SIGMA_Z]
                row[_Z] += rise
                row[_SIGMA_Z] = math.hypot(row[_SIGMA_Z], sigma_rise)
                origin = later.origin
            self._lead_back(row, later.row, (later.t_ns - t_ns) * 1e-9, sigma)
        elif not is_known:
            return None
        self._later = _Later(t_ns, origin, row, rise, sigma_rise)
        return origin

    @staticmethod
    def _lead_back(row: np.ndarray, later: np.ndarray, dt: float, sigma: float) -> None:
        """Integrate from a later estimate back to that of `dt` s before.

        Errors of speed and yaw rate may be constant, as those of a scale and a bias, so standard deviations add up.
        """
        turned = 0.5 * dt * (row[_WZ] + later[_WZ])
        row[_YAW] = math.remainder(later[_YAW] - turned, 2.0 * math.pi)
        way = dt * complex(0.5 * (row[_VX] + later[_VX]), 0.5 * (row[_VY] + later[_VY]))
        way *= cmath.rect(1.0, later[_YAW] - 0.5 * turned)
        row[_X], row[_Y] = later[_X] - way.real, later[_Y] - way.imag
        row[_SIGMA_YAW] = later[_SIGMA_YAW] + dt * sigma
        of_speed = dt * math.hypot(row[_SIGMA_VX], row[_SIGMA_VY])
        for of_place in (_SIGMA_X, _SIGMA_Y):
            row[of_place] = later[of_place] + of_speed + abs(way) * row[_SIGMA_YAW]
