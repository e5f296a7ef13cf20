"""Where the filter has been: past poses and the corrections since, so that late measurements are exact.

A fix that arrives late is compared with the pose that the filter had when it was measured. What the filter
has corrected since then is known in closed form: a correction δz made at time s, which makes z drift by d per
second, moves the z of time t by δz + (t − s) d. Sums of δz − s d, of d and of δż are kept, so that any number
of corrections costs three subtractions.
"""

from __future__ import annotations

import numpy as np

FASTEST = 1000
"""Steps per second for which the memory suffices."""


class History:
    """Ring of poses before and after each step's correction."""

    def __init__(self, memory: float, size: int, pairs: int):
        """`memory`: how far back it reaches, s, at up to 1,000 steps per second; `size` numbers per pose; `pairs` of
        (Δz, Δż)."""
        self._memory_ns = round(memory * 1e9)
        self._capacity = capacity = int(np.ceil(memory * FASTEST)) + 2
        self._times = np.zeros(capacity, dtype=np.int64)
        self._before = np.zeros((capacity, size))
        self._after = np.zeros((capacity, size))
        self._offset = np.zeros((capacity, pairs))
        self._drift = np.zeros((capacity, pairs))
        self._rate = np.zeros((capacity, pairs))
        self._offset_now = np.zeros(pairs)
        self._drift_now = np.zeros(pairs)
        self._rate_now = np.zeros(pairs)
        self._count = 0
        self._origin = 0
        # Sensors measure together: the last answer is likely to be wanted again.
        self._asked: int | None = None
        self._answer: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def clear(self) -> None:
        self._asked = None
        self._count = 0
        for total in (self._offset_now, self._drift_now, self._rate_now):
            total[:] = 0.0

    def step(self, t_ns: int, pose: np.ndarray) -> None:
        """A new step: the pose that the simulation has reached, before any correction."""
        if self._count == 0:
            self._origin = t_ns
        self._asked = None
        n = self._count % self._capacity
        self._times[n] = t_ns
        self._before[n] = self._after[n] = pose
        self._offset[n] = self._offset_now
        self._drift[n] = self._drift_now
        self._rate[n] = self._rate_now
        self._count += 1

    def correct(self, dz: np.ndarray, drift: np.ndarray, dzd: np.ndarray, pose: np.ndarray) -> None:
        """The last step's correction of z, the drift of z that it makes, and its correction of the rates,
        (pairs,) each; and the pose after it."""
        self._asked = None
        n = (self._count - 1) % self._capacity
        s = (self._times[n] - self._origin) * 1e-9
        self._after[n] = pose
        self._offset_now += dz - s * drift
        self._drift_now += drift
        self._rate_now += dzd

    def at(self, t_ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Pose at a time, and the correction (Δz, Δż) that it has received since; not to be changed. None when
        too old.

        Linear between the pose after one step's correction and that before the next; a time after the last
        step counts as the last step.
        """
        if self._asked == t_ns:
            return self._answer
        self._asked, self._answer = t_ns, self._look_up(t_ns)
        return self._answer

    def _look_up(self, t_ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        n = self._count - 1
        if t_ns < self._times[n % self._capacity] - self._memory_ns:
            return None
        oldest = max(0, self._count - self._capacity)
        while n > oldest and self._times[(n - 1) % self._capacity] >= t_ns:
            n -= 1
        here = n % self._capacity
        if n == oldest:
            if t_ns < self._times[here]:
                return None
            pose = self._before[here]
        else:
            there = (n - 1) % self._capacity
            begin, end = self._times[there], self._times[here]
            share = min((t_ns - begin) / (end - begin), 1.0)
            pose = self._after[there] + share * (self._before[here] - self._after[there])
        drift = self._drift_now - self._drift[here]
        s = (t_ns - self._origin) * 1e-9
        return pose, self._offset_now - self._offset[here] + s * drift, self._rate_now - self._rate[here]
