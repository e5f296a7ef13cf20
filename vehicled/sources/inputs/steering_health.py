"""Health of the steering sensor, from its own samples, the gyroscope and the speed, not from the model's tyres.

Where it is silent or distrusted, the angle at which the car would turn without slip takes its place: δ = L ω_z / v_x,
plus the difference between sensor and that angle as it was before.
"""

from __future__ import annotations

import math
from typing import Literal

from vehicled.sources.sample_noise import SampleNoise

SteeringState = Literal["measured", "silent", "distrusted"]

SILENT, _ALONE = 0.3, 0.15
"""s without a sample; and where no gyroscope shows what the car does meanwhile."""
_REPEATING = 0.3
"""s for which the sample has not changed: so does that of a healthy sensor where the driver holds the wheel still."""
_APART = 0.03
"""rad: a sensor that repeats its sample is distrusted once the car turns by another angle than before, by so much."""
_LASTING = 0.1
"""s"""
_LARGEST_LATERAL = 4.0
"""m/s²: of lateral acceleration; with more, slip angles are not small beside the steering angle."""
_JUMP = 0.02
"""rad: a difference that noise may make from sample to sample."""
_FASTEST = 2.5
"""rad/s: no driver turns the road wheels faster, even with 40 rad/s at the steering wheel."""
_JUMPING = 0.05
"""s for which samples are only left out after a jump: an outlier is over by then."""
_RECOVERY = 0.2
"""s for which a distrusted sensor has to agree, before it is used again."""
_BACK = 0.5
"""s after a silence in which its angle is compared even if it changes: a power failure may have lost its zero."""
_SLOWEST = 3.0
"""m/s: slower, yaw rate over speed is no angle."""
_OFFSET_TIME = 2.0
"""s: over which the offset, which understeer is part of, is averaged."""

_NOISY, _QUIET = 3e-3, 2e-3
"""rad, 1 σ: of noise from which on the angle of rolling is better, and below which it is not. Tyres' forces by noise
are noise, which correlates with itself where stiffness and offset are found."""
_LARGEST_NOISE = 0.01
"""rad, 1 σ, that a single sample shows at most."""


class SteeringHealth:
    """Compares the road wheels' mean angle, rad, with that of rolling where samples repeat themselves."""

    def __init__(self, wheelbase: float) -> None:
        """`wheelbase`: m."""
        self._wheelbase = wheelbase
        self.state: SteeringState = "silent"
        self._angle = self._offset = 0.0
        """Measured last, without outliers; and by how much it differs from rolling while the sensor is healthy."""
        self.seen = self._changed = self._checked = -math.inf
        """Times, s; `seen`: of the last sample."""
        self._jumped_at = math.inf
        self._back_at = -math.inf
        self._wrong_since = self._agreeing_since = math.inf
        self._distrusted = self._changed_since = False
        self._noise, self.is_noisy = SampleNoise(_LARGEST_NOISE), False
        self._jumped_by = math.nan
        """Sum of the jumps since it was last healthy, rad; NaN where something else was wrong."""

    def take(self, t: float, angle: float) -> bool:
        """Whether a sample of the angle at t, s, is to be followed."""
        if t <= self.seen:
            return False
        jumps = abs(angle - self._angle) > _JUMP + _FASTEST * (t - self.seen)
        if SILENT < t - self.seen < math.inf:
            self._back_at = t
        self.seen = t
        self._noise.take(t, angle)
        self.is_noisy = self._noise.variance > (_QUIET if self.is_noisy else _NOISY) ** 2
        if jumps:
            self._jumped_at = min(self._jumped_at, t)
            if t - self._jumped_at < _JUMPING:
                return False
        self._jumped_at = math.inf
        jump = angle - self._angle
        if jump:
            self._angle, self._changed, self._changed_since = angle, t, True
        if jumps:
            self._note_jump(jump)
        return not self._is_wrong

    def check(self, t: float, ahead: float, yaw_rate: float | None, slides: bool = False) -> float | None:
        """Find the state at t (s), and the angle that takes the sensor's place, if one is needed and known.

        `ahead`: speed, m/s; `yaw_rate` as measured, rad/s, None where it is not; `slides`: whether the car goes
        sideways, so that no angle of its wheels tells how it turns.
        """
        rolling = None
        silent = t - self.seen > (_ALONE if yaw_rate is None else SILENT)
        if silent or slides:
            self._wrong_since = self._agreeing_since = math.inf
        if yaw_rate is not None and abs(ahead) > _SLOWEST:
            rolling = self._wheelbase * yaw_rate / ahead
            if not (silent or slides) and abs(ahead * yaw_rate) < _LARGEST_LATERAL:
                self._compare(t, self._angle - rolling)
        self._checked = t
        self.state = "silent" if silent else "distrusted" if self._is_wrong else "measured"
        return None if self.state == "measured" or rolling is None else rolling + self._offset

    @property
    def _is_wrong(self) -> bool:
        return self._distrusted or self.is_noisy

    def calc_yaw_rate(self, ahead: float) -> float | None:
        """By rolling along the measured angle at a speed ahead (m/s), rad/s; None where it is not measured."""
        return ahead * self._angle / self._wheelbase if self.state == "measured" else None

    def _compare(self, t: float, apart: float) -> None:
        """Compare with the angle of rolling, from which the sensor's is `apart`, rad."""
        repeating = t - self._changed > _REPEATING
        wrong = abs(apart - self._offset) > _APART
        doubtful = wrong and (repeating or t - self._back_at < _BACK)
        self._wrong_since = min(self._wrong_since, t) if doubtful else math.inf
        # An angle along which the car rolls is right, whatever a slide has made of the offset before.
        rolls = abs(apart) < _APART
        agrees = (rolls or not wrong) and self._changed_since
        self._agreeing_since = min(self._agreeing_since, t) if agrees else math.inf
        if t - self._wrong_since > _LASTING:
            self._distrust()
        elif self._distrusted and t - self._agreeing_since > _RECOVERY:
            self._distrusted = False
            self._offset = apart
        elif not self._is_wrong and not repeating:
            self._offset += (apart - self._offset) * min((t - self._checked) / _OFFSET_TIME, 1.0)

    def _note_jump(self, jump: float) -> None:
        """Note a jump of the angle, rad. One that takes back those before is the end of the fault."""
        self._jumped_by = jump if not self._distrusted else self._jumped_by + jump
        if abs(self._jumped_by) < _APART:
            self._distrusted = False
        else:
            self._distrust(self._jumped_by)

    def _distrust(self, jumped_by: float = math.nan) -> None:
        self._distrusted, self._changed_since, self._jumped_by = True, False, jumped_by
