"""What twists the body on an uneven road: the rear wheels drive over what the front wheels have driven over.

Heave, roll and pitch of the body leave one motion of four wheels open, in which the axles roll against each other.
A road that rolls the front axle does so with the rear axle one wheelbase later: the height of the front wheels, which
is their travel and that of the body above them, becomes that of the rear ones.

Front and rear axle change the roll moment by the same amount in opposite directions, so that a wrong travel of the
front comes back at the rear with another sign after each wheelbase. Only `_SHARE` of what the front wheels say is
taken, for that to fade. Least is found of waves of two wheelbases, or a third or a fifth of that: they twist the body
and do not roll it.
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
"""s after which an integrated roll acceleration is forgotten, with what is wrong with it."""
_SMOOTHING = 0.02
"""s of the low pass of what is found: faster, wheels do not follow the road. The rear wheels' road is taken from as
much further ahead."""
_KEPT = 16
"""Places of the front wheels that are kept: over a wheelbase, or further apart."""


def calc_preview(vehicle: Vehicle) -> np.ndarray:
    """(4,) what a car's `RoadPreview` needs of it: wheelbase, half tracks (m), and roll stiffness rear to front."""
    axles = vehicle.front, vehicle.rear
    (front, half_front, _), (rear, half_rear, _) = (axle.hard_points.wheel_center for axle in axles)
    stiffness = [calc_travel_modes(axle)[1].stiffness * axle.hard_points.wheel_center[1] for axle in axles]
    return np.array([front - rear, half_front, half_rear, stiffness[1] / stiffness[0]])


class Age(NamedTuple):
    """Of the last sample: s as far as it holds and beyond; 1 where it holds, else 0."""

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
        """Distance driven, m; of each kept height that distance, newest first; and how much higher the left front
        wheel was than the axle's middle, m."""
        self._roll_rate, self._roll = state[-4:-2]
        """Of the body beside the model's, rad/s and rad."""
        self._twist, self._target = state[-2:]
        """What is added to the travel of the right rear wheel, m: at the last sample, and where that leads to."""

    def take(self, age: Age, speed: Atom, rolling: Atom, front: Atom, rear: Atom) -> Stores:
        """A sample: speed (m/s), roll acceleration (rad/s²), travel of the left wheels (m). `age`: of the last one.

        The last three beside the model's; travel as it would be if the axles rolled alike.
        """
        g, h = self._g, age.held
        # After a pause, and in reverse, the front wheels begin anew.
        goes_on = age.holds * g.where_less(speed, 0.0, 0.0, 1.0)
        # Without a road that rolls the body, nothing of what noise has made lasts.
        rolls = goes_on * g.where_less(0.0, rolling * rolling, 1.0, 0.0)
        kept = g.exp(-(h * (1.0 / _ROLL_TIME)))
        rate = rolls * (kept * self._roll_rate + h * rolling)
        roll = rolls * (kept * self._roll + h * rate)
        way = self._way + h * g.max(speed, 0.0)
        height, is_known = self._find_height(way - self._base + _SMOOTHING * speed)
        # A roll moment of the rear axle is not to become a greater one at the front, and come back as that.
        share = rolls * is_known * _SHARE / g.max(self._ratio, 1.0)
        twist = share * (rear - height + self._half_rear * roll)
        left = front + self._ratio * twist + self._half_front * roll
        stores: Stores = [(self._way, way), (self._roll_rate, rate), (self._roll, roll)]
        stores += [(self._twist, self._find_twist(age)), (self._target, twist)]
        further = g.where_less(self._base * (1.0 / _KEPT), way - self._places[0], 1.0, 0.0)
        for values, newest in (self._places, way), (self._heights, left):
            for old, new in zip(values, [newest, *values[:-1]], strict=True):
                kept_now = g.where_less(0.5, further, new, old)
                # Places that are all alike have nothing between them.
                stores.append((old, g.where_less(0.5, goes_on, kept_now, newest)))
        return stores

    def calc(self, age: Age) -> tuple[tuple[Atom, Atom], tuple[Atom, Atom]]:
        """What is added to the travel of the left wheels, front and rear (m), and to its rates (m/s)."""
        twist = self._find_twist(age)
        rate = (age.holds * self._target - twist) * (1.0 / _SMOOTHING)
        return (self._ratio * twist, -twist), (self._ratio * rate, -rate)

    def _find_twist(self, age: Age) -> Atom:
        under, free = (self._g.exp(-(t * (1.0 / _SMOOTHING))) for t in (age.held, age.free))
        return (self._target + (self._twist - self._target) * under) * free

    def _find_height(self, way: Atom) -> tuple[Atom, Atom]:
        """The height at a distance driven, m, by the places next to it; and 1, or 0 where none was kept there."""
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
