"""A speed of the receiver or of the car's bus whose scale positions and another speed contradict.

If the filter started with the wrong one of two speeds, it cannot tell which is wrong. Positions cannot have a
wrong scale, but reflections displace them for a while: another speed, possibly of wheels, has to confirm
them. Averages over two seconds are compared.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from statistics import median, stdev

from vehicled.sources.checks.unit_check import POSITION

_APART, _SHARE = 0.15, 0.06
"""m/s, and share of the speed: rounding and radii of wheels cause smaller differences."""
_JUDGED = {"gnss.speed": 0.04, "vehicle.speed": _SHARE}
"""Channels that are judged, with that share. It is less for a receiver's speed, as positions are of the same
antenna. Wheel speeds only confirm others, as the filter itself allows for radii and slip."""
_BACK = 0.5
"""Share of these bounds within which a wrong speed is right again, if another speed beside positions is near
it."""
_LAG = 0.3
"""s: lag or smoothing of speeds and positions, which adds their change within this time to the bounds."""
_KEPT, _RECENT = 4, 2
"""Number of intervals of half a second that are averaged; and of those that show that a speed is right
again."""
_BETWEEN = 0.5 * (_KEPT - 1)
"""s: from the first to the last of these intervals. Receivers that measure once a second take longer, which
allows for a larger change."""
_SLOWEST = 5.0
"""m/s"""
_ERRORS = 3.0
"""Standard errors of the mean ratio of two speeds, from its scatter: positions may be noisy."""


class SpeedVote:
    """Finds a speed that positions and most of the other speeds contradict."""

    def __init__(self) -> None:
        self._kept: deque[Mapping[str, float]] = deque(maxlen=_KEPT)
        self._ratios: dict[str, float] = {}
        """Ratio to the speed of positions, by wrong channel."""
        self.wrong: frozenset[str] = frozenset()
        """Channels that are not to be used."""

    def find(self) -> dict[str, str]:
        """What is wrong, in words, by channel."""
        return {
            channel: f"{ratio:.2g} times the speed of the positions, which another speed confirms: is its unit right?"
            for channel, ratio in self._ratios.items()
        }

    def take(self, speeds: Mapping[str, float]) -> None:
        """Take an interval's speeds by source, m/s; no change without positions or while the car is slow."""
        if speeds.get(POSITION, 0.0) < _SLOWEST:
            return
        kept = self._kept
        kept.append(speeds)
        if len(kept) == _KEPT:
            means, known = self._average(_KEPT), self._ratios  # a channel stays wrong while it is silent
            recent = self._average(_RECENT) if known else means
            self._ratios = {c: known[c] for c in known if c not in means} | {
                c: means[c] / means[POSITION]
                for c in _JUDGED
                if c in means and self._is_wrong(c, recent if c in known else means)
            }
            self.wrong = frozenset(self._ratios)

    def _average(self, count: int) -> dict[str, float]:
        """Averages of the last `count` intervals, for sources present in all kept intervals."""
        kept = list(self._kept)
        common = [source for source in kept[-1] if all(source in each for each in kept)]
        return {source: sum(each[source] for each in kept[-count:]) / count for source in common}

    def _is_wrong(self, channel: str, means: Mapping[str, float]) -> bool:
        """Whether a speed is not to be used."""
        positions, judged, first, last = means[POSITION], means[channel], self._kept[0], self._kept[-1]
        near = _APART + _SHARE * positions
        others = [mean for source, mean in means.items() if source not in (channel, POSITION)]
        apart, bound = abs(judged - positions), _APART + _JUDGED[channel] * positions
        if channel in self._ratios:
            return apart > _BACK * bound or all(abs(mean - judged) > near for mean in others)
        # In this order, as most are near, and this is part of the real-time step.
        if apart <= bound:
            return False
        by_lag = _LAG * median(abs(last[source] - first[source]) for source in means) / _BETWEEN
        scatter = positions * stdev(each[channel] / each[POSITION] for each in self._kept)
        votes = sum(_vote(mean, positions, judged, near + by_lag) for mean in others)
        return votes > 0 and apart > bound + by_lag + _ERRORS * scatter / math.sqrt(_KEPT)


def _vote(speed: float, positions: float, judged: float, near: float) -> int:
    """1 if a speed confirms positions, −1 if it confirms the judged speed, 0 if neither."""
    to_positions, to_judged = abs(speed - positions), abs(speed - judged)
    if min(to_positions, to_judged) > near:
        return 0
    return 1 if to_positions < to_judged else -1
