"""Where the filter has been: past poses and the corrections since, so that late measurements are exact.

A fix that arrives late is compared with the pose that the filter had when it was measured. What the filter
has corrected since then is known in closed form: a correction δz made at time s, which makes z drift by d per
second, moves the z of time t by δz + (t − s) d. Sums of δz − s d, of d and of δż are kept, so that any number
of corrections costs three subtractions. The computations are kernels (`history_kernels.py`); the ring is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FASTEST = 2000
"""Steps per second for which the memory suffices: the highest rate that the daemon takes."""


class Kept(NamedTuple):
    """What is kept of each step, as views of where a filter has it now, and of where it wants what was then."""

    now: np.ndarray
    then: np.ndarray
    """Of the same shape."""


class Moment(NamedTuple):
    """A time between two steps."""

    share: float
    """Of the way from the step before it to the step after."""
    elapsed: float
    """Since the first step, s."""


class History:
    """Ring of what a filter was before and after each step's correction."""

    def __init__(self, memory: float, before: Sequence[Kept], after: Sequence[Kept]) -> None:
        """`memory`: how far back it reaches, s, at up to FASTEST steps per second.

        `before` a step's correction are kept poses and sums of corrections, `after` it poses.
        """
        self._memory_ns = round(memory * 1e9)
        self._capacity = capacity = int(np.ceil(memory * FASTEST)) + 2
        self._times = [0] * capacity
        self._before, self._after = (
            [(kept.now, np.zeros((capacity, *kept.now.shape)), kept.then) for kept in part]
            for part in (before, after)
        )
        self._corrected = False
        self._count = 0
        self._origin = 0

    def clear(self) -> None:
        """Forget all steps, as the filter begins anew."""
        self._count = 0

    def step(self, t_ns: int) -> float:
        """Keep a new step, before any correction. Returns the time since the first one, s."""
        if self._count == 0:
            self._origin = t_ns
        n = self._count % self._capacity
        self._times[n] = t_ns
        for now, table, _ in self._before:
            table[n] = now
        self._count += 1
        self.correct()
        self._corrected = False
        return (t_ns - self._origin) * 1e-9

    def correct(self) -> None:
        """Keep what the last step's correction has made."""
        n = (self._count - 1) % self._capacity
        for now, table, _ in self._after:
            table[n] = now
        self._corrected = True

    def find(self, t_ns: int) -> Moment | None:
        """Bring back the step at or after a time, as it was before its correction, and the one before it, after its.

        None when too old. At a time after the last step, it is the last one.
        """
        n = self._count - 1
        here = there = n % self._capacity
        now, share = self._times[here], 1.0
        if t_ns < now - self._memory_ns:
            return None
        if t_ns < now or self._corrected:
            oldest = max(0, self._count - self._capacity)
            while n > oldest and self._times[(n - 1) % self._capacity] >= t_ns:
                n -= 1
            here = there = n % self._capacity
            if n > oldest:
                there = (n - 1) % self._capacity
                begin, end = self._times[there], self._times[here]
                share = min((t_ns - begin) / (end - begin), 1.0)
            elif t_ns < self._times[here]:
                return None
        for _, table, then in self._before:
            then[:] = table[here]
        for _, table, then in self._after:
            then[:] = table[there]
        return Moment(share, (t_ns - self._origin) * 1e-9)
