"""Whether the steering sensor measures, judged from itself, the gyroscope and the speed, not by the model's tyres.

Where it does not, the angle of rolling takes its place: δ = L ω_z / v_x, and what the sensor differed from that by.
"""

from __future__ import annotations

import math
from typing import Literal

SteeringState = Literal["measured", "silent", "distrusted"]

_SILENT = 0.3
"""s without a sample."""
_REPEATING = 0.3
"""s for which the sample has not changed: so does that of a sound sensor where the driver holds the wheel still."""
_APART = 0.03
"""rad: a sensor that repeats its sample is distrusted once the car turns by another angle than before, by so much."""
_LASTING = 0.1
"""s"""
_JUMP = 0.02
"""rad: a difference that noise may make from sample to sample."""
_FASTEST = 2.5
"""rad/s: no driver turns the road wheels faster, even with 40 rad/s at the steering wheel."""
_SOUND_AGAIN = 0.2, 5
"""s, and how often a sample has to change, before a sensor is believed again."""
_SLOWEST = 3.0
"""m/s: slower, yaw rate over speed is no angle."""
_USUAL_TIME = 2.0
"""s: over which offset and understeer are averaged."""


class SteeringHealth:
    """Compares the road wheels' mean angle, rad, with that of rolling where samples repeat themselves."""

    def __init__(self, wheelbase: float) -> None:
        """`wheelbase`: m."""
        self._wheelbase = wheelbase
        self.state: SteeringState = "silent"
        self._angle = self._usual = 0.0
        """Measured last; and by how much that differs from rolling while the sensor is sound."""
        self._seen = self._changed = self._judged = -math.inf
        self._wrong_since = math.inf
        self._distrusted_at, self._changes = -math.inf, 0
        """Since then the sample has changed so often, without a pause."""

    def take(self, t: float, angle: float) -> None:
        """A sample of the angle at t, s."""
        if abs(angle - self._angle) > _JUMP + _FASTEST * (t - self._seen):
            self._distrust(t)
        elif angle != self._angle:
            if t - self._changed > _REPEATING:
                self._distrusted_at, self._changes = t, 0
            self._changes += 1
        if angle != self._angle:
            self._angle, self._changed = angle, t
        self._seen = t

    def judge(self, t: float, ahead: float, yaw_rate: float | None) -> float | None:
        """Find the state at t (s), and the angle that takes the sensor's place, if one is needed and known.

        `ahead`: speed, m/s; `yaw_rate` as measured, rad/s, None where it is not.
        """
        rolling = None
        if yaw_rate is not None and ahead > _SLOWEST:
            rolling = self._wheelbase * yaw_rate / ahead
        self._find_state(t, rolling)
        self._judged = t
        return None if self.state == "measured" or rolling is None else rolling + self._usual

    def calc_yaw_rate(self, ahead: float) -> float | None:
        """By rolling along the measured angle at a speed ahead (m/s), rad/s; None where it is not measured."""
        return ahead * self._angle / self._wheelbase if self.state == "measured" else None

    def _find_state(self, t: float, rolling: float | None) -> None:
        if t - self._seen > _SILENT:
            self.state = "silent"
            return
        repeating = t - self._changed > _REPEATING
        if self.state != "measured":
            time, changes = _SOUND_AGAIN
            sound = self._changes >= changes and t - self._distrusted_at > time and not repeating
            if self.state == "distrusted" and not sound:
                return
            self.state, self._wrong_since = "measured", math.inf
        if rolling is None:
            self._wrong_since = math.inf
            return
        apart = self._angle - rolling
        wrong = repeating and abs(apart - self._usual) > _APART
        self._wrong_since = min(self._wrong_since, t) if wrong else math.inf
        if t - self._wrong_since > _LASTING:
            self._distrust(t)
        elif not repeating:
            self._usual += (apart - self._usual) * min((t - self._judged) / _USUAL_TIME, 1.0)

    def _distrust(self, t: float) -> None:
        self.state, self._distrusted_at, self._changes = "distrusted", t, 0
