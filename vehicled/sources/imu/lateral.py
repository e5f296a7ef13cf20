"""Bound on the lateral motion of the estimate from gyroscope and accelerometer alone."""

from __future__ import annotations

import math
from collections import deque

_WINDOW = 0.5
"""s: over which errors of bank and bias change the lateral velocity by less than the bound."""
_LEAST_BOUND = 1.0
"""m/s"""
_BOUND_PER_SPEED = 0.05
_YAW_RATE_BOUND = 0.5
"""rad/s"""
_SAMPLES = 20
"""From whose differences the noise of the gyroscope is found; that of a broken one is no motion."""
_LASTING = 0.2
"""s"""
_EVERY = 0.02
"""s between comparisons."""
OLD = 0.2
"""s: older samples do not hold now."""


class LateralKinematics:
    """Integrates v̇_y = a_y − g_y − v_x ω_z, and finds when a filter's lateral motion is impossible beside it.

    Samples in vehicle axes; without an accelerometer the yaw rate alone is compared.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self.yaw_rate: float | None = None
        """rad/s, as measured last."""
        self._acceleration: float | None = None
        self._yaw_rate_age = self._acceleration_age = 0.0
        """s"""
        self._variance = 0.0
        """Of a sample's yaw rate, (rad/s)²."""
        self._time = self._gained = self._impossible_for = self._since = 0.0
        self._unexplained: deque[tuple[float, float]] = deque()
        """Time, s, and lateral velocity less what the sensors have integrated, m/s, within the window."""

    def take(self, yaw_rate: float | None, acceleration: float | None) -> None:
        """The latest samples: yaw rate (rad/s) and lateral specific force (m/s²); None where not measured."""
        if yaw_rate is not None:
            if self.yaw_rate is not None:
                self._variance += (0.5 * (yaw_rate - self.yaw_rate) ** 2 - self._variance) / _SAMPLES
            self.yaw_rate, self._yaw_rate_age = yaw_rate, 0.0
        if acceleration is not None:
            self._acceleration, self._acceleration_age = acceleration, 0.0

    def advance(self, dt: float, ahead: float, left: float, yaw_rate: float, banked: float = 0.0) -> bool:
        """Advance by dt (s) beside a filter's velocities (m/s) and yaw rate (rad/s).

        `banked`: what its bank and roll add to the accelerometer to the left, m/s².

        True when these have been impossible for long, which is found at every `_EVERY` seconds.
        """
        if self.yaw_rate is not None and self._acceleration is not None:
            self._gained += dt * (self._acceleration - banked - ahead * self.yaw_rate)
        self._since += dt
        if self._since < _EVERY:
            return False
        since, self._since = self._since, 0.0
        self._yaw_rate_age += since
        self._acceleration_age += since
        if self._yaw_rate_age > OLD:
            self.yaw_rate = None
        if self._acceleration_age > OLD and self._acceleration is not None:
            self._acceleration = None
            self._unexplained.clear()
        if self.yaw_rate is None:
            self._impossible_for = 0.0
            return False
        noise = math.sqrt(self._variance)
        impossible = abs(yaw_rate - self.yaw_rate) > _YAW_RATE_BOUND + 4.0 * noise
        if self._acceleration is not None:
            self._time += since
            kept = self._unexplained
            kept.append((self._time, left - self._gained))
            while self._time - kept[0][0] > _WINDOW:
                kept.popleft()
            jump = abs(kept[-1][1] - kept[0][1])
            integrated = 4.0 * noise * math.sqrt(_WINDOW * _EVERY)
            impossible = impossible or jump > _LEAST_BOUND + (_BOUND_PER_SPEED + integrated) * abs(ahead)
        self._impossible_for = self._impossible_for + since if impossible else 0.0
        return self._impossible_for > _LASTING
