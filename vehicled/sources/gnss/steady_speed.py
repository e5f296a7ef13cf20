"""The car's speeds without the noise of their estimate, for what a latency makes of positions at a steady speed.

There a latency and a place further back are one and the same. A row of the latency that changes with the noise of
estimated speeds tells them apart all the same, and as that noise comes from the same fixes, both go astray, by
metres in two minutes on a straight road. (Huang, Mourikis and Roumeliotis 2010 describe it, and take rows from the
first estimate of a state for that reason.)
"""

from __future__ import annotations

from vehicled.filter.boundary import ObservedFilter
from vehicled.vehicle.arrays import AHEAD, UP

_CHANGED = 0.5
"""m/s: by which an estimate may differ from what is held."""


class SteadySpeeds:
    """Holds them for one receiver."""

    def __init__(self, f: ObservedFilter, array: str) -> None:
        """`array` (2,) of the car: takes them, m/s; zero until the first look."""
        self._read, self._held = f.pose.item, f.car.view(array)
        self._held[:] = 0.0

    def update(self) -> None:
        """Look at the estimate before a measurement is observed."""
        for place, of_pose in enumerate((AHEAD, UP)):
            speed = self._read(of_pose)
            if abs(speed - self._held.item(place)) > _CHANGED:
                self._held[place] = speed
