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
_FAIR = 4.0
"""m/s²: of lateral acceleration; with more, a car need not go where its wheels point."""
_JUMP = 0.02
"""rad: a difference that noise may make from sample to sample."""
_FASTEST = 2.5
"""rad/s: no driver turns the road wheels faster, even with 40 rad/s at the steering wheel."""
_JUMPING = 0.05
"""s for which samples are only left out after a jump: an outlier is over by then."""
_SOUND_AGAIN = 0.2
"""s for which a distrusted sensor has to agree, before it is believed again."""
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
        """Measured last, without outliers; and by how much that differs from rolling while the sensor is sound."""
        self._seen = self._changed = self._judged = -math.inf
        self._jumped_at: float | None = None
        self._wrong_since = self._agreeing_since = math.inf
        self._distrusted = self._changed_since = False

    def take(self, t: float, angle: float) -> bool:
        """Whether a sample of the angle at t, s, is to be followed."""
        if t <= self._seen:
            return False
        jumps = abs(angle - self._angle) > _JUMP + _FASTEST * (t - self._seen)
        if jumps and self._jumped_at is None:
            self._jumped_at = t
        self._seen = t
        if jumps and self._jumped_at is not None and t - self._jumped_at < _JUMPING:
            return False
        if jumps:
            self._distrust()
        self._jumped_at = None
        if angle != self._angle:
            self._angle, self._changed, self._changed_since = angle, t, True
        if jumps:
            # What it has jumped to is the first sample, not a change.
            self._changed_since = False
        return not self._distrusted

    def judge(self, t: float, ahead: float, yaw_rate: float | None) -> float | None:
        """Find the state at t (s), and the angle that takes the sensor's place, if one is needed and known.

        `ahead`: speed, m/s; `yaw_rate` as measured, rad/s, None where it is not.
        """
        rolling = None
        if yaw_rate is not None and ahead > _SLOWEST:
            rolling = self._wheelbase * yaw_rate / ahead
            if abs(ahead * yaw_rate) < _FAIR:
                self._compare(t, self._angle - rolling)
        self._judged = t
        silent = t - self._seen > _SILENT
        self.state = "silent" if silent else "distrusted" if self._distrusted else "measured"
        return None if self.state == "measured" or rolling is None else rolling + self._usual

    def calc_yaw_rate(self, ahead: float) -> float | None:
        """By rolling along the measured angle at a speed ahead (m/s), rad/s; None where it is not measured."""
        return ahead * self._angle / self._wheelbase if self.state == "measured" else None

    def _compare(self, t: float, apart: float) -> None:
        """With rolling, from which the sensor is so far apart, rad."""
        repeating = t - self._changed > _REPEATING
        wrong = abs(apart - self._usual) > _APART
        self._wrong_since = min(self._wrong_since, t) if wrong and repeating else math.inf
        agrees = not wrong and self._changed_since
        self._agreeing_since = min(self._agreeing_since, t) if agrees else math.inf
        if t - self._wrong_since > _LASTING:
            self._distrust()
        elif self._distrusted and t - self._agreeing_since > _SOUND_AGAIN:
            self._distrusted = False
        elif not self._distrusted and not repeating:
            self._usual += (apart - self._usual) * min((t - self._judged) / _USUAL_TIME, 1.0)

    def _distrust(self) -> None:
        if not self._distrusted:
            self._distrusted, self._changed_since = True, False
