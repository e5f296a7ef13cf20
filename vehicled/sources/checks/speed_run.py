"""Runs of equal speeds: whether the speed has changed meanwhile, by other sensors."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median

from vehicled.maths.white_noise import OF_SECOND_DIFFERENCES
from vehicled.sources.sample_run import NoisyRun

_FEWEST = 2
"""Number of repetitions from which on a speed may be stuck."""
_CHANGED = 1.0
"""m/s: least change of the estimated speed since a speed began to repeat itself. Speeds in whole miles per
hour repeat themselves for smaller changes; near standstill speeds are zero."""
_SETTLED_NS = 1_000_000_000
"""Time since a speed began to repeat itself after which averages of another speed are from that time
alone."""
_OTHER_CHANGED, _OTHER_SIGMAS, _DIGITS_OF_SPEED, _IN_A_ROW = 0.1, 4.0, 2.0, 2
"""Least change of another sensor's averages since a speed began to repeat itself: m/s; multiple of the noise
of these averages; and multiple of the last digit of the repeating speed. And the number of consecutive
averages that must show it."""
_KEPT_AVERAGES = 8
"""Averages of that sensor from which their noise is found."""
_KEPT_DIFFERENCES = 24
"""Kept differences of both averages while the speed changes. Errors of a receiver last for a second and more:
they show in these differences, not in second differences of its own averages."""
_MOST_AT_ZERO = 2.0
"""m/s: change of another speed up to which a speed may read zero."""
_LATEST, _FEWEST_BEFORE = 32, 16
"""Number of kept samples, and least number of those before a run that show the noise."""
_PER_BEND = 1.0 / (0.6745 * math.sqrt(OF_SECOND_DIFFERENCES))
"""Standard deviation of a number over the median of |a − 2 b + c| of three such numbers."""
_PER_DISTANCE = math.sqrt(2.0) / 0.6745
"""Standard deviation of the difference of two numbers over the median distance of such numbers from their
median."""


class SpeedRun(NoisyRun):
    """A run of equal speeds, and the car's estimated speed at its beginning."""

    __slots__ = (
        "_before",
        "_beyond",
        "_differences",
        "_latest",
        "_others",
        "estimated",
        "is_stuck",
    )

    def __init__(self) -> None:
        super().__init__()
        self.estimated = 0.0
        self.is_stuck = False
        """Whether the last sample repeats the earlier ones although the car's speed has changed."""
        self._before: float | None = None
        """m/s: speed by another sensor, `_SETTLED_NS` after the run began."""
        self._others: deque[float] = deque(maxlen=_KEPT_AVERAGES)
        """Latest averages of that sensor, m/s."""
        self._differences: deque[float] = deque(maxlen=_KEPT_DIFFERENCES)
        """m/s: by how much that sensor has been faster."""
        self._beyond = 0
        """Number of consecutive averages that have differed from `_before`."""
        self._latest: deque[float] = deque(maxlen=_LATEST)

    def take(
        self, value: float, t: int, estimated: float, other: float | None, own: float | None = None
    ) -> None:
        """Take a sample with the estimated speed, and with averages of another sensor and of this one, m/s."""
        is_stuck = self._is_stuck(value, t, estimated, other, own)
        self._latest.append(value)
        if self.repetitions:  # what has been found holds until the speed changes
            is_stuck = is_stuck or self.is_stuck or self._is_too_quiet(t)
        self.is_stuck = is_stuck

    def _is_too_quiet(self, t: int) -> bool:
        """Whether a speed whose noise changed it with nearly every sample now repeats itself."""
        if not self.is_long(t) or not self.value:
            return False
        before = list(self._latest)[: -self.repetitions]
        return len(before) >= _FEWEST_BEFORE and self.is_noise(_find_noise(before))

    def _is_stuck(
        self, value: float, t: int, estimated: float, other: float | None, own: float | None
    ) -> bool:
        is_new = other is not None and (not self._others or other != self._others[-1])
        if other is not None and is_new:
            self._others.append(other)
            if own is not None and t - self.begun_ns < _SETTLED_NS:
                self._differences.append(other - own)
        if self.add(value, t, not self.is_stuck):
            self.estimated, self._before, self._beyond = estimated, None, 0
            return False
        if other is not None and is_new and t - self.begun_ns > _SETTLED_NS:
            if self._before is None:
                self._before = other
            least = max(_OTHER_CHANGED, _OTHER_SIGMAS * self._find_noise(), _DIGITS_OF_SPEED * self.digit)
            if not value:
                # A sensor also reads zero while the car creeps; and a receiver's speed may be wrong for
                # seconds between houses while the car stands.
                least = max(least, _MOST_AT_ZERO)
            self._beyond = self._beyond + 1 if abs(other - self._before) > least else 0
        if self._beyond >= _IN_A_ROW:
            return True
        least = _CHANGED if value else max(_CHANGED, _MOST_AT_ZERO)
        return self.repetitions >= _FEWEST and abs(estimated - self.estimated) > least

    def _find_noise(self) -> float:
        """1 σ of the other sensor's averages, m/s, apart from steady acceleration."""
        d = self._differences
        middle = median(d) if d else 0.0
        lasting = _PER_DISTANCE * median([abs(x - middle) for x in d]) if d else 0.0
        return max(_find_noise(list(self._others)), lasting)


def _find_noise(numbers: Sequence[float]) -> float:
    """1 σ of the white noise of numbers, apart from a steady change; infinite for less than three."""
    bends = [abs(x - 2.0 * y + z) for x, y, z in zip(numbers, numbers[1:], numbers[2:], strict=False)]
    return _PER_BEND * median(bends) if bends else math.inf
