"""Changes of the car's speed by its accelerometers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import mul

from vehicled.sources.imu.imu import ACCELEROMETERS, Imu

_NOTHING = (0.0, 0.0, 0.0)
_GAP = 0.1
"""s: longest time between samples of the accelerometers."""


class GainedSpeed:
    """Integral of the acceleration along the car."""

    def __init__(self, imu: Imu | None) -> None:
        self.configure(imu)
        self.reset()

    def configure(self, imu: Imu | None) -> None:
        """Take settings, also while running."""
        self._ahead, self._has_gravity = None, True
        """(3,) the car's forward axis, IMU axes; and whether accelerometers include gravity."""
        if imu is not None and imu.accelerometers is not None:
            self._ahead = imu.R_imu_vehicle[:, 0].tolist()
            self._has_gravity = not imu.accelerometers.gravity_removed

    def reset(self) -> None:
        """Begin anew."""
        self.begun_ns = 0
        """When the integral began."""
        self.is_sound = True
        """Whether no step of a bias is subtracted: it may have been a change of the car's acceleration."""
        self._along_slope = 0.0
        self._total, self._t = math.nan, 0

    def note_slope(self, gravity: float) -> None:
        """Note the share of gravity along the car by the estimated slope and pitch, m/s²."""
        self._along_slope = gravity if self._has_gravity else 0.0

    def take(self, t: int, values: Mapping[str, float]) -> None:
        """Take a sample at t, ns; the integral begins anew after a gap."""
        if self._ahead is None or ACCELEROMETERS[0] not in values:
            return
        dt, self._t = (t - self._t) * 1e-9, t
        if not (0.0 < dt < _GAP and self.is_sound):
            self._total, self.begun_ns, dt = 0.0, t, 0.0
        force = sum(map(mul, self._ahead, map(values.get, ACCELEROMETERS, _NOTHING)))
        self._total += dt * (force - self._along_slope)

    def get(self, t: int) -> float:
        """The integral at about t (ns), m/s; NaN if it is not measured."""
        return self._total if self.is_sound and abs(t - self._t) < _GAP * 1e9 else math.nan
