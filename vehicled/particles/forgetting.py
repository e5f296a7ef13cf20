"""How fast particles forget: faster while innovations show that the motion is not the modelled one.

Innovations of a filter that is right are white (Mehra 1970, On the identification of variances and adaptive Kalman
filtering), whatever the noise of its sensors. Where masses are not as described, where there is friction, or where
the particles have contracted beside the truth, they keep their sign for as long as the filter remembers. Then noise
of the rates, as of accelerations that nothing explains, makes it follow the readings, and its deviations say how far
off it may be.

With noise of density q in the rates, readings of deviation σ every h seconds give an α-β filter whose memory is
τ = (σ √h / q)^½ for a coordinate, and σ √h / q for a rate (Kalata 1984, The tracking index).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_FIRST = 0.1
"""Of the longest memory, at the beginning: too long a memory is noticed late, when readings are already refused."""
_IN_VAIN = 0.25
"""Factor on that for each restart in vain."""
_SHORTEST = 0.5
"""Of the interval between readings: with a shorter memory they would not count more."""
_WHITE = 3.0
"""Square of a mean of innovations over the memory, in its deviations, above which the memory shortens. It is 1 on
average where they are white."""
_CLIP = 9.0
"""Square that counts at most."""
_SHORTEN, _LENGTHEN = 0.6, 0.12
"""Change of the memory's logarithm in a memory, for each 1 of the square. If it lengthened as fast as it shortens, it
would be too long by far before innovations show it."""
_FASTEST = 1.0
"""Change of that logarithm in a reading at most, so that the filter has followed before the next change."""
_VARIANCE_GAIN = 0.05
"""Of the variance of innovations about their mean, for each reading."""
_QUIET = 0.25
"""Least variance: a sensor may be better than its configured deviation."""
_LAG = 0.6
"""Acceleration beside the noise that follows it, times the root of the memory: it then leaves innovations whose mean
square is just _WHITE."""
_SECONDS = 2.0
"""For which shares of accelerations are averaged."""
_NONE, _LITTLE, _MUCH = 1e-3, 0.01, 0.02
"""Share of accelerations that nothing explains: at the beginning; below and above which the equations of motion are
right and wrong. Linkages with masses that are wrong by 2 and 20 % have about 0.01 and 0.03, whatever the sensors."""
_CLEAR = 0.5
"""Of the longest memory: with a longer one nothing has been found to be unexplained."""


class _Track:
    """Innovations of a sensor, in deviations that the filter expects."""

    def __init__(self) -> None:
        self.mean, self.variance, self._last = 0.0, 1.0, 0.0

    def take(self, off: float, gain: float) -> float:
        """Square of the mean of the last 1 / `gain` innovations, in its deviations."""
        # Half the square of a difference is the variance of white noise, whatever the mean.
        self.variance += _VARIANCE_GAIN * (0.5 * (off - self._last) ** 2 - self.variance)
        self._last = off
        self.mean += gain * (off - self.mean)
        return self.mean**2 * (2.0 - gain) / (gain * max(self.variance, _QUIET))


class Forgetting:
    """The memory of a filter, as its innovations show that it should be."""

    def __init__(self, longest: float, sigmas: Sequence[float], rates: Sequence[bool]) -> None:
        """`longest` memory, s, of a filter that is right; infinite: nothing is ever forgotten.

        `sigmas` of the sensors, in rad or sizes of the mechanism, or those per second for which `rates` is true.
        """
        self._longest, self._sigmas, self._rates = longest, sigmas, rates
        self.begin(0)

    def begin(self, in_vain: int) -> None:
        """The particles have begun anew, so often in vain."""
        self.memory = self._longest * _FIRST * _IN_VAIN**in_vain
        self.density = 0.0
        """Of noise in the rates, rad/s or sizes/s in √s, with which the filter has this memory."""
        self.explains = True
        """Whether the equations of motion explain the accelerations, but for a small share."""
        self._tracks = [_Track() for _ in self._sigmas]
        self._share = math.log(_NONE)
        """Of accelerations that is not explained, a mean of its logarithm."""

    def take(self, innovations: Sequence[tuple[int, float]], interval: float, acceleration: float) -> None:
        """Innovations of sensors at one time, in their deviations; those before were an `interval` (s) earlier.

        Of readings that are refused none: a sensor that has failed is not to be followed. `acceleration` meanwhile by
        the equations of motion, rad/s² or sizes/s².
        """
        if not math.isfinite(self._longest) or not interval > 0.0 or not innovations:
            return
        self.memory = max(self.memory, _SHORTEST * interval)
        gain = min(interval / self.memory, 1.0)
        over = min(max(self._tracks[k].take(off, gain) for k, off in innovations), _CLIP) - _WHITE
        change = min(_SHORTEN * over * gain, _FASTEST) if over > 0.0 else _LENGTHEN * over * gain
        self.memory = min(max(self.memory * math.exp(-change), _SHORTEST * interval), self._longest)
        self.density = min(
            sigma * math.sqrt(interval) / self.memory ** (1 if rate else 2)
            for sigma, rate in zip(self._sigmas, self._rates, strict=True)
        )
        share = min(interval / _SECONDS, 1.0)
        unexplained = _LAG * self.density / math.sqrt(self.memory)
        self._share += share * (math.log(unexplained / max(acceleration, unexplained)) - self._share)
        limit = math.log(_MUCH if self.explains else _LITTLE)
        self.explains = self.memory > _CLEAR * self._longest or self._share < limit
