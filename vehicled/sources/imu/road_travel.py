"""Suspension travel that an uneven road adds, from the accelerations of the body.

The model drives on a plane. Heave, roll and pitch accelerations that an IMU measures in addition to the
model's come from forces that the road adds in springs and dampers (Newton, Euler); at a wheel, c·ṡ + k·s = F
gives the added travel s. Tyres, wheels and the road itself are not needed. The result does not affect the
filter: it is added to what is published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vehicled.filter.factors import calc_dot
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.sources.imu.noise_floor import SPIKE
from vehicled.sources.imu.rate_differences import HELD, Differences
from vehicled.sources.imu.road_preview import Age, RoadPreview, calc_preview
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.ride import calc_road_forces, calc_travel_modes

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

_LEAST_TIME = 1e-3
"""s: least time constant c/k."""
_MEMORY = 3.0
"""Time constant of mean squares, s."""
_LEAST_TRAVEL = 1e-6
"""m: smaller travel counts as none."""
_MODES = 4
"""For front and rear axle: common travel of both wheels, and additional travel of the left wheel."""
ROAD_PLACES = np.array(
    [ESTIMATE_INDEX[f"suspension.{w}.{what}"] for what in ("deflection", "rate", "force") for w in WHEELS]
)
"""Columns of an estimate that the road adds to."""
NOTHING: tuple[float, ...] = (0.0,) * len(ROAD_PLACES)
"""Additions of an even road."""


def calc_road_arrays(vehicle: Vehicle, name: str) -> dict[str, np.ndarray]:
    """Data of a car for its `RoadTravel` of that name, by array."""
    modes = [m for axle in (vehicle.front, vehicle.rear) for m in calc_travel_modes(axle)]
    stiffness = np.array([m.stiffness for m in modes])
    # Least damping, as a suspension without dampers would follow a force at once.
    damping = np.maximum([m.damping for m in modes], _LEAST_TIME * stiffness)
    return {
        f"{name}.fading": stiffness / damping,
        f"{name}.by_acceleration": (calc_road_forces(vehicle) / stiffness[:, None]).ravel(),
        f"{name}.struts": np.array([(m.strut_stiffness, m.strut_damping) for m in modes]).ravel(),
        f"{name}.axles": calc_preview(vehicle),
    }


class RoadTravel:
    """Travel of the wheels beside the model's, on their springs and dampers: expressions of the car's program.

    Springs and dampers are a low pass for accelerations. If the road has variance Q after this low pass and
    the sensor's noise N, the best estimate is Q/(Q + N) of the measurement. On an even road Q, and so the
    addition, is zero. A value beyond five standard deviations of noise, as at a kerb, counts as road from
    that sample on.
    """

    def __init__(self, program: Program, name: str) -> None:
        """Arrays of `calc_road_arrays`; `name.turning` (3,), `name.state` (16,) and `name.kept`, initially zero.

        `name.times` (2,): times of the last samples of turning and of heave (s), initially `LONG_AGO`.
        """
        self._g = program.graph
        self._fading = program.array(f"{name}.fading", _MODES)
        """k/c by mode, 1/s."""
        by = program.array(f"{name}.by_acceleration", _MODES * 4)
        self._by_acceleration = [by[4 * k : 4 * k + 4] for k in range(_MODES)]
        """Travel that forces lead to, m by mode, per acceleration of `calc_road_forces`."""
        struts = program.array(f"{name}.struts", 2 * _MODES)
        self._of_struts = list(zip(struts[::2], struts[1::2], strict=True))
        """Stiffness and damping of the struts, by mode."""
        *self._turning, self._of_turning = program.array(f"{name}.turning", 3)
        """Roll and pitch acceleration relative to the model's, rad/s², and noise variance of the rates,
        (rad/s)²."""
        self._preview = RoadPreview(program, name)
        state = program.array(f"{name}.state", 4 * _MODES)
        self._travel, self._rest, self._slow, self._squares = (state[k : k + 4] for k in range(0, 16, 4))
        """At the last sample of heave, by mode: travel, and final travel F/k under the forces, m; then by
        acceleration: low-passed value, and its mean square."""
        self._turned_at, self._t = program.array(f"{name}.times", 2)

    def take_rates(self, t: Atom, by: Differences, variance: Atom) -> Stores:
        """Take a sample of roll and pitch rate at t (s) with its differences, and its noise variance, (rad/s)²."""
        g = self._g
        near = g.where_less(by.span, HELD, 1.0, 0.0)
        new = [near * r for r in by.rates] + [variance, t]
        old = [*self._turning, self._of_turning, self._turned_at]
        return [(o, g.where_less(0.5, by.is_new, n, o)) for o, n in zip(old, new, strict=True)]

    def take(self, t: Atom, heave: Atom, left: Atom, variance: Atom, speed: Atom, taken: Atom) -> Stores:
        """Take upward acceleration and lateral specific force of the origin less the model's, at t (s), m/s².

        `variance`: of their noise; `speed`: m/s; `taken`: 1; 0 if the sample is to be ignored, as one that is
        not newer is.
        """
        g = self._g
        taken = g.where_less(self._t, t, taken, 0.0)
        held = g.where_less(t - self._turned_at, HELD, 1.0, 0.0)
        measured = heave, left, *(held * a for a in self._turning)
        # This is the low pass of the first mode. Of a difference of rates, it gives these rates less their
        # low pass.
        age = self._calc_age(t)
        rate, h = self._fading[0], age.held
        # Bound of the mean square of noise, three standard deviations above its mean: it has _MEMORY · rate
        # independent values.
        chance = 1.0 + 3.0 * g.sqrt(2.0 / (_MEMORY * rate))
        share, kept = 1.0 - g.exp(-(rate * h)), h * (1.0 / _MEMORY)
        of_force, of_turning = 0.5 * share * variance, rate * rate * self._of_turning
        shown, slow, squares = [], [], []
        for value, noise, last, before in zip(
            measured, (of_force, of_force, of_turning, of_turning), self._slow, self._squares, strict=True
        ):
            low = last + share * (value - last)
            square = low * low
            mean = before + (g.min(square, SPIKE * g.max(before, noise)) - before) * kept
            most = g.max(mean, square * (1.0 / SPIKE))
            part = g.where_less(chance * noise, most, value * (1.0 - noise / most), 0.0)
            shown.append(g.where_less(0.0, square, part, 0.0))
            slow.append(low)
            squares.append(g.where_less(0.0, square, mean, before))
        rest = [calc_dot(g, row, shown) for row in self._by_acceleration]
        travel = [
            g.where_less(g.max(g.abs(s), g.abs(r)), _LEAST_TRAVEL, 0.0, s)
            for s, r in zip(self._find(age)[0], rest, strict=True)
        ]
        stores = self._preview.take(age, speed, shown[2], travel[1], travel[3])
        old = [*self._travel, *self._rest, *self._slow, *self._squares, self._t]
        new = [*travel, *rest, *slow, *squares, t]
        stores += zip(old, new, strict=True)
        return [(o, g.where_less(0.5, taken, n, o)) for o, n in stores]

    def _calc_age(self, t: Atom) -> Age:
        g = self._g
        age = g.max(t - self._t, 0.0)
        return Age(g.min(age, HELD), g.max(age - HELD, 0.0), g.where_less(HELD, age, 0.0, 1.0))

    def _find(self, age: Age) -> tuple[list[Atom], list[Atom]]:
        """Travel of the modes, and final travel under the forces, m; zero without a sample for long.

        After h seconds under constant forces it is F/k + (s − F/k) exp(−k h/c).
        """
        g = self._g
        travel = [
            (r + (s - r) * g.exp(-(f * age.held))) * g.exp(-(f * age.free))
            for s, r, f in zip(self._travel, self._rest, self._fading, strict=True)
        ]
        return travel, [age.holds * r for r in self._rest]

    def calc(self, t: Atom) -> list[Atom]:
        """(12,) additions at t (s) to the columns ROAD_PLACES of an estimate, m, m/s and N."""
        age = self._calc_age(t)
        travel, rest = self._find(age)
        rates = [(r - s) * f for s, r, f in zip(travel, rest, self._fading, strict=True)]
        for modes, twists in zip((travel, rates), self._preview.calc(age), strict=True):
            modes[1::2] = [mode + twist for mode, twist in zip(modes[1::2], twists, strict=True)]
        forces = [k * s + c * v for (k, c), s, v in zip(self._of_struts, travel, rates, strict=True)]
        return [wheel for modes in (travel, rates, forces) for wheel in _to_wheels(modes)]


def _to_wheels(modes: Sequence[Atom]) -> list[Atom]:
    """Convert modes to wheels: common value of an axle, plus or minus the left wheel's addition."""
    front, front_more, rear, rear_more = modes
    return [front + front_more, front - front_more, rear + rear_more, rear - rear_more]
