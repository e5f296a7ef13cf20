"""Where a car is put whose place or heading is not known: at a fix, turned by a heading, a course or by fixes."""

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
"""rad: difference of heading and course that the model may leave when the car is first turned."""
_LONGEST_PAUSE_NS = 2_000_000_000
"""Between fixes of one receiver. After a longer pause the position is uncertain by itself."""


class CarPlacement:
    """Puts the car of a filter where one receiver finds it."""

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
        """The filter begins anew."""
        self._heading_by_fixes = HeadingByFixes()

    def join_world(self, fix: Fix) -> None:
        """The first fix of a filter that began without one: from now on its world frame is known."""
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
        """Until a course or fixes have turned the car, the direction of its way since the last fix is not known."""
        since, self._placed_ns = t_ns - self._placed_ns, t_ns
        if not self._world.aligned and 0 < since < _LONGEST_PAUSE_NS:
            f, way = self._filter, abs(self._filter.pose.item(AHEAD)) * since * 1e-9
            for axis in ("x", "y"):
                # It is the same direction as between the fixes before: not the variances add up, but σ.
                sigma = math.sqrt(f.get_variance(POSITION, axis))
                f.add_variance(POSITION, axis, way * (way + 2.0 * sigma))

    def find_turn_by_fixes(self, t_ns: int, fix: Fix, sigma: float) -> tuple[float, float] | None:
        """By how much fixes of that σ, m, turn the car, rad, and the variance of its yaw then, rad²."""
        place = complex(*self._world.to_world(fix)[:2])
        found = self._heading_by_fixes.take(
            t_ns * 1e-9, place, sigma, find_antenna_velocity(self._filter, self.antenna)
        )
        return None if found is None else (found[0], found[1] ** 2 + SIDESLIP**2)

    def turn_to(self, observation: Observation, fix: Fix | None) -> bool:
        """Turn the car to a heading, or course over ground, and put it at the fix; False when that is too old.

        The variance of the observation is that of the car's yaw then, rad².
        """
        self._filter.apply_corrections()
        if not self._filter.turn_to_course(observation):
            return False
        self._note_turn(observation.variance[0], fix)
        return True

    def turn_by(self, angle: float, variance: float, fix: Fix | None) -> None:
        """Turn the car by an angle, rad, and put it at the fix; `variance` of its yaw then, rad²."""
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
