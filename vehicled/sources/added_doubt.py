"""Uncertainty of an estimate that no state of the filter represents, added to the filter's covariance."""

from __future__ import annotations

import cmath
import math
from typing import NamedTuple

import numpy as np

from vehicled.messages import ESTIMATE_INDEX

_YAW, _SPEED, _LEFT = (ESTIMATE_INDEX[x] for x in ("yaw", "vx", "vy"))
_YAW_RATE, _AHEAD = (ESTIMATE_INDEX[x] for x in ("wz", "ax"))
_SIGMA_YAW, _SIGMA_SPEED, _SIGMA_LEFT, _SIGMA_SIDESLIP = (
    ESTIMATE_INDEX[f"sigma.{x}"] for x in ("yaw", "vx", "vy", "sideslip")
)
_SIGMA_X, _SIGMA_Y = ESTIMATE_INDEX["sigma.x"], ESTIMATE_INDEX["sigma.y"]


class AddedDoubt(NamedTuple):
    """By how much one estimate is less certain, 1 σ."""

    turned: float = 0.0
    """rad: angle by which the car turns within the unknown part of the latency of the IMU's samples."""
    late: float = 0.0
    """s: unknown latency of the whole estimate, if no speed of known time shows it."""
    has_precise_fixes: bool = False
    """Whether fixes are precise enough to determine the direction of the velocity."""
    place: float = 0.0
    """m, per horizontal axis: as receivers contradict each other or the car's motion, as the antenna's
    estimated place depends on the uncertain time of the IMU's samples, or as the heading is unknown."""
    apart: float = 0.0
    """rad: angle by which gyroscope and course differ more than usual: either the gyroscope is wrong, or the car
    slides."""

    def add_to(self, values: np.ndarray, correlation: float = 0.0) -> float:
        """Add it to σ of an estimate. `values`: (len(ESTIMATE_COLUMNS),), changed in place.

        If the gyroscope's samples are late, the heading lags by the angle that the car turns within that
        latency. Precise fixes determine the direction of the velocity, so the sideslip then has the same
        error. With less precise fixes that direction follows from the tyres, and the sideslip has no such
        error.

        If gyroscope and course differ, the heading may follow the wrong one; the sideslip then has the same
        error.

        If the whole estimate is late, place, heading and forward speed are those of earlier.

        Returns the correlation of x and y, given that of before.
        """
        turned = self.turned, self.late * values.item(_YAW_RATE), self.apart
        values[_SIGMA_YAW] = math.hypot(values.item(_SIGMA_YAW), *turned)
        if self.has_precise_fixes or self.apart:
            sideways = math.hypot(self.turned if self.has_precise_fixes else 0.0, self.apart)
            # At standstill the sideslip is undefined: its σ is at most π.
            values[_SIGMA_SIDESLIP] = min(math.hypot(values.item(_SIGMA_SIDESLIP), sideways), math.pi)
            of_left = sideways * values.item(_SPEED)
            values[_SIGMA_LEFT] = math.hypot(values.item(_SIGMA_LEFT), of_left)
        if not (self.place or self.late):
            return correlation
        faster = self.late * (values.item(_AHEAD) + values.item(_YAW_RATE) * values.item(_LEFT))
        values[_SIGMA_SPEED] = math.hypot(values.item(_SIGMA_SPEED), faster)
        x, y = values.item(_SIGMA_X), values.item(_SIGMA_Y)
        way = cmath.rect(self.late, values.item(_YAW)) * complex(values.item(_SPEED), values.item(_LEFT))
        shared: float = correlation * x * y + way.real * way.imag
        of_x, of_y = math.hypot(x, self.place, way.real), math.hypot(y, self.place, way.imag)
        values[_SIGMA_X], values[_SIGMA_Y] = of_x, of_y
        return shared / (of_x * of_y)
