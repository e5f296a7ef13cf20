"""Twist of the suspension on an uneven road: the rear wheels drive over the same road as the front wheels.

Heave, roll and pitch of the body do not determine one motion of the four wheels, in which the axles roll
against each other. A road that rolls the front axle rolls the rear axle one wheelbase later: the height of
the front wheels, which is their travel plus the motion of the body above them, becomes that of the rear
wheels.

Front and rear axle change the roll moment by the same amount in opposite directions, so that an error of the
front's travel comes back at the rear with changed sign after each wheelbase. Only `_SHARE` of the front
wheels' height is used, so that such errors decay. The method finds least of waves with a length of two
wheelbases, or a third or a fifth of that: they twist the body without rolling it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.ride import calc_travel_modes

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

_SHARE = 0.6
_ROLL_TIME = 1.0
"""s: time constant with which the integrated roll acceleration is forgotten, with its errors."""
_SMOOTHING = 0.02
"""s: time constant of the low pass of the result: wheels do not follow the road faster than this. To make up
for it, the rear wheels' road is taken from this much further ahead."""
_KEPT = 16
"""Number of kept places of the front wheels, at least a wheelbase over this number apart."""


def calc_preview(vehicle: Vehicle) -> np.ndarray:
    """(4,) data of a car for its `RoadPreview`: wheelbase, half tracks (m), and roll stiffness rear over front."""
    axles = vehicle.front, vehicle.rear
    (front, half_front, _), (rear, half_rear, _) = (axle.hard_points.wheel_center for axle in axles)
    stiffness = [calc_travel_modes(axle)[1].stiffness * axle.hard_points.wheel_center[1] for axle in axles]
    return np.array([front - rear, half_front, half_rear, stiffness[1] / stiffness[0]])


class Age(NamedTuple):
    """Age of the last sample, s: within its validity, and beyond it; `holds`: 1 while valid, else 0."""

    held: Atom
    free: Atom
    holds: Atom


class RoadPreview:
    """Keeps the heights over which the front wheels have driven: expressions of the car's program."""

    def __init__(self, program: Program, name: str) -> None:
        """Array `name.axles` (4,) of `calc_preview`; `name.kept`, to be zero."""
        self._g = program.graph
        self._base, self._half_front, self._half_rear, self._ratio = program.array(f"{name}.axles", 4)
        state = program.array(f"{name}.kept", 2 * _KEPT + 5)
        self._way, self._places, self._heights = state[0], state[1 : 1 + _KEPT], state[1 + _KEPT : -4]
        """Distance driven, m; that distance at each kept height, newest first; and height of the left front
        wheel over the middle of the axle, m."""
        self._roll_rate, self._roll = state[-4:-2]
        """Roll rate and roll of the body relative to the model's, rad/s and rad."""
        self._twist, self._target = state[-2:]
        """Addition to the travel of the right rear wheel, m: at the last sample, and the value that it tends
        to."""

    def take(self, age: Age, speed: Atom, rolling: Atom, front: Atom, rear: Atom) -> Stores:
        """Take speed (m/s), roll acceleration (rad/s²), travel of the left wheels (m); `age`: of the last.

        The last three are relative to the model's; travel is as if both axles rolled alike.
        """
        g, h = self._g, age.held
        # After a pause, and in reverse, the record of the front wheels starts anew.
        goes_on = age.holds * g.where_less(speed, 0.0, 0.0, 1.0)
        # On a road that does not roll the body, nothing that noise has caused may remain.
        rolls = goes_on * g.where_less(0.0, rolling * rolling, 1.0, 0.0)
        kept = g.exp(-(h * (1.0 / _ROLL_TIME)))
        rate = rolls * (kept * self._roll_rate + h * rolling)
        roll = rolls * (kept * self._roll + h * rate)
        way = self._way + h * g.max(speed, 0.0)
        height, is_known = self._find_height(way - self._base + _SMOOTHING * speed)
        # A roll moment of the rear axle must not become a larger one at the front, and come back amplified.
        share = rolls * is_known * _SHARE / g.max(self._ratio, 1.0)
        twist = share * (rear - height + self._half_rear * roll)
        left = front + self._ratio * twist + self._half_front * roll
        stores: Stores = [(self._way, way), (self._roll_rate, rate), (self._roll, roll)]
        stores += [(self._twist, self._find_twist(age)), (self._target, twist)]
        further = g.where_less(self._base * (1.0 / _KEPT), way - self._places[0], 1.0, 0.0)
        for values, newest in (self._places, way), (self._heights, left):
            for old, new in zip(values, [newest, *values[:-1]], strict=True):
                kept_now = g.where_less(0.5, further, new, old)
                # Equal places enclose no distance, so no height is found.
                stores.append((old, g.where_less(0.5, goes_on, kept_now, newest)))
        return stores

    def calc(self, age: Age) -> tuple[tuple[Atom, Atom], tuple[Atom, Atom]]:
        """Additions to the travel of the left wheels, front and rear (m), and to its rates (m/s)."""
        twist = self._find_twist(age)
        rate = (age.holds * self._target - twist) * (1.0 / _SMOOTHING)
        return (self._ratio * twist, -twist), (self._ratio * rate, -rate)

    def _find_twist(self, age: Age) -> Atom:
        under, free = (self._g.exp(-(t * (1.0 / _SMOOTHING))) for t in (age.held, age.free))
        return (self._target + (self._twist - self._target) * under) * free

    def _find_height(self, way: Atom) -> tuple[Atom, Atom]:
        """Height at a distance driven, m, interpolated; and 1, or 0 if none was kept there."""
        g = self._g
        found, is_known = g.zero, g.zero
        for near, far, by_near, by_far in zip(
            self._places, self._places[1:], self._heights, self._heights[1:], strict=False
        ):
            between = g.where_less(far, way, g.where_less(way, near, 1.0, 0.0), 0.0)
            part = (way - far) / g.max(near - far, 1e-9)
            found = found + between * (by_far + part * (by_near - by_far))
            is_known = is_known + between
        return found, is_known
