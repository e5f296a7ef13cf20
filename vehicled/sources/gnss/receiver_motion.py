"""Detection of a lasting difference in direction between a receiver's velocities and the estimate's.

Wheels, and the buses of most cars, give no direction: an estimate that goes backwards while the car goes
forwards, as after a spin, agrees with all of them, with the steering and with the gyroscope. So does one with
a wrong heading, as after a turntable, where standing wheels contradict the gyroscope. Only the receiver
contradicts both, in course and place.
"""

from __future__ import annotations

import cmath
import math

from vehicled.filter.boundary import ObservedFilter
from vehicled.maths.angles import wrap
from vehicled.units import Vector
from vehicled.vehicle.arrays import AHEAD, LEFT, YAW, YAW_RATE

_SLOWEST = 2.0
"""m/s"""
_SHARE = 0.4
"""Share of the speed by which the two may differ in magnitude."""
_LARGEST, _OPPOSITE = math.radians(20.0), math.radians(155.0)
"""rad: above these angles, directions differ, and are opposite."""
_SAME = math.radians(15.0)
"""rad: a change of the difference up to this angle counts as none; if a car skids otherwise than the
estimate, the difference changes."""
_LASTING, _LASTING_OPPOSITE = 1.0, 0.5
"""s"""
_LONGEST_GAP, _FEWEST = 1.2, 3
"""Longest time between velocities, s, and least number of them."""
_RECENT = 0.5
"""s: time for which a velocity is valid."""


def find_antenna_velocity(f: ObservedFilter, antenna: Vector, age: float = 0.0) -> complex:
    """Estimated velocity of a place (m, vehicle axes), east + i north, m/s; or that of `age` (s) ago.

    The latter assumes that the car has turned since then at its present yaw rate.
    """
    read, (ahead, left, _) = f.pose.item, antenna
    turning = read(YAW_RATE)
    own = complex(read(AHEAD) - turning * left, read(LEFT) + turning * ahead)
    return own * cmath.rect(1.0, read(YAW) - turning * age)


class ReceiverMotion:
    """Compares the velocities of a receiver with the estimate."""

    def __init__(self) -> None:
        self._t, self._velocity = -math.inf, 0j
        """Time, s, and value of the last velocity, m/s."""
        self.reset()

    def reset(self) -> None:
        """Restart with the filter. The last measured velocity remains valid."""
        self._since, self._count, self._angle = math.inf, 0, 0.0

    def take(self, t: float, measured: complex, estimated: complex) -> None:
        """Take measured and estimated velocity of the antenna at t (s), east + i north, m/s."""
        if t - self._t > _LONGEST_GAP:
            self.reset()
        self._t, self._velocity = t, measured
        speed = abs(measured)
        angle = cmath.phase(measured * estimated.conjugate())
        is_fast = speed > _SLOWEST and abs(speed - abs(estimated)) < _SHARE * speed
        if not is_fast or abs(angle) < _LARGEST:
            self.reset()
            return
        if not self._count or abs(wrap(angle - self._angle)) > _SAME:
            self._since, self._count, self._angle = t, 0, angle
        self._count += 1

    @property
    def is_opposite(self) -> bool:
        """Whether the measured velocities have long been opposite to the estimated ones."""
        return abs(self._angle) > _OPPOSITE and self._lasts(_LASTING_OPPOSITE)

    @property
    def is_turned(self) -> bool:
        """Whether they have long differed from the estimated ones by the same angle, not a half turn."""
        return abs(self._angle) < _OPPOSITE and self._lasts(_LASTING)

    def _lasts(self, seconds: float) -> bool:
        return self._count >= _FEWEST and self._t - self._since > seconds

    def find(self, t: float) -> tuple[float, complex] | None:
        """Age at t (s) of the last velocity, and the velocity; None if it is too old."""
        age = t - self._t
        return (age, self._velocity) if age < _RECENT else None
