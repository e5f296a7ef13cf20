"""Finds speeds that have no sign, in a drive with reversing.

When a car departs, the accelerometer shows in which direction: the integral of its readings, less their mean
during the preceding standstill, is the speed gained. A speed that is never negative, while the car departs
forwards and backwards, is a magnitude.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from vehicled.log_check.grid import STEP

_STANDING = 0.05
"""Largest speed of a standing car, m/s; a speed below the negative of it has a sign."""
_STOOD, _SETTLING = 1.0, 0.2
"""Least duration of the standstill, s, and its last part, which is not used for the mean: brakes are being
released, and the speed is still too low to be measured."""
_WITHIN = 4.0
"""Longest time for gaining the speed, s: later, changes of bias and slope since the standstill may matter."""
_GAINED = 0.5
"""Speed to be gained, m/s."""
_LEAST, _MOST = 0.6, 1.6
"""Range of the ratio of the speed from the accelerometer to the measured speed."""


@dataclass
class _Speed:
    has_sign: bool = False
    forwards: int = 0
    backwards: int = 0


class ReversingFinder:
    """Gathers windows; its memory does not grow."""

    def __init__(self) -> None:
        self._speeds: dict[str, _Speed] = {}

    def take(self, forward: np.ndarray | None, speeds: Mapping[str, np.ndarray]) -> None:
        """Take the signals of a window: longitudinal acceleration, m/s², and speeds by channel, m/s."""
        for channel, speed in speeds.items():
            known = self._speeds.setdefault(channel, _Speed())
            known.has_sign |= bool((speed < -_STANDING).any())
            if forward is not None:
                ratios = list(_find_departures(forward, speed))
                known.forwards += sum(_LEAST < r < _MOST for r in ratios)
                known.backwards += sum(_LEAST < -r < _MOST for r in ratios)

    def find(self) -> dict[str, int]:
        """Channels that lack a sign, each with the number of departures backwards."""
        return {
            c: s.backwards for c, s in self._speeds.items() if s.backwards and s.forwards and not s.has_sign
        }


def _find_departures(forward: np.ndarray, speed: np.ndarray) -> Iterator[float]:
    """For each departure, ratio of the speed from the accelerometer to the measured one."""
    stood, settling, within = (round(s / STEP) for s in (_STOOD, _SETTLING, _WITHIN))
    moving = ~(np.abs(speed) <= _STANDING)
    for k in np.flatnonzero(moving[1:] & ~moving[:-1]) + 1:
        if k < stood or moving[k - stood : k].any():
            continue
        gained = np.flatnonzero(np.abs(speed[k : k + within]) >= _GAINED)
        if not len(gained):
            continue
        last = k + int(gained[0])
        still = forward[k - stood : k - settling].mean()
        yield float((forward[k - settling : last + 1] - still).sum() * STEP / abs(speed[last]))
