"""Phase of the filter's steps within a period: soon after samples arrive, so that they hardly wait for their step.

Samples of a sensor with its own clock, at the rate of the loop or a multiple or fraction of it, arrive at the
same phase of every period. If the deadlines were just before it, each sample would wait for nearly a period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

_PLACES = 64
"""Number of phases of a period that are distinguished."""
_STEPS = 32
"""Number of steps after which the best phase is found again."""
_BATCHES = 8
"""Number of such batches of steps that count: deadlines follow a sensor whose clock drifts."""
_GAIN = 0.85
"""Deadlines stay as they are if the cost would not fall below this share of the present one."""
_SLEW = 100
"""Deadlines move by at most a period over this number, so that steps stay nearly even."""


def _calc_costs() -> np.ndarray:
    """(n, n) squared waiting time, in phases, by phase of the deadline and phase of the arrival.

    Squared, to give more weight to a sample that just misses its step and waits for a whole period. A sample
    at the last phase before a deadline counts as missed, as clocks drift until the phase is found again.
    """
    deadline, arrival = np.ogrid[:_PLACES, :_PLACES]
    costs: np.ndarray = ((deadline - arrival - 2) % _PLACES + 1.5) ** 2
    return costs


_COSTS = _calc_costs()


class Phase:
    """Finds the shift of a loop's deadlines. Times are in ns, of one clock."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._arrivals = [0] * _PLACES
        """Number of samples that have arrived at each phase, in this batch of steps."""
        self._batches: deque[list[int]] = deque(maxlen=_BATCHES)
        """Arrivals of the last batches, likewise."""
        self._steps = 0
        """Number of steps since the best phase was found."""
        self._left = 0
        """Shift of deadlines that is still to be made, ns."""

    def take(self, deadline: int, arrivals: Sequence[int]) -> None:
        """Take the arrival times of the samples of the step at `deadline`."""
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
        """Difference of the time to the next deadline from a period, ns."""
        if not self._left:
            return 0
        most = self._period // _SLEW
        now = max(-most, min(most, self._left))
        self._left -= now
        return now
