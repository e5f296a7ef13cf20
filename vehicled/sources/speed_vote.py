"""A speed in another scale than two others: by positions, by the receiver, and by the car's own bus.

The filter cannot tell which of two speeds is wrong where it began with the wrong one. Averages over half a second are
compared; what differs from both others by more than wheels and noise do, again and again, is not to be used.
"""

from __future__ import annotations

from collections import deque

from vehicled.sources.averages import Averages

_SPEEDS = ("gnss.speed", "vehicle.speed")
_APART, _APART_SHARE = 0.3, 0.06
"""m/s, and share of the speed: radii of wheels, latencies and noise make less of a difference."""
_KEPT, _AGREEING = 5, 4
"""Intervals that are compared, and of them those in which a speed has to differ from both others."""
_SLOWEST = 5.0
"""m/s"""


class SpeedVote:
    """Finds the one of three speeds that contradicts the others."""

    def __init__(self) -> None:
        self._outvoted = {channel: deque[bool](maxlen=_KEPT) for channel in _SPEEDS}
        self.wrong: frozenset[str] = frozenset()
        """Channels that are not to be used."""

    def take(self, now: Averages) -> None:
        """Averages of an interval; nothing changes where one of the three is missing, or the car is slow."""
        positions, found = now.position_speed, [abs(now.means[c]) for c in _SPEEDS if c in now.means]
        if positions is None or len(found) < len(_SPEEDS) or min(positions, *found) < _SLOWEST:
            return
        for channel, speed, other in zip(_SPEEDS, found, reversed(found), strict=True):
            differs = _differ(speed, other) and _differ(speed, positions) and not _differ(other, positions)
            self._outvoted[channel].append(differs)
        self.wrong = frozenset(
            c
            for c, votes in self._outvoted.items()
            if sum(votes) >= _AGREEING or (c in self.wrong and any(votes))
        )


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _APART + _APART_SHARE * max(one, other)
