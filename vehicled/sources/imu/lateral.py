"""Bound on the lateral motion of the estimate from gyroscope and accelerometer alone."""

from __future__ import annotations

import math
from collections import deque

_WINDOW = 0.5
"""s: within this time, errors of bank and bias change the lateral velocity by less than the bound."""
_LEAST_BOUND = 1.0
"""m/s"""
_BOUND_PER_SPEED = 0.05
_YAW_RATE_BOUND = 0.5
"""rad/s"""
_SAMPLES = 20
"""Number of samples whose differences give the gyroscope's noise; the noise of a broken one must not look
like motion."""
_LASTING = 0.2
"""s"""
_EVERY = 0.02
"""Time between comparisons, s."""
OLD = 0.2
"""s: older samples are out of date."""


class LateralKinematics:
    """Integrates v̇_y = a_y − g_y − v_x ω_z, and finds when this excludes the filter's lateral motion.

    Samples are in vehicle axes. Without an accelerometer only the yaw rate is compared.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self.yaw_rate: float | None = None
        """Latest yaw rate, rad/s."""
        self._acceleration: float | None = None
        self._yaw_rate_age = self._acceleration_age = 0.0
        """s"""
        self._variance = 0.0
        """Variance of a sample of the yaw rate, (rad/s)²."""
        self._time = self._gained = self._impossible_for = self._since = 0.0
        self._unexplained: deque[tuple[float, float]] = deque()
        """Time, s, and the filter's lateral velocity less that integrated from the sensors, m/s, within the
        window."""

    def take(self, yaw_rate: float | None, acceleration: float | None) -> None:
        """Take the latest yaw rate (rad/s) and lateral specific force (m/s²); None if not measured."""
        if yaw_rate is not None:
            if self.yaw_rate is not None:
                self._variance += (0.5 * (yaw_rate - self.yaw_rate) ** 2 - self._variance) / _SAMPLES
            self.yaw_rate, self._yaw_rate_age = yaw_rate, 0.0
        if acceleration is not None:
            self._acceleration, self._acceleration_age = acceleration, 0.0

    def advance(self, dt: float, ahead: float, left: float, yaw_rate: float, banked: float = 0.0) -> bool:
        """Advance by dt (s), with the filter's velocities (m/s) and yaw rate (rad/s).

        `banked`: gravity in the lateral acceleration by the filter's bank and roll, m/s².

        Returns whether the filter's motion has been impossible for long; checked every `_EVERY` seconds.
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
        if self._acceleration_age > OLD:
            self._acceleration = None
        if self.yaw_rate is None or self._acceleration is None:
            self._unexplained.clear()  # what happens until both are measured again is not integrated
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
