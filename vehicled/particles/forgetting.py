"""Memory of the particle filter: shorter while innovations show that the motion differs from the model.

Innovations of a correct filter are white (Mehra 1970, On the identification of variances and adaptive Kalman
filtering), whatever the noise of its sensors. With wrong masses, with friction, or if the particles have
contracted at a wrong state, they keep their sign for as long as the memory. Then noise of the rates,
representing unexplained accelerations, makes the filter follow the readings, and its standard deviations show
its true uncertainty.

With noise of density q in the rates, readings of deviation σ every h seconds give an α-β filter whose memory
is τ = (σ √h / q)^½ for a coordinate, and σ √h / q for a rate (Kalata 1984, The tracking index).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_FIRST = 0.1
"""Initial memory as a share of the longest: too long a memory is detected late, when readings are already
rejected."""
_IN_VAIN = 0.25
"""Factor on the initial memory for each unsuccessful restart."""
_SHORTEST = 0.5
"""Shortest memory, in intervals between readings: a shorter one would not give readings more weight."""
_WHITE = 3.0
"""The memory shortens if the square of the normalised mean of innovations exceeds this. The square is 1 on
average if they are white."""
_CLIP = 9.0
"""Upper limit of the square."""
_SHORTEN, _LENGTHEN = 0.6, 0.12
"""Rate of change of the memory's logarithm, per memory and per 1 of the square. If it lengthened as fast as
it shortens, it would be much too long before innovations show it."""
_FASTEST = 1.0
"""Largest change of the logarithm per reading, so that the filter can follow before the next change."""
_VARIANCE_GAIN = 0.05
"""Gain per reading of the variance of innovations about their mean."""
_QUIET = 0.25
"""Least variance of normalised innovations: a sensor may be better than its configured standard deviation."""
_LAG = 0.6
"""Ratio of an unexplained acceleration, times the square root of the memory, to the density of noise with
which the filter follows it: the mean square of innovations is then just _WHITE."""
_SECONDS = 2.0
"""Time over which shares of accelerations are averaged, s."""
_NONE, _LITTLE, _MUCH = 1e-3, 0.01, 0.02
"""Share of unexplained accelerations: initial value; limits below and above which the equations of motion
count as right and wrong. Linkages whose masses are wrong by 2 and 20 % have about 0.01 and 0.03, whatever the
sensors."""
_CLEAR = 0.5
"""Share of the longest memory: while the memory is longer than this, no unexplained acceleration has been
found."""


class _Track:
    """Statistics of a sensor's innovations, normalised by their expected standard deviations."""

    def __init__(self) -> None:
        self.mean, self.variance, self._last = 0.0, 1.0, 0.0

    def take(self, off: float, gain: float) -> float:
        """Square of the mean of the last 1 / `gain` innovations, normalised by its variance."""
        # For white noise, half the mean square of successive differences is the variance, whatever the mean.
        self.variance += _VARIANCE_GAIN * (0.5 * (off - self._last) ** 2 - self.variance)
        self._last = off
        self.mean += gain * (off - self.mean)
        return self.mean**2 * (2.0 - gain) / (gain * max(self.variance, _QUIET))


class Forgetting:
    """Adapts the memory of a filter to its innovations."""

    def __init__(self, longest: float, sigmas: Sequence[float], rates: Sequence[bool]) -> None:
        """`longest`: memory of a correct filter, s; infinite: nothing is ever forgotten.

        `sigmas`: standard deviations of the sensors, rad or sizes of the mechanism, per second where `rates`
        is true.
        """
        self._longest, self._sigmas, self._rates = longest, sigmas, rates
        self.begin(0)

    def begin(self, in_vain: int) -> None:
        """The particles were drawn anew, after `in_vain` unsuccessful restarts."""
        self.memory = self._longest * _FIRST * _IN_VAIN**in_vain
        self.density = 0.0
        """Density of noise of the rates, rad/s or sizes/s in √s, that gives the filter this memory."""
        self.explains = True
        """Whether the equations of motion explain the accelerations, except for a small share."""
        self._tracks = [_Track() for _ in self._sigmas]
        self._share = math.log(_NONE)
        """Mean of the logarithm of the unexplained share of accelerations."""

    def take(self, innovations: Sequence[tuple[int, float]], interval: float, acceleration: float) -> None:
        """Take the normalised innovations of sensors at one time, `interval` (s) after the previous ones.

        Omit those of rejected readings: the filter must not follow a failed sensor. `acceleration`: in that
        interval by the equations of motion, rad/s² or sizes/s².
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
