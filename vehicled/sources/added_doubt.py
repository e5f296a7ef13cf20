"""What an estimate is uncertain by beside the filter's covariance: of that, the filter has no state."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vehicled.messages import ESTIMATE_INDEX

_SPEED = ESTIMATE_INDEX["vx"]
_SIGMA_YAW, _SIGMA_LEFT, _SIGMA_SIDESLIP = (ESTIMATE_INDEX[f"sigma.{x}"] for x in ("yaw", "vy", "sideslip"))
_SIGMA_PLACE = slice(ESTIMATE_INDEX["sigma.x"], ESTIMATE_INDEX["sigma.y"] + 1)


class AddedDoubt(NamedTuple):
    """By how much one estimate is less certain, 1 σ."""

    turned: float = 0.0
    """rad, that the car turns within the latency of the IMU's samples which is not known."""
    has_precise_fixes: bool = False
    """Whether fixes are so precise that they hold the direction of the velocity."""
    place: float = 0.0
    """m, per horizontal axis: receivers contradict each other or the car's motion, or the antenna's place beside the
    IMU's samples, or the heading is not known."""

    def add_to(self, values: np.ndarray) -> float:
        """Add it to σ of an estimate. `values`: (len(ESTIMATE_COLUMNS),), changed here.

        A heading that follows a gyroscope is late by as much: it is wrong by the angle that the car turns meanwhile.
        Where precise fixes hold the direction of the velocity, this is an error of the sideslip too; others leave
        that direction to the tyres.

        Returns the factor by which the correlation of the horizontal position becomes less.
        """
        values[_SIGMA_YAW] = math.hypot(values.item(_SIGMA_YAW), self.turned)
        if self.has_precise_fixes:
            # At standstill sideslip is anything.
            values[_SIGMA_SIDESLIP] = min(math.hypot(values.item(_SIGMA_SIDESLIP), self.turned), math.pi)
            of_left = self.turned * values.item(_SPEED)
            values[_SIGMA_LEFT] = math.hypot(values.item(_SIGMA_LEFT), of_left)
        if not self.place:
            return 1.0
        known = values[_SIGMA_PLACE].copy()
        values[_SIGMA_PLACE] = np.hypot(known, self.place)
        return float(np.prod(known / values[_SIGMA_PLACE]))
