"""What an uneven road adds to the travel of the suspensions, from how it accelerates the body.

The model drives on a plane. What an IMU measures of heave, roll and pitch acceleration beside the model's is made by
forces that the road adds in springs and dampers (Newton, Euler); at a wheel c·ṡ + k·s = F gives the travel s that it
adds. Tyres, wheels and the road itself do not enter, and nothing of it corrects the filter: it is added to what is
published.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.sources.noise_floor import MEMORY, SPIKE
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.ride import calc_road_forces, calc_travel_modes

_WINDOW = 0.007
"""s: least time over which rates are differenced, so that fast gyroscopes do not make noise of it."""
_HELD = 0.05
"""s for which a sample holds, and longest time between two that belong together."""
_LEAST_TIME = 1e-3
"""s: least time constant c/k."""
_CHANCE = 1.3
"""Beyond the variance of the noise: mean squares below are no road (three standard deviations over MEMORY)."""
_LEAST_TRAVEL = 1e-6
"""m"""
_Modes = tuple[float, float, float, float]
_NONE: _Modes = (0.0, 0.0, 0.0, 0.0)
ROAD_PLACES = np.array(
    [ESTIMATE_INDEX[f"suspension.{w}.{what}"] for what in ("deflection", "rate", "force") for w in WHEELS]
)
"""Columns of an estimate that the road adds to."""
NOTHING = [0.0] * len(ROAD_PLACES)
"""What an even road adds."""


class RoadTravel:
    """Travel of the wheels beside the model's, on their springs and dampers.

    Where an acceleration has the variance Q of the road and N of the sensor's noise, its best estimate is Q/(Q + N)
    of what was measured. On an even road Q, and so what is added, is zero; what is beyond five standard deviations of
    noise, as at a kerb, is taken as a road from that sample on.
    """

    def __init__(self, vehicle: Vehicle) -> None:
        modes = [m for axle in (vehicle.front, vehicle.rear) for m in calc_travel_modes(axle)]
        stiffness = np.array([m.stiffness for m in modes])
        # A suspension without dampers would follow a force at once.
        damping = np.maximum([m.damping for m in modes], _LEAST_TIME * stiffness)
        self._fading: list[float] = (stiffness / damping).tolist()
        """k/c by mode, 1/s."""
        self._by_acceleration: list[list[float]] = (calc_road_forces(vehicle) / stiffness[:, None]).tolist()
        """(4, 4) travel to which forces lead, m by mode, by the accelerations of `calc_road_forces`."""
        self._of_struts = [(m.strut_stiffness, m.strut_damping) for m in modes]
        self.reset()

    def reset(self) -> None:
        """There is no travel, and nothing is known of the road."""
        self._t = -math.inf
        """Of the last sample of heave, s; of then, by mode, the travel and that to which the forces lead, F/k, m."""
        self._travel = self._rest = _NONE
        self._squares = [0.0] * 4
        """Mean squares of the accelerations."""
        self._rates: deque[tuple[float, float, float]] = deque(maxlen=16)
        """Times, s, and roll and pitch rates less what the model's accelerations have made of them, rad/s."""
        self._modelled = self._integrated = 0.0, 0.0
        """The model's roll and pitch acceleration at the last of them, and their integrals."""
        self._of_rates = 0.0
        """Variance of their noise, (rad/s)²."""

    def take_rates(
        self, t: float, rates: tuple[float, float], modelled: tuple[float, float], variance: float
    ) -> None:
        """Roll and pitch rate at t (s) by the gyroscopes, rad/s, and the variance of their noise.

        `modelled`: the model's accelerations, rad/s². Its rates would not do in their place, as these gyroscopes
        correct them. Samples that are not newer are left out.
        """
        samples = self._rates
        h = t - samples[-1][0] if samples else math.inf
        if h <= 0.0:
            return
        if h > _HELD:
            samples.clear()
            self._integrated = 0.0, 0.0
        else:
            (a, b), (c, d), (roll, pitch) = self._modelled, modelled, self._integrated
            self._integrated = roll + 0.5 * h * (a + c), pitch + 0.5 * h * (b + d)
        self._modelled, self._of_rates = modelled, variance
        samples.append((t, rates[0] - self._integrated[0], rates[1] - self._integrated[1]))

    def _difference(self, t: float) -> tuple[float, float, float]:
        """Roll and pitch acceleration beside the model's at t (s), rad/s², and the time that they are taken over."""
        samples = self._rates
        if samples and t - samples[-1][0] < _HELD:
            now, roll, pitch = samples[-1]
            for before, roll_before, pitch_before in reversed(samples):
                span = now - before
                if span > _WINDOW:
                    return (roll - roll_before) / span, (pitch - pitch_before) / span, span
        return 0.0, 0.0, 1.0

    def take(self, t: float, heave: float, left: float, variance: float) -> None:
        """Upward acceleration and specific force to the left, of the origin beside the model's at t (s), m/s².

        And the variance of their noise. Samples that are not newer are left out.
        """
        if t <= self._t:
            return
        self._travel, _ = self._find(t)
        self._t = t
        roll, pitch, span = self._difference(t)
        of_turning = 2.0 * self._of_rates / (span * span)
        heave, left = self._weigh(0, heave, variance), self._weigh(1, left, variance)
        roll, pitch = self._weigh(2, roll, of_turning), self._weigh(3, pitch, of_turning)
        if heave == left == roll == pitch == 0.0:
            self._rest = _NONE
            if max(map(abs, self._travel)) < _LEAST_TRAVEL:
                self._travel = _NONE
            return
        front, front_roll, rear, rear_roll = (
            h * heave + f * left + r * roll + p * pitch for h, f, r, p in self._by_acceleration
        )
        self._rest = front, front_roll, rear, rear_roll

    def _weigh(self, k: int, value: float, noise: float) -> float:
        """What of acceleration k is not noise of that variance."""
        if value == 0.0:
            return 0.0
        square, before = value * value, self._squares[k]
        self._squares[k] = mean = before + (min(square, SPIKE * max(before, noise)) - before) / MEMORY
        most = max(mean, square / SPIKE)
        return value * (1.0 - noise / most) if most > _CHANCE * noise else 0.0

    def _find(self, t: float) -> tuple[_Modes, _Modes]:
        """Travel of the modes at t (s) and that to which the forces lead, m: without a sample for long, none."""
        if self._travel is _NONE and self._rest is _NONE:
            return _NONE, _NONE
        age = t - self._t
        if age > _HELD:
            return self._move(self._move(self._travel, self._rest, _HELD), _NONE, age - _HELD), _NONE
        return self._move(self._travel, self._rest, max(age, 0.0)), self._rest

    def _move(self, travel: _Modes, rest: _Modes, h: float) -> _Modes:
        """After h seconds under the same forces: F/k + (s − F/k) exp(−k h/c)."""
        # Written out, as this is done at every step.
        (a, b, c, d), (p, q, r, s), (i, j, k, m), exp = travel, rest, self._fading, math.exp
        return (
            p + (a - p) * exp(-i * h),
            q + (b - q) * exp(-j * h),
            r + (c - r) * exp(-k * h),
            s + (d - s) * exp(-m * h),
        )

    def calc(self, t: float) -> list[float]:
        """(12,) what is to be added at t (s) to the columns of an estimate at ROAD_PLACES, m, m/s and N."""
        # Written out as well: operations of arrays would take three times as long.
        travel, rest = self._find(t)
        if travel is _NONE and rest is _NONE:
            return NOTHING
        (a, b, c, d), (p, q, r, s) = travel, rest
        i, j, k, m = self._fading
        e, f, g, h = (p - a) * i, (q - b) * j, (r - c) * k, (s - d) * m
        u, v, w, x = (
            of[0] * n + of[1] * o
            for of, n, o in zip(self._of_struts, (a, b, c, d), (e, f, g, h), strict=True)
        )
        # From modes to wheels: what both have in common, and what the left one has more than that.
        return [a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h, u + v, u - v, w + x, w - x]
