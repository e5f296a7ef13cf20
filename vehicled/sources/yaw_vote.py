"""Whether the gyroscope turns with the car: wheels and steering vote on it, not the model.

Over the last second the car has turned by the integral of the gyroscope, by the difference of the ways of two wheels,
and by the angle of the steering along its way. Radii, offsets and understeer make the latter two wrong by a share of
the way, which is averaged and counted as usual. Where both deny the gyroscope, in the same direction, it is wrong;
where only one does, that one may be.
"""

from __future__ import annotations

import math
from collections import deque

from vehicled.messages import Measurement
from vehicled.sources.imu import GYROSCOPES, Imu
from vehicled.vehicle.parameters import Vehicle

_WINDOW = 1.0
"""s"""
_EVERY = 0.02
"""s between the places that are kept."""
_BOUND = 0.1
"""rad: teeth of counters, slip and loads make less of a difference."""
_SHARES = 0.1, 0.25
"""Of the angle, by which wheels and steering may differ more."""
_SOUND_AGAIN = 1.5
"""s within half of the bounds, after which the gyroscope is believed again."""
_USUAL_TIME = 5.0
"""s: over which the usual differences are averaged."""
_SLOWEST = 4.0
"""m/s"""
_JUMP, _FASTEST = 0.5, 20.0
"""rad/s, and rad/s²: no yaw rate changes by more from sample to sample. Such samples are not used, but count."""
_LONGEST = 0.2
"""s: after a longer gap nothing is known of the angle meanwhile."""

_Place = tuple[float, float, float, float, float]
"""Time, s; angles by gyroscope, wheels and steering, rad; way, m."""


class YawVote:
    """Compares the gyroscope with the wheels of an axle and the steering."""

    def __init__(self, imu: Imu | None, vehicle: Vehicle) -> None:
        # Driven wheels slip; the axle that is not driven is better, the rear one else.
        axle = "f" if vehicle.driven == "rear" else "r"
        self._axis = None if imu is None else imu.R_imu_vehicle[:, 2].tolist()
        place = vehicle.axle(f"{axle}l")
        self._angle_per_turn = place.tyre.radius / (2.0 * place.hard_points.wheel_center[1])
        self._channels = [(f"wheel.{axle}{side}.angle", f"wheel.{axle}{side}.speed") for side in "lr"]
        self._usual = [0.0, 0.0]
        """rad/m by which wheels and steering differ from the gyroscope."""
        self.reset()

    def reset(self) -> None:
        """The filter begins anew: what is usual stays."""
        self.is_sound = True
        self._sound_since = math.inf
        self._forget()

    def _forget(self) -> None:
        self._kept: deque[_Place] = deque()
        self._t, self._gyro, self._steering, self._way = -math.inf, 0.0, 0.0, 0.0
        self._smooth = -math.inf, 0.0
        """Time, s, and yaw rate, rad/s, of the last sample that did not jump."""
        self._wheels = [0.0, 0.0]
        self._wheels_at = [-math.inf, -math.inf]

    def take(self, m: Measurement, ahead: float, steering: float | None) -> bool:
        """Whether the gyroscopes among the channels are believed.

        `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s, None where that is not measured.
        """
        t, values = m.t * 1e-9, m.values
        for n, (angle, speed) in enumerate(self._channels):
            if angle in values:
                self._wheels[n], self._wheels_at[n] = values[angle], t
            elif speed in values:
                dt = t - self._wheels_at[n]
                self._wheels[n] += values[speed] * dt if 0.0 < dt < _LONGEST else 0.0
                self._wheels_at[n] = t
        if self._axis is None or GYROSCOPES[2] not in values:
            return self.is_sound
        (a, b, c), (x, y, z) = self._axis, GYROSCOPES
        rate = a * values.get(x, 0.0) + b * values.get(y, 0.0) + c * values[z]
        dt, self._t = t - self._t, t
        before, smooth = self._smooth
        jumps = abs(rate - smooth) > _JUMP + _FASTEST * (t - before)
        if not jumps:
            self._smooth = t, rate
        if steering is None or ahead < _SLOWEST or not 0.0 < dt < _LONGEST:
            self._kept.clear()
            return self.is_sound and not jumps
        self._gyro += dt * rate
        self._steering += dt * steering
        self._way += dt * ahead
        if t - min(self._wheels_at) > _LONGEST:
            self._kept.clear()
        elif not self._kept or t - self._kept[-1][0] >= _EVERY:
            turned = self._angle_per_turn * (self._wheels[1] - self._wheels[0])
            self._compare((t, self._gyro, turned, self._steering, self._way))
        return self.is_sound and not jumps

    def _compare(self, now: _Place) -> None:
        kept, t = self._kept, now[0]
        kept.append(now)
        if t - kept[0][0] < _WINDOW:
            return
        while t - kept[0][0] > _WINDOW:
            kept.popleft()
        _, gyro, *others, way = (a - b for a, b in zip(now, kept[0], strict=True))
        unusual = [gyro - angle - usual * way for angle, usual in zip(others, self._usual, strict=True)]
        by_wheels, by_steering = (
            u / (_BOUND + share * min(abs(gyro), abs(angle)))
            for u, angle, share in zip(unusual, others, _SHARES, strict=True)
        )
        agrees = max(abs(by_wheels), abs(by_steering)) < 0.5
        self._sound_since = min(self._sound_since, t) if agrees else math.inf
        if by_wheels * by_steering > 0.0 and min(abs(by_wheels), abs(by_steering)) > 1.0:
            self.is_sound = False
        elif t - self._sound_since > _SOUND_AGAIN:
            self.is_sound = True
        if self.is_sound:
            for n, u in enumerate(unusual):
                self._usual[n] += u / way * _EVERY / _USUAL_TIME
