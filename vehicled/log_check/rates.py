"""How often each kind of sensor measures, and where it pauses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vehicled.messages import Measurement

SILENCE, USUAL = 0.2, 1.8
"""A pause is an interval longer than both: the first, s, and the second times the usual interval. The
estimator's silence has the same definition."""

_WAIT, _LONGER = 0.03, 5.0
"""A wait before a burst of samples is longer than both: the first, s, and the second times the interval before
it. Shorter waits make times wrong by less than a car's motion shows."""
_IN_BURST, _WAITED = 3.0, 0.6
"""Least number of samples per wait, and least share of the time that is waited, of samples in bursts."""

_STRAIGHT = 1e-6
"""Share by which changes per time may differ in a straight line: numbers in a file are rounded."""
_PER_DECADE, _DECADES, _SHORTEST = 40, 8, 1e-5
"""Intervals are counted by their logarithm, from 10 µs on, in classes of 6 %."""


@dataclass(frozen=True)
class Rate:
    """Rate and pauses of one kind of sensor in a log."""

    source: str
    channels: tuple[str, ...]
    samples: int
    rate: float
    """Hz: samples over the time outside of pauses; NaN with less than two samples.

    The median interval is not used, as channels that come in several messages have uneven intervals."""
    longest: float
    """Longest interval, s."""
    longest_at: float
    """Time at which the longest interval begins, s."""
    pauses: int
    """Number of intervals longer than `SILENCE` and than `USUAL` times the usual interval."""
    values: int
    """Number of runs of equal samples: how often the value changed."""
    repeated: int
    """Number of these runs with more than one sample."""
    straight: int
    """Number of samples that continue a straight line of the two before, in all channels."""
    latency: float
    """Mean time from measurement to arrival, s."""
    behind: int
    """Number of samples whose time is before that of an earlier row of the log."""
    furthest: float
    """Largest step back in time, s."""
    furthest_at: float
    """Time to which the largest step leads back, s."""

    burst: float
    """Mean time between bursts of samples, s; 0 if they come evenly."""
    in_burst: float
    """Mean number of samples of a channel in a burst; 0 likewise."""

    @property
    def has_paused(self) -> bool:
        """Whether it was silent long enough for an estimator to continue without it."""
        return self.pauses > 0


class RateCounter:
    """Counts the intervals of one kind of sensor; its memory does not grow."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._channels: dict[str, None] = {}
        self._samples, self._late = 0, 0
        self._last: int | None = None
        self._longest, self._longest_at = 0, 0
        self._behind, self._furthest, self._furthest_at = 0, 0, 0
        self._waits = _Waits()
        self._value: tuple[float, ...] = ()
        self._slopes: tuple[float, ...] = ()
        self._straight = 0
        self._run, self._runs, self._long_runs = 0, 0, 0
        """Length of the present run of equal samples, number of runs, number of runs longer than one
        sample."""
        self._counts, self._sums = [[0] * (_PER_DECADE * _DECADES) for _ in range(2)]
        """Number and sum (ns) of the intervals in each class."""

    def take(self, m: Measurement, channels: list[str]) -> None:
        """Take a sample that contains these channels of the sensor."""
        self._channels.update(dict.fromkeys(channels))
        if next(iter(self._channels)) in channels:
            self._waits.take(m.t)
        if self._last is not None:
            interval = m.t - self._last
            if interval < 0:
                self._behind += 1
                if -interval > self._furthest:
                    self._furthest, self._furthest_at = -interval, m.t
            if interval <= 0:
                return  # out of order, or another part of the same sample
            if interval > self._longest:
                self._longest, self._longest_at = interval, self._last
            place = int(_PER_DECADE * math.log10(interval * 1e-9 / _SHORTEST))
            place = min(max(place, 0), len(self._counts) - 1)
            self._counts[place] += 1
            self._sums[place] += interval
        value = tuple(m.values[c] for c in channels)
        if self._last is not None:
            self._take_slopes(value, m.t - self._last)
        self._run = self._run + 1 if value == self._value else 1
        self._runs += self._run == 1
        self._long_runs += self._run == 2
        self._value = value
        self._samples += 1
        self._late += m.arrival - m.t
        self._last = m.t

    def _take_slopes(self, value: tuple[float, ...], interval: int) -> None:
        """Compare the changes per time of a sample with those of the sample before."""
        slopes = tuple((a - b) / interval for a, b in zip(value, self._value, strict=False))
        pairs = list(zip(slopes, self._slopes, strict=False))
        if any(slopes) and all(abs(a - b) <= _STRAIGHT * abs(b) for a, b in pairs):
            self._straight += len(pairs) > 0
        self._slopes = slopes

    def find(self) -> Rate:
        """Rate of the samples so far."""
        usual = self._find_median()
        least = max(SILENCE, USUAL * usual)
        classes = list(zip(self._counts, self._sums, strict=True))
        pauses = sum(n for n, total in classes if total * 1e-9 > least * n)
        others = sum(total for n, total in classes if total * 1e-9 <= least * n)
        return Rate(
            self._source,
            tuple(self._channels),
            self._samples,
            (sum(self._counts) - pauses) / (others * 1e-9) if others else math.nan,
            self._longest * 1e-9,
            self._longest_at * 1e-9,
            pauses,
            self._runs,
            self._long_runs,
            self._straight,
            self._late * 1e-9 / max(self._samples, 1),
            self._behind,
            self._furthest * 1e-9,
            self._furthest_at * 1e-9,
            *self._waits.find(),
        )

    def _find_median(self) -> float:
        half, seen = sum(self._counts) / 2, 0
        for count, total in zip(self._counts, self._sums, strict=True):
            seen += count
            if count and seen >= half:
                return total * 1e-9 / count
        return math.nan


class _Waits:
    """Waits between bursts of one channel's samples."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._before = 0
        """The last interval, ns."""
        self._samples, self._time = 0, 0
        self._waits, self._waited = 0, 0
        """Number of waits, and their sum, ns."""

    def take(self, t: int) -> None:
        """Take the time of a sample, ns."""
        interval = 0 if self._last is None else t - self._last
        if interval < 0:
            return
        self._last = t
        if interval < SILENCE * 1e9:
            self._samples, self._time = self._samples + 1, self._time + interval
            if interval > max(_WAIT * 1e9, _LONGER * self._before):
                self._waits, self._waited = self._waits + 1, self._waited + interval
        self._before = interval

    def find(self) -> tuple[float, float]:
        """Mean time between bursts, s, and mean number of samples in one; zeros if there are none."""
        n = max(self._waits, 1)
        if self._samples < _IN_BURST * n or self._waited < _WAITED * self._time:
            return 0.0, 0.0
        return self._time * 1e-9 / n, self._samples / n
