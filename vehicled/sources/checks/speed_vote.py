"""A speed in another scale than positions and a further speed: of the receiver, or of the car's own bus.

The filter cannot tell which of two speeds is wrong where it began with the wrong one. Nothing gives positions another
scale, but reflections move them for a while: a further speed has to confirm them, which may be that of wheels.
Averages over two seconds are compared.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from statistics import median, stdev

from vehicled.sources.checks.unit_check import POSITION

_APART, _SHARE = 0.15, 0.06
"""m/s, and share of the speed: rounding and radii of wheels make less of a difference."""
_JUDGED = {"gnss.speed": 0.04, "vehicle.speed": _SHARE}
"""Channels, with that share: a receiver's speed is of the antenna whose positions it gives. Those of wheels only
confirm, as the filter allows for their radii and slips."""
_BACK = 0.5
"""Share of both, within which a speed that was wrong is right again if another one is near it, besides positions."""
_LAG = 0.3
"""s: nor do speeds and positions that come later than others, or are smoothed, by that much of their change."""
_KEPT, _RECENT = 4, 2
"""Intervals of half a second that are averaged; and those that show that a speed is right again."""
_BETWEEN = 0.5 * (_KEPT - 1)
"""s from the first to the last of them; of receivers that measure once a second it is longer, and so more allowed."""
_SLOWEST = 5.0
"""m/s"""
_ERRORS = 3.0
"""Standard errors of the mean ratio of two speeds, as its scatter shows them: positions may be noise."""


class SpeedVote:
    """Finds a speed that positions and most of the further speeds contradict."""

    def __init__(self) -> None:
        self._kept: deque[Mapping[str, float]] = deque(maxlen=_KEPT)
        self._ratios: dict[str, float] = {}
        """To the speed of positions, of those that are wrong."""

    @property
    def wrong(self) -> frozenset[str]:
        """Channels that are not to be used."""
        return frozenset(self._ratios)

    def find(self) -> dict[str, str]:
        """What is wrong, in words, by channel."""
        return {
            channel: f"{ratio:.2g} times the speed of the positions, which another speed confirms: is its unit right?"
            for channel, ratio in self._ratios.items()
        }

    def take(self, speeds: Mapping[str, float]) -> None:
        """Speeds of an interval by source, m/s; nothing changes without positions, or where the car is slow."""
        if speeds.get(POSITION, 0.0) < _SLOWEST:
            return
        kept = self._kept
        kept.append(speeds)
        if len(kept) == _KEPT:
            means, recent = self._average(_KEPT), self._average(_RECENT)
            known = self._ratios  # which holds while the speed does not come
            self._ratios = {c: known[c] for c in known if c not in means} | {
                c: means[c] / means[POSITION]
                for c in _JUDGED
                if c in means and self._is_wrong(c, recent if c in known else means)
            }

    def _average(self, count: int) -> dict[str, float]:
        """Of the last intervals, by source in all that are kept."""
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
        by_lag = _LAG * median(abs(last[source] - first[source]) for source in means) / _BETWEEN
        scatter = positions * stdev(each[channel] / each[POSITION] for each in self._kept)
        votes = sum(_vote(mean, positions, judged, near + by_lag) for mean in others)
        return votes > 0 and apart > bound + by_lag + _ERRORS * scatter / math.sqrt(_KEPT)


def _vote(speed: float, positions: float, judged: float, near: float) -> int:
    """1 of a speed that confirms positions, -1 of one that confirms the speed that is judged, 0 of any other."""
    to_positions, to_judged = abs(speed - positions), abs(speed - judged)
    if min(to_positions, to_judged) > near:
        return 0
    return 1 if to_positions < to_judged else -1
