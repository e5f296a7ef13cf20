"""Values of a sampled signal between its samples, and after the last one."""

import math

HORIZON = 0.1
"""s: a signal is extrapolated no further; after that its last extrapolated value holds."""
EXTRAPOLATED_OVER = 0.02
"""s: memory of the tracker of a late force. Its overshoot after a step of the force makes up for the force's
lateness."""


class Tracker:
    """Value and rate of a sampled signal between its samples: a critically damped g-h filter.

    Its memory is a time, not a number of samples, so that any rate of samples will do.
    """

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._t: float | None = None
        self.value = self.rate = 0.0

    def update(self, t: float, measured: float) -> None:
        """Take a sample measured at t (s). One that is not newer than the last is ignored."""
        if self._t is None:
            self._t, self.value, self.rate = t, measured, 0.0
            return
        dt = t - self._t
        if dt <= 0.0:
            return
        theta = math.exp(-dt / self._memory)
        predicted = self.value + self.rate * dt
        error = measured - predicted
        self.value = predicted + (1.0 - theta * theta) * error
        self.rate += (1.0 - theta) ** 2 / dt * error
        self._t = t

    def at(self, t: float) -> tuple[float, float]:
        """Value and rate at t, extrapolated from the last sample by no more than HORIZON."""
        if self._t is None:
            return 0.0, 0.0
        ahead = t - self._t
        if ahead > HORIZON:
            return self.value + self.rate * HORIZON, 0.0
        return self.value + self.rate * ahead, self.rate
