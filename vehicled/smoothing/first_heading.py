"""Place and heading of a car before the filter knew its heading, from the car's motion up to that time.

Before a car has moved, or its course is known, the filter's heading is arbitrary, but its speeds and yaw rate
are correct. Integrated backwards in time from the first known heading and place, they give the earlier ones.
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from vehicled.messages import ESTIMATE_INDEX

_X, _Y, _YAW, _VX, _VY, _WZ, _SIGMA_X, _SIGMA_Y, _SIGMA_YAW, _SIGMA_VX, _SIGMA_VY = (
    ESTIMATE_INDEX[name]
    for name in ("x", "y", "yaw", "vx", "vy", "wz", "sigma.x", "sigma.y", "sigma.yaw", "sigma.vx", "sigma.vy")
)
_LONGEST_NS = 2_000_000_000
"""Longest time between two estimates, ns: after a longer gap the filter starts anew."""
_LASTING = 2.0
"""Correlation time of an error of the velocity, s."""


class FirstHeading:
    """Takes smoothed estimates from the last to the first."""

    def __init__(self) -> None:
        self._later: tuple[int, int, np.ndarray] | None = None
        """Time, ns, number of the origin, and estimate of the following row."""

    def take(self, t_ns: int, origin: int, row: np.ndarray, is_known: bool, sigma: float) -> bool:
        """Set place and heading of an estimate (len(ESTIMATE_COLUMNS),) that the filter did not know.

        `origin`: number of the origin of the place; `is_known`: whether the filter knew place and heading;
        `sigma`: standard deviation of the constant error of the yaw rate, rad/s. Returns whether they are
        known now.
        """
        later, self._later = self._later, None
        if not is_known:
            if later is None or later[0] - t_ns > _LONGEST_NS or later[1] != origin:
                return False
            self._lead_back(row, later[2], (later[0] - t_ns) * 1e-9, sigma)
        self._later = t_ns, origin, row
        return True

    @staticmethod
    def _lead_back(row: np.ndarray, later: np.ndarray, dt: float, sigma: float) -> None:
        """Integrate from a later estimate back to that of `dt` s before."""
        turned = 0.5 * dt * (row[_WZ] + later[_WZ])
        row[_YAW] = math.remainder(later[_YAW] - turned, 2.0 * math.pi)
        way = dt * complex(0.5 * (row[_VX] + later[_VX]), 0.5 * (row[_VY] + later[_VY]))
        way *= cmath.rect(1.0, later[_YAW] - 0.5 * turned)
        row[_X], row[_Y] = later[_X] - way.real, later[_Y] - way.imag
        row[_SIGMA_YAW] = later[_SIGMA_YAW] + dt * sigma
        of_speed = math.sqrt(dt * _LASTING) * math.hypot(row[_SIGMA_VX], row[_SIGMA_VY])
        for of_place in (_SIGMA_X, _SIGMA_Y):
            row[of_place] = math.hypot(later[of_place], of_speed) + abs(way) * row[_SIGMA_YAW]
