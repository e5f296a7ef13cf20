"""The car's speeds without the noise of their estimate, for the effect of a latency at a steady speed.

At a steady speed, a latency and a place farther back have the same effect on positions. A row of the latency
that changes with the noise of estimated speeds would distinguish them all the same. As that noise comes from
the same fixes, both would become wrong by metres in two minutes on a straight road. (Huang, Mourikis and
Roumeliotis 2010 describe it, and take rows from the first estimate of a state for that reason.)
"""

from __future__ import annotations

from vehicled.filter.boundary import ObservedFilter
from vehicled.vehicle.arrays import AHEAD, UP

_CHANGED = 0.5
"""m/s: largest difference of an estimated speed from the held one."""


class SteadySpeeds:
    """Holds the speeds for one receiver."""

    def __init__(self, f: ObservedFilter, array: str) -> None:
        """`array` (2,) of the car: takes the held speeds, m/s; zero until the first update."""
        self._read, self._held = f.pose.item, f.car.view(array)
        self._held[:] = 0.0

    def update(self) -> None:
        """Update the held speeds from the estimate; called before a measurement is observed."""
        for place, of_pose in enumerate((AHEAD, UP)):
            speed = self._read(of_pose)
            if abs(speed - self._held.item(place)) > _CHANGED:
                self._held[place] = speed
