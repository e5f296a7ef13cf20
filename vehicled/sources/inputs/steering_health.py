"""Health of the steering sensor, by its own samples, gyroscope and speed, not by the model's tyres.

If it is silent or distrusted, it is replaced by the angle of rolling, at which the car would turn without
slip: δ = L ω_z / v_x, plus the sensor's offset from that angle as found before.
"""

from __future__ import annotations

import math
from typing import Literal

from vehicled.sources.sample_noise import SampleNoise
from vehicled.sources.sample_run import NoisyRun

SteeringState = Literal["measured", "silent", "distrusted"]

SILENT, _ALONE = 0.3, 0.15
"""Time, s, without a sample until it is silent; and the same if no gyroscope shows meanwhile how the car
turns."""
_REPEATING = 0.3
"""Time, s, without a change of the sample. A healthy sensor does not change either if the driver holds the
wheel still."""
_APART = 0.03
"""rad: a sensor that repeats its sample is distrusted once the angle of rolling has changed by more than
this."""
_LASTING = 0.1
"""s"""
_LARGEST_LATERAL = 4.0
"""m/s²: with a larger lateral acceleration, slip angles are not small compared with the steering angle."""
_JUMP = 0.02
"""rad: largest difference between samples due to noise."""
_FASTEST = 2.5
"""rad/s: no driver turns the road wheels faster, even with 40 rad/s at the steering wheel."""
_JUMPING = 0.05
"""Time, s, after a jump for which samples are only left out: an outlier does not last longer."""
_RECOVERY = 0.2
"""Time, s, for which a distrusted sensor has to agree before it is used again."""
_BACK = 0.5
"""Time, s, after a silence for which its angle is compared even if it changes: a power failure may have lost
its zero."""
_SLOWEST = 3.0
"""m/s: at lower speed, yaw rate over speed does not give an angle."""
_OFFSET_TIME = 2.0
"""s: time constant of the average of the offset, which includes understeer."""

_NOISY, _QUIET = 3e-3, 2e-3
"""rad, 1 σ: noise above which the angle of rolling is used instead, and below which the sensor is used again.
The noise makes tyre forces noisy, which correlates with itself where stiffness and offset are estimated."""
_LARGEST_NOISE = 0.01
"""rad, 1 σ: largest noise that a single sample counts as."""


class SteeringHealth:
    """Compares the mean angle of the road wheels, rad, with the angle of rolling."""

    def __init__(self, wheelbase: float) -> None:
        """`wheelbase`: m."""
        self._wheelbase = wheelbase
        self.state: SteeringState = "silent"
        self._angle = self._offset = 0.0
        """Latest angle without outliers; and its offset from the angle of rolling while the sensor is
        healthy."""
        self.seen = self._changed = self._checked = -math.inf
        """Times, s; `seen`: of the last sample."""
        self._jumped_at = math.inf
        self._back_at = -math.inf
        self._wrong_since = self._agreeing_since = math.inf
        self._distrusted = self._changed_since = False
        self._noise, self.is_noisy = SampleNoise(_LARGEST_NOISE), False
        self._noise_of_changes, self._run = SampleNoise(_LARGEST_NOISE), NoisyRun()
        """Noise of samples that differ from the one before, as a logger that repeats each sample makes stairs
        of a smooth angle; and the run of equal samples."""
        self._drives = False
        """Whether the car is fast enough for its wheels to move to and fro."""
        self._jumped_by = math.nan
        """Sum of the jumps since the sensor was last healthy, rad; NaN if it was distrusted for another
        reason."""

    def take(self, t: float, angle: float) -> bool:
        """Take a sample of the angle at t, s; returns whether to use it."""
        if t <= self.seen:
            return False
        jumps = abs(angle - self._angle) > _JUMP + _FASTEST * (t - self.seen)
        if SILENT < t - self.seen < math.inf:
            self._back_at = t
        self.seen = t
        self._noise.take(t, angle)
        if self._run.add(angle, round(t * 1e9), self._drives and not self._distrusted):
            self._noise_of_changes.take(t, angle)
        variance = min(self._noise.variance, self._noise_of_changes.variance)
        self.is_noisy = variance > (_QUIET if self.is_noisy else _NOISY) ** 2
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

    def _is_too_quiet(self, t: float) -> bool:
        """Whether an angle whose noise changed it with nearly every sample repeats itself."""
        noise = math.sqrt(self._noise_of_changes.variance)
        return self._run.is_long(round(t * 1e9)) and self._run.is_noise(noise)

    def check(self, t: float, ahead: float, yaw_rate: float | None, slides: bool = False) -> float | None:
        """Find the state at t (s), and the angle that takes the sensor's place, if one is needed and known.

        `ahead`: speed, m/s; `yaw_rate` as measured, rad/s, None where it is not; `slides`: whether the car goes
        sideways, so that no angle of its wheels tells how it turns.
        """
        rolling = None
        silent = t - self.seen > (_ALONE if yaw_rate is None else SILENT)
        if silent or slides:
            self._wrong_since = self._agreeing_since = math.inf
        self._drives = abs(ahead) > _SLOWEST
        if yaw_rate is not None and self._drives:
            if self._run.repetitions and not (silent or self._distrusted) and self._is_too_quiet(t):
                self._distrust()  # until it agrees with the yaw rate again
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
        """Yaw rate of rolling at the measured angle and forward speed (m/s), rad/s; None if not measured."""
        return ahead * self._angle / self._wheelbase if self.state == "measured" else None

    def _compare(self, t: float, apart: float) -> None:
        """Compare with the angle of rolling; `apart`: the sensor's angle less that one, rad."""
        repeating = t - self._changed > _REPEATING
        wrong = abs(apart - self._offset) > _APART
        doubtful = wrong and (repeating or t - self._back_at < _BACK)
        self._wrong_since = min(self._wrong_since, t) if doubtful else math.inf
        # If the car rolls as the angle says, the angle is right, even if a slide has falsified the offset.
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
        """Note a jump of the angle, rad. A jump that cancels the earlier ones ends the fault."""
        self._jumped_by = jump if not self._distrusted else self._jumped_by + jump
        if abs(self._jumped_by) < _APART:
            self._distrusted = False
        else:
            self._distrust(self._jumped_by)

    def _distrust(self, jumped_by: float = math.nan) -> None:
        self._distrusted, self._changed_since, self._jumped_by = True, False, jumped_by
