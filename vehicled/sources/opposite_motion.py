"""Velocities of a receiver that are opposite to those of the estimate.

Wheels, and the buses of most cars, give no direction: an estimate that goes backwards while the car goes forwards, as
after a spin, agrees with all of them, with the steering and with the gyroscope. The receiver alone contradicts it, in
course and place.
"""

from __future__ import annotations

import cmath
import math

from vehicled.filter.boundary import ObservedFilter
from vehicled.units import Vector
from vehicled.vehicle.arrays import AHEAD, LEFT, YAW, YAW_RATE

_SLOWEST = 2.0
"""m/s"""
_SHARE = 0.4
"""Of the speed: by how much opposite velocities may differ."""
_LASTING = 0.5
"""s"""
_LONGEST_GAP = 1.2
"""s between velocities; after a longer one nothing is known of those before."""
_FEWEST = 2
_RECENT = 0.5
"""s for which a velocity holds."""


def find_antenna_velocity(f: ObservedFilter, antenna: Vector) -> complex:
    """Of a place (m, vehicle axes) by the estimate, east + i north, m/s."""
    pose, (ahead, left, _) = f.pose, antenna
    own = complex(
        pose.item(AHEAD) - pose.item(YAW_RATE) * left, pose.item(LEFT) + pose.item(YAW_RATE) * ahead
    )
    return own * cmath.rect(1.0, pose.item(YAW))


class OppositeMotion:
    """Compares the velocities of a receiver with the estimate."""

    def __init__(self) -> None:
        self._t, self._velocity = -math.inf, 0j
        """Of the last one."""
        self.reset()

    def reset(self) -> None:
        """The filter begins anew. What was measured last still holds."""
        self._since, self._count = math.inf, 0

    @property
    def lasts(self) -> bool:
        """Whether the last velocities have been opposite."""
        return self._count > _FEWEST and self._t - self._since > _LASTING

    def take(self, t: float, measured: complex, estimated: complex) -> None:
        """Velocities of the antenna at t (s), east + i north, m/s."""
        if t - self._t > _LONGEST_GAP:
            self.reset()
        self._t, self._velocity = t, measured
        speed = abs(measured)
        if speed > _SLOWEST and abs(measured + estimated) < _SHARE * speed:
            self._since = min(self._since, t)
            self._count += 1
        else:
            self.reset()

    def find(self, t: float) -> tuple[float, complex] | None:
        """The last velocity and its age at t (s); None where it is too old."""
        age = t - self._t
        return (age, self._velocity) if age < _RECENT else None
