"""When within a period the filter steps: soon after samples arrive, so that they hardly wait for their step.

A sensor that keeps its own time at the rate of the loop, or a multiple or fraction of it, arrives at the same moments
of every period. Where deadlines happened to lie just before these, each sample would wait for nearly a period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

_PLACES = 64
"""Moments of a period that are distinguished."""
_STEPS = 32
"""After which the best moment is found again."""
_BATCHES = 8
"""Of so many steps whose samples count: deadlines follow a sensor whose clock drifts."""
_GAIN = 0.85
"""Where the cost would not fall below this share of what it is, deadlines stay where they are."""
_SLEW = 100
"""Deadlines move by at most a period divided by this, so that steps remain as good as even."""


def _calc_costs() -> np.ndarray:
    """(n, n) by moment of a deadline and place of an arrival: its waiting time squared, in places.

    Squares, so that a late sample which just misses its step counts as the whole period that it then waits. A sample
    at the last place before a deadline counts as missed: clocks drift until the moment is found again.
    """
    deadline, arrival = np.ogrid[:_PLACES, :_PLACES]
    costs: np.ndarray = ((deadline - arrival - 2) % _PLACES + 1.5) ** 2
    return costs


_COSTS = _calc_costs()


class Phase:
    """Finds by how much the deadlines of a loop are to move. Times are in ns, of one clock."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._arrivals = [0] * _PLACES
        """How many samples have arrived at each place of a period, in this batch of steps."""
        self._batches: deque[list[int]] = deque(maxlen=_BATCHES)
        """The same of the last ones."""
        self._steps = 0
        """Since the best moment was found."""
        self._left = 0
        """By how much deadlines have still to move."""

    def take(self, deadline: int, arrivals: Sequence[int]) -> None:
        """The samples of the step at `deadline` have arrived at these times."""
        period, counts = self._period, self._arrivals
        for arrival in arrivals:
            counts[arrival % period * _PLACES // period] += 1
        self._steps += 1
        if self._steps == _STEPS:
            self._steps = 0
            self._find(deadline)

    def _find(self, deadline: int) -> None:
        self._batches.append(self._arrivals)
        self._arrivals = [0] * _PLACES
        costs = _COSTS @ np.sum(self._batches, axis=0)
        now, best = deadline % self._period * _PLACES / self._period, int(costs.argmin())
        if costs[best] < _GAIN * costs[int(now)]:
            places = (best - now + _PLACES / 2) % _PLACES - _PLACES / 2
            self._left = round(places * self._period / _PLACES)

    def shift(self) -> int:
        """By how much the time to the next deadline is to differ from a period."""
        if not self._left:
            return 0
        most = self._period // _SLEW
        now = max(-most, min(most, self._left))
        self._left -= now
        return now
