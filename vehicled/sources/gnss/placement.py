"""Placement of a car of unknown place or heading: at a fix, turned by a heading, a course or by fixes."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from vehicled.filter.boundary import Observation, ObservedFilter
from vehicled.filter.states import ATTITUDE, POSITION, UNKNOWN_YAW
from vehicled.sources.gnss.heading_by_fixes import HeadingByFixes
from vehicled.sources.gnss.receiver_motion import find_antenna_velocity
from vehicled.sources.world import Fix, WorldFrame
from vehicled.units import Vector
from vehicled.vehicle.arrays import AHEAD

if TYPE_CHECKING:
    from vehicled.sources.updates import MeasurementUpdates

SIDESLIP = 0.01
"""rad: possible difference of heading and course beyond the model's, when the car is first turned."""
_LONGEST_PAUSE_NS = 2_000_000_000
"""Longest time between fixes of one receiver. After a longer pause the position is uncertain anyway."""


class CarPlacement:
    """Places the car of a filter by the measurements of one receiver."""

    def __init__(
        self, filter: ObservedFilter, updates: MeasurementUpdates, world: WorldFrame, counters: Counter[str]
    ) -> None:
        self._filter, self._updates, self._world, self._counters = filter, updates, world, counters
        self.antenna: Vector = (0.0, 0.0, 0.0)
        """m, vehicle axes."""
        self._placed_ns = 0
        """Time of the last fix."""
        self.reset()

    def reset(self) -> None:
        """Restart with the filter."""
        self._heading_by_fixes = HeadingByFixes()

    def join_world(self, fix: Fix) -> None:
        """Take the first fix of a filter that began without one: its world frame is known from now on."""
        self._world.find_origin(fix)
        self._world.aligned = False
        f = self._filter
        f.apply_corrections()
        self._shift_to(fix)
        f.set_variance(POSITION, "z", f.settings.start.position_sigma**2)
        f.set_variance(ATTITUDE, "yaw", UNKNOWN_YAW)
        f.restart_history(self._updates.step_ns)
        self._counters["position_sets"] += 1

    def widen_place(self, t_ns: int) -> None:
        """Make the place less certain: before alignment, the direction of motion between fixes is unknown."""
        since, self._placed_ns = t_ns - self._placed_ns, t_ns
        if not self._world.aligned and 0 < since < _LONGEST_PAUSE_NS:
            f, way = self._filter, abs(self._filter.pose.item(AHEAD)) * since * 1e-9
            for axis in ("x", "y"):
                # The direction is the same as between earlier fixes: σ adds up, not the variance.
                sigma = math.sqrt(f.get_variance(POSITION, axis))
                f.add_variance(POSITION, axis, way * (way + 2.0 * sigma))

    def find_turn_by_fixes(self, t_ns: int, fix: Fix, sigma: float) -> tuple[float, float] | None:
        """Turn of the car, rad, by fixes with that σ, m, and the variance of its yaw then, rad²; or None."""
        place = complex(*self._world.to_world(fix)[:2])
        found = self._heading_by_fixes.take(
            t_ns * 1e-9, place, sigma, find_antenna_velocity(self._filter, self.antenna)
        )
        return None if found is None else (found[0], found[1] ** 2 + SIDESLIP**2)

    def turn_to(self, observation: Observation, fix: Fix | None) -> bool:
        """Turn the car to a heading, or course over ground, and put it at the fix; False if that is too old.

        The variance of the observation is that of the car's yaw afterwards, rad².
        """
        self._filter.apply_corrections()
        if not self._filter.turn_to_course(observation):
            return False
        self._note_turn(observation.variance[0], fix)
        return True

    def turn_by(self, angle: float, variance: float, fix: Fix | None) -> None:
        """Turn the car by an angle, rad, and put it at the fix; `variance` of its yaw afterwards, rad²."""
        self._filter.apply_corrections()
        self._filter.turn(angle)
        self._note_turn(variance, fix)

    def _note_turn(self, variance: float, fix: Fix | None) -> None:
        f = self._filter
        f.set_variance(ATTITUDE, "yaw", variance)
        if fix is not None:
            self._shift_to(fix)
        else:  # the antenna has been turned about the origin
            for axis in ("x", "y"):
                f.add_variance(POSITION, axis, (2.0 * math.hypot(*self.antenna)) ** 2)
        f.restart_history(self._updates.step_ns)
        self._counters["alignments"] += 1
        self._world.aligned = True

    def _shift_to(self, fix: Fix) -> None:
        f = self._filter
        f.shift_antenna_to(self._world.to_world_or_level(fix), antenna=self.antenna)
        for axis in ("x", "y"):
            f.set_variance(POSITION, axis, f.settings.start.position_sigma**2)
