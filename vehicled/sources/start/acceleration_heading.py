"""The heading of a car that may skid, before the filter runs.

The change of a receiver's velocity gives the acceleration in world axes, the accelerometers give the same
acceleration in vehicle axes: the angle between the two is the heading. This assumes nothing about tyres, nor
that the car moves in the direction in which it points. The car has to accelerate, in any direction.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from vehicled.units import Vector

_WINDOW = 0.5
"""s: time over which the acceleration is averaged."""
_LEAST_WINDOW = 0.35
_LONGEST_GAP = 0.25
"""s: longest time between velocities, and between samples."""
_ACCELERATION_SIGMA = 0.6
"""m/s², 1 σ: roll and pitch of a skidding car, and noise of the receiver's velocity."""
_LEAST_ACCELERATION = 3.0
"""m/s²: with less acceleration, errors hide its direction."""


class Alignment(NamedTuple):
    """Heading of the car, and velocity of its origin."""

    yaw: float
    """rad"""
    sigma: float
    """rad"""
    ahead: float
    """m/s"""
    left: float
    """m/s"""


class AccelerationHeading:
    """Keeps velocities over ground and specific forces of the last half second."""

    def __init__(self) -> None:
        self._antenna: Vector | None = None
        """Place of the antenna of the velocities, m in vehicle axes."""
        self._velocities: deque[tuple[float, float, float]] = deque()
        """Time, s; east and north, m/s."""
        self._forces: deque[tuple[float, float, float, float]] = deque()
        """Time, s; yaw rate, rad/s; specific force ahead and to the left, m/s²."""

    def reset(self) -> None:
        """Forget all samples."""
        self._velocities.clear()
        self._forces.clear()

    def take_velocity(self, t: float, speed: float, course: float, antenna: Vector) -> None:
        """Take a velocity over ground at t (s): m/s, rad clockwise from north; `antenna`: m in vehicle axes.

        Velocities of another antenna are dropped: they differ where the car turns.
        """
        if antenna != self._antenna:
            self._velocities.clear()
            self._antenna = antenna
        self._velocities.append((t, speed * math.sin(course), speed * math.cos(course)))
        while t - self._velocities[0][0] > _WINDOW:
            self._velocities.popleft()

    def take_forces(self, t: float, yaw_rate: float, ahead: float, left: float) -> None:
        """Take a sample at t (s): yaw rate (rad/s) and specific forces (m/s²) in vehicle axes."""
        self._forces.append((t, yaw_rate, ahead, left))
        while t - self._forces[0][0] > 2.0 * _WINDOW:
            self._forces.popleft()

    def find(self, imu: Vector) -> Alignment | None:
        """Find the heading at the last velocity; None if too little is known or the car hardly accelerates.

        `imu`: place of the accelerometers, m in vehicle axes.
        """
        antenna = self._antenna
        if antenna is None or len(self._velocities) < 3:
            return None
        (begin, *first), (end, *last) = self._velocities[0], self._velocities[-1]
        forces = [f for f in self._forces if begin < f[0] <= end]
        if end - begin < _LEAST_WINDOW or len(forces) < 3 or not self._is_dense(forces, begin, end):
            return None
        # Backwards from the end, each force is turned into the axes of the car at the end.
        turned, until = 0.0, end
        along = across = 0.0
        for (t, yaw_rate, ahead, left), before in zip(
            reversed(forces), [*(f[0] for f in reversed(forces[:-1])), begin], strict=True
        ):
            turned += yaw_rate * (until - t)
            until = t
            share, (x, y) = t - before, _turn(ahead, left, turned)
            along += share * x
            across += share * y
        # In a turn, the antenna moves relative to the IMU.
        arm = antenna[0] - imu[0], antenna[1] - imu[1]
        (_, turned_before, *_), (_, turns, *_) = forces[0], forces[-1]
        x, y = _turn(-turned_before * arm[1], turned_before * arm[0], turned)
        along += -turns * arm[1] - x
        across += turns * arm[0] - y
        east, north = (b - a for a, b in zip(first, last, strict=True))
        gained = math.hypot(east, north)
        if gained < _LEAST_ACCELERATION * (end - begin):
            return None
        yaw = math.atan2(north, east) - math.atan2(across, along)
        sigma = _ACCELERATION_SIGMA * (end - begin) / gained
        ahead, left = _turn(last[0], last[1], yaw)
        return Alignment(yaw, sigma, ahead + turns * antenna[1], left - turns * antenna[0])

    def _is_dense(self, forces: list[tuple[float, float, float, float]], begin: float, end: float) -> bool:
        times = [begin, *(f[0] for f in forces), end]
        velocities = [v[0] for v in self._velocities]
        return all(b - a < _LONGEST_GAP for kept in (times, velocities) for a, b in pairwise(kept))


def _turn(x: float, y: float, angle: float) -> tuple[float, float]:
    """Components of a vector in axes that are turned by an angle to the left, rad."""
    cos, sin = math.cos(angle), math.sin(angle)
    return x * cos + y * sin, y * cos - x * sin
