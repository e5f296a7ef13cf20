"""What an uneven road adds to the travel of the suspensions, from how it accelerates the body.

The model drives on a plane. What an IMU measures of heave, roll and pitch acceleration beside the model's is made by
forces that the road adds in springs and dampers (Newton, Euler); at a wheel c·ṡ + k·s = F gives the travel s that it
adds. Tyres, wheels and the road itself do not enter, and nothing of it corrects the filter: it is added to what is
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vehicled.filter.factors import calc_dot
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.sources.noise_floor import MEMORY, SPIKE
from vehicled.sources.rate_differences import HELD, Differences
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.ride import calc_road_forces, calc_travel_modes

if TYPE_CHECKING:
    from vehicled.sources.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

_LEAST_TIME = 1e-3
"""s: least time constant c/k."""
_CHANCE = 1.3
"""Beyond the variance of the noise: mean squares below are no road (three standard deviations over MEMORY)."""
_LEAST_TRAVEL = 1e-6
"""m: less is none."""
_MODES = 4
"""Both wheels of an axle alike, and the left one more than that; front and rear."""
ROAD_PLACES = np.array(
    [ESTIMATE_INDEX[f"suspension.{w}.{what}"] for what in ("deflection", "rate", "force") for w in WHEELS]
)
"""Columns of an estimate that the road adds to."""
NOTHING: tuple[float, ...] = (0.0,) * len(ROAD_PLACES)
"""What an even road adds."""


def calc_road_arrays(vehicle: Vehicle, name: str) -> dict[str, np.ndarray]:
    """What a car's `RoadTravel` of that name needs of it, by array."""
    modes = [m for axle in (vehicle.front, vehicle.rear) for m in calc_travel_modes(axle)]
    stiffness = np.array([m.stiffness for m in modes])
    # A suspension without dampers would follow a force at once.
    damping = np.maximum([m.damping for m in modes], _LEAST_TIME * stiffness)
    return {
        f"{name}.fading": stiffness / damping,
        f"{name}.by_acceleration": (calc_road_forces(vehicle) / stiffness[:, None]).ravel(),
        f"{name}.struts": np.array([(m.strut_stiffness, m.strut_damping) for m in modes]).ravel(),
    }


class RoadTravel:
    """Travel of the wheels beside the model's, on their springs and dampers: expressions of the car's program.

    Where an acceleration has the variance Q of the road and N of the sensor's noise, its best estimate is Q/(Q + N)
    of what was measured. On an even road Q, and so what is added, is zero; what is beyond five standard deviations of
    noise, as at a kerb, is taken as a road from that sample on.
    """

    def __init__(self, program: Program, name: str) -> None:
        """Arrays of `calc_road_arrays`; `name.turning` (5,), `name.state` (12,), to be zero, and `name.times` (2,).

        These are to be `LONG_AGO` at the start: of the last samples of turning and of heave, s.
        """
        self._g = program.graph
        self._fading = program.array(f"{name}.fading", _MODES)
        """k/c by mode, 1/s."""
        by = program.array(f"{name}.by_acceleration", _MODES * 4)
        self._by_acceleration = [by[4 * k : 4 * k + 4] for k in range(_MODES)]
        """Travel to which forces lead, m by mode, by the accelerations of `calc_road_forces`."""
        struts = program.array(f"{name}.struts", 2 * _MODES)
        self._of_struts = list(zip(struts[::2], struts[1::2], strict=True))
        """Stiffness and damping of the struts, by mode."""
        *self._turning, self._of_turning = program.array(f"{name}.turning", 3)
        """Roll and pitch acceleration beside the model's, rad/s², and the variance of their noise."""
        state = program.array(f"{name}.state", 3 * _MODES)
        self._travel, self._rest, self._squares = state[:4], state[4:8], state[8:]
        """By mode, at the last sample of heave, the travel, and that to which the forces lead, F/k, m; and mean
        squares of the accelerations."""
        self._turned_at, self._t = program.array(f"{name}.times", 2)

    def take_rates(self, t: Atom, by: Differences, variance: Atom) -> Stores:
        """A sample of roll and pitch rate at t (s) beside those before, and the variance of its noise, (rad/s)²."""
        g = self._g
        near = g.where_less(by.span, HELD, 1.0, 0.0)
        new = [near * r for r in by.rates] + [2.0 * variance / (by.span * by.span), t]
        old = [*self._turning, self._of_turning, self._turned_at]
        return [(o, g.where_less(0.5, by.is_new, n, o)) for o, n in zip(old, new, strict=True)]

    def take(self, t: Atom, heave: Atom, left: Atom, variance: Atom, taken: Atom) -> Stores:
        """Upward acceleration and specific force to the left, of the origin beside the model's at t (s), m/s².

        And the variance of their noise. `taken`: 1; 0 where the sample is left out, as one that is not newer is.
        """
        g = self._g
        taken = g.where_less(self._t, t, taken, 0.0)
        held = g.where_less(t - self._turned_at, HELD, 1.0, 0.0)
        measured = heave, left, *(held * a for a in self._turning)
        noises = variance, variance, self._of_turning, self._of_turning
        shown, squares = [], []
        for value, noise, before in zip(measured, noises, self._squares, strict=True):
            square = value * value
            mean = before + (g.min(square, SPIKE * g.max(before, noise)) - before) * (1.0 / MEMORY)
            most = g.max(mean, square * (1.0 / SPIKE))
            part = g.where_less(_CHANCE * noise, most, value * (1.0 - noise / most), 0.0)
            shown.append(g.where_less(0.0, square, part, 0.0))
            squares.append(g.where_less(0.0, square, mean, before))
        rest = [calc_dot(g, row, shown) for row in self._by_acceleration]
        travel = [
            g.where_less(g.max(g.abs(s), g.abs(r)), _LEAST_TRAVEL, 0.0, s)
            for s, r in zip(self._find(t)[0], rest, strict=True)
        ]
        old = [*self._travel, *self._rest, *self._squares, self._t]
        new = [*travel, *rest, *squares, t]
        return [(o, g.where_less(0.5, taken, n, o)) for o, n in zip(old, new, strict=True)]

    def _find(self, t: Atom) -> tuple[list[Atom], list[Atom]]:
        """Travel of the modes at t (s) and that to which the forces lead, m: without a sample for long, none.

        After h seconds under the same forces F/k + (s − F/k) exp(−k h/c).
        """
        g = self._g
        age = g.max(t - self._t, 0.0)
        under, free = g.min(age, HELD), g.max(age - HELD, 0.0)
        ends = g.where_less(HELD, age, 0.0, 1.0)
        travel = [
            (r + (s - r) * g.exp(-(f * under))) * g.exp(-(f * free))
            for s, r, f in zip(self._travel, self._rest, self._fading, strict=True)
        ]
        return travel, [ends * r for r in self._rest]

    def calc(self, t: Atom) -> list[Atom]:
        """(12,) what is to be added at t (s) to the columns of an estimate at ROAD_PLACES, m, m/s and N."""
        travel, rest = self._find(t)
        rates = [(r - s) * f for s, r, f in zip(travel, rest, self._fading, strict=True)]
        forces = [k * s + c * v for (k, c), s, v in zip(self._of_struts, travel, rates, strict=True)]
        return [wheel for modes in (travel, rates, forces) for wheel in _to_wheels(modes)]


def _to_wheels(modes: Sequence[Atom]) -> list[Atom]:
    """From modes to wheels: what both of an axle have in common, and what the left one has more than that."""
    front, front_more, rear, rear_more = modes
    return [front + front_more, front - front_more, rear + rear_more, rear - rear_more]
