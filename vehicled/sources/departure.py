"""Whether a car that seems to stand may have pulled off, by its accelerometers.

What they measure along the car while it stands, a slope and their bias, stays the same. A car that pulls off gains
speed beside that. One that has gained it may go on at a steady speed, without a trace in the accelerations.
"""

from __future__ import annotations

import math

_USUAL = 2.0
"""s, over which accelerations are averaged, and over which a gain of speed is forgotten."""
_GAINED = 0.05
"""m/s, more than a car that stands sways by; a steady 0.07 m/s² is the least that gains as much."""
_POSSIBLY = 10.0
"""s after such a gain, for which the car may still be moving."""
_LONGEST = 0.2
"""s: after a longer gap nothing is known of the speed meanwhile."""


class Departure:
    """Follows the acceleration ahead."""

    def __init__(self) -> None:
        self._t, self._usual, self._gained, self._departed = -math.inf, 0.0, 0.0, math.inf
        self.is_asked = False
        """Whether the car has sensors that it matters to; else it need not be followed."""

    def take(self, t: float, ahead: float) -> None:
        """A mean of the acceleration ahead at t (s), m/s²; gravity and biases may be in it."""
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
