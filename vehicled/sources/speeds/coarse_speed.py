"""Speeds in coarse steps, such as whole km/h on a bus: the step follows from the readings.

A coarse reading has an error of up to half a step, which hardly changes while the reading repeats itself: a
run of equal readings has little more information than its first one. A reading of zero mostly comes from a
standing car, so its repetitions do have information.
"""

from __future__ import annotations

_CHANGES = 8
"""Number of changes between readings after which the least of them is the step."""
_COARSE = 2.0
"""Ratio of step to a sample's noise above which the step matters: with more noise the reading changes from
sample to sample."""
_REPEATS_OF_ZERO = 9
"""Number of repetitions beyond which readings of a standing car all count alike."""


class CoarseSpeed:
    """Variance of the readings of one sensor, including their steps."""

    def __init__(self) -> None:
        self._last, self._repeats = 0.0, 0
        self._step, self._changes = 0.0, 0

    def find_variance(self, reading: float, variance: float, estimate: float) -> float:
        """Variance of a reading (m/s) including rounding; `variance`: of its noise alone; both (m/s)².

        `estimate`: of that speed; if it is wrong by more than rounding explains, repeated readings count
        fully.
        """
        change, self._last = abs(reading - self._last), reading
        if change > 0.0:
            self._step = min(change, self._step) if self._changes else change
            self._changes, self._repeats = self._changes + 1, 0
        else:
            self._repeats += 1
        if self._changes < _CHANGES or self._step**2 < _COARSE**2 * variance:
            return variance
        if abs(estimate - reading) > self._step:
            self._repeats = 0
        repeats = self._repeats if reading != 0.0 else min(self._repeats, _REPEATS_OF_ZERO)
        # 1 + 1/4 + 1/9 …: a run of any length has less than twice the information of one reading.
        return (variance + self._step**2 / 12.0) * (1 + repeats) ** 2
