"""Where the filter has been: past poses and the corrections since, so that late measurements are exact.

A fix that arrives late is compared with the pose that the filter had when it was measured. What the filter
has corrected since then is known in closed form: a correction δz made at time s, which makes z drift by d per
second, moves the z of time t by δz + (t − s) d. Sums of δz − s d, of d and of δż are kept, so that any number
of corrections costs three subtractions.
"""

from __future__ import annotations

import numpy as np

FASTEST = 2000
"""Steps per second for which the memory suffices: the highest rate that the daemon takes."""


class History:
    """Ring of poses before and after each step's correction."""

    def __init__(self, memory: float, size: int, pairs: int, *, more: int = 0, directions: int = 0) -> None:
        """`memory`: how far back it reaches, s, at up to FASTEST steps per second.

        `size`: numbers per pose; `pairs` of (Δz, Δż), and `more` corrections that move no z. `directions`: with
        derivatives, all that is kept has a last axis (1 + directions,), as everything here is linear.
        """
        last = (1 + directions,) if directions else ()
        corrections = 3 * pairs + more
        self._memory_ns = round(memory * 1e9)
        self._capacity = capacity = int(np.ceil(memory * FASTEST)) + 2
        self._times = [0] * capacity
        self._before = np.zeros((capacity, size, *last))
        self._after = np.zeros((capacity, size, *last))
        self._sums = np.zeros((capacity, corrections, *last))
        """Of δz − s d, of d, of δż and of more, before each step."""
        self._sums_now = np.zeros((corrections, *last))
        self.pose, self.since = np.zeros((size, *last)), np.zeros((corrections - pairs, *last))
        """What `at` has found last."""
        # Views and room for what is computed in every step: to make them takes as long as the numbers themselves.
        self._difference = difference = np.zeros((corrections, *last))
        self._parts = difference[:pairs], difference[pairs : 2 * pairs], difference[2 * pairs :]
        self._since_parts = self.since[:pairs], self.since[pairs:]
        self._displaced, self._drift = self._sums_now[:pairs], np.zeros((pairs, *last))
        self._pairs = pairs
        self._corrected = False
        self._count = 0
        self._origin = 0

    def clear(self) -> None:
        """Forget all poses and corrections, as the filter begins anew."""
        self._count = 0
        self._sums_now[:] = 0.0

    def step(self, t_ns: int, pose: np.ndarray) -> None:
        """A new step: the pose (size,), or with derivatives (size, 1 + directions), before any correction."""
        if self._count == 0:
            self._origin = t_ns
        n = self._count % self._capacity
        self._times[n] = t_ns
        self._before[n] = self._after[n] = pose
        self._sums[n] = self._sums_now
        self._corrected = False
        self._count += 1

    def correct(self, moved: np.ndarray, pose: np.ndarray) -> None:
        """Keep the last step's correction and the pose after it.

        `moved` (3·pairs + more,): of z, the drift of z that it makes, of the rates, and more.
        """
        n, pairs = (self._count - 1) % self._capacity, self._pairs
        self._sums_now += moved
        elapsed = (self._times[n] - self._origin) * 1e-9
        self._displaced -= np.multiply(elapsed, moved[pairs : 2 * pairs], out=self._drift)
        self._after[n] = pose
        self._corrected = True

    def at(self, t_ns: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Pose at a time, and the correction (Δz, Δż, more) since then, valid until the next call; None when too old.

        Linear between the pose after one step's correction and that before the next; a time after the last
        step counts as the last step.
        """
        n = self._count - 1
        here = n % self._capacity
        now = self._times[here]
        if t_ns >= now and not self._corrected:
            self.pose[:] = self._before[here]
            self.since[:] = 0.0
            return self.pose, self.since
        if t_ns < now - self._memory_ns:
            return None
        oldest = max(0, self._count - self._capacity)
        while n > oldest and self._times[(n - 1) % self._capacity] >= t_ns:
            n -= 1
        here = n % self._capacity
        if n == oldest:
            if t_ns < self._times[here]:
                return None
            self.pose[:] = self._before[here]
        else:
            there = (n - 1) % self._capacity
            begin, end = self._times[there], self._times[here]
            share = min((t_ns - begin) / (end - begin), 1.0)
            pose, after = self.pose, self._after[there]
            np.subtract(self._before[here], after, out=pose)
            pose *= share
            pose += after
        (displaced, drift, rest), (since_displaced, since_rest) = self._parts, self._since_parts
        np.subtract(self._sums_now, self._sums[here], out=self._difference)
        np.multiply((t_ns - self._origin) * 1e-9, drift, out=since_displaced)
        since_displaced += displaced
        since_rest[:] = rest
        return self.pose, self.since
