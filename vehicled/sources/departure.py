"""Whether a car that seems to stand may have pulled off, by its accelerometers.

While a car stands, its longitudinal accelerometer reads a constant: slope and bias. A car that pulls off
gains speed beyond that. It may then go on at a steady speed, which accelerations do not show.
"""

from __future__ import annotations

import math

_USUAL = 2.0
"""s: time constant of the average of the acceleration, and of forgetting a gain of speed."""
_GAINED = 0.05
"""m/s: a standing car sways by less; the least steady acceleration that gains as much is 0.07 m/s²."""
_POSSIBLY = 10.0
"""s: for so long after such a gain the car may still be moving."""
_LONGEST = 0.2
"""s: after a longer gap the speed gained meanwhile is unknown."""


class Departure:
    """Follows the longitudinal acceleration."""

    def __init__(self) -> None:
        self._t, self._usual, self._gained, self._departed = -math.inf, 0.0, 0.0, math.inf
        self.is_asked = False
        """Whether a sensor needs this information; if not, the acceleration need not be followed."""

    def take(self, t: float, ahead: float) -> None:
        """Take a mean of the longitudinal acceleration at t (s), m/s², which may include gravity and bias."""
        dt, self._t = t - self._t, t
        if not 0.0 < dt < _LONGEST:
            self._usual, self._gained, self._departed = ahead, 0.0, t
            return
        share = min(dt / _USUAL, 1.0)
        self._usual += share * (ahead - self._usual)
        self._gained += dt * (ahead - self._usual) - share * self._gained
        if abs(self._gained) > _GAINED:
            self._departed = t

    def is_possible(self, t: float) -> bool:
        """Whether the car may have pulled off by t (s)."""
        return not (t - self._departed > _POSSIBLY and t - self._t < _LONGEST)
