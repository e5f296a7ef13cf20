"""Estimate at a point of the chassis other than the vehicle origin, with its standard deviations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vehicled.messages import ESTIMATE_INDEX
from vehicled.units import Vector
from vehicled.vehicle.arrays import CHART_SIZE, POSE

_P, _V, _W, _A = (np.array([ESTIMATE_INDEX[f"{name}{a}"] for a in "xyz"]) for name in ("", "v", "w", "a"))
_ATTITUDE = np.array([ESTIMATE_INDEX[n] for n in ("roll", "pitch", "yaw")])
_SIDESLIP = ESTIMATE_INDEX["sideslip"]
_SIGMAS = np.array([ESTIMATE_INDEX[f"sigma.{n}"] for n in ("x", "y", "z", "vx", "vy", "sideslip")])
_ALPHA = np.array([POSE.index(f"alpha.{a}") for a in "xyz"])
_RATES = np.array([POSE.index(n) for n in ("wx", "-wy", "wz")])
_SIGNS = np.array([1.0, -1.0, 1.0])
"""Signs of those rates in ω."""


class OutputPoint:
    """Moves estimates from the vehicle origin to a point of the chassis: v + ω × r, with their errors.

    The chassis is rigid, so only the filter's own approximations apply: errors are of first order, and that
    of the sideslip is limited to π.
    """

    def __init__(
        self,
        place: Vector,
        observe_position: Callable[[Vector], tuple[np.ndarray, np.ndarray]],
        observe_velocity: Callable[[], np.ndarray],
    ) -> None:
        """`place`: m, vehicle axes.

        At the present pose, `observe_position` gives the position of a place (3,), m in the world, and its
        derivatives (3, 12) by chart and rates; `observe_velocity` gives derivatives (2, 12) of the origin's
        velocity in vehicle axes, ahead and to the left.
        """
        self._place, self._arm = place, np.array(place)
        self._observe_position, self._observe_velocity = observe_position, observe_velocity
        x, y, z = place
        self._turning = np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])
        """(3, 3) matrix that gives ω × r from ω."""
        self._by_rates = np.zeros((2, CHART_SIZE))
        self._by_rates[:, _RATES] = self._turning[:2] * _SIGNS

    def move(self, values: np.ndarray, pose: np.ndarray, covariance: np.ndarray) -> float:
        """Change an estimate (columns,) of the origin, at `pose`; `covariance` (12, 12) of chart and rates.

        Returns the correlation of the errors of x and y.
        """
        w, arm = values[_W], self._arm
        _, by_position = self._observe_position(self._place)
        values[_P] += _turn(self._place, *values[_ATTITUDE].tolist())
        values[_V] += self._turning @ w
        values[_A] += self._turning @ pose[_ALPHA] + w * (w @ arm) - arm * (w @ w)
        vx, vy = values[_V[0]].item(), values[_V[1]].item()
        values[_SIDESLIP] = math.atan2(vy, vx)
        by_velocity = self._observe_velocity() + self._by_rates
        # At standstill sideslip is undefined.
        by_sideslip = (vx * by_velocity[1] - vy * by_velocity[0]) / max(vx * vx + vy * vy, 1e-12)
        rows = np.vstack([by_position, by_velocity, by_sideslip])
        spread = rows @ covariance
        with np.errstate(invalid="ignore"):  # NaN where the covariance is not definite
            values[_SIGMAS] = np.sqrt((spread * rows).sum(axis=1))
        values[_SIGMAS[-1]] = min(values[_SIGMAS[-1]], math.pi)
        x, y = values[_SIGMAS[:2]].tolist()
        return float(spread[0] @ rows[1]) / (x * y) if x * y > 0.0 else 0.0


def _turn(arm: Vector, roll: float, pitch: float, yaw: float) -> tuple[float, float, float]:
    """Convert an arm from vehicle to world axes by the given attitude: Rz(yaw) Ry(pitch) Rx(roll) arm.

    That attitude includes roll and pitch in addition to the model's, which the model's pose lacks.
    """
    (cr, cp, cy), (sr, sp, sy) = map(math.cos, (roll, pitch, yaw)), map(math.sin, (roll, pitch, yaw))
    x, y, z = arm
    y, z = cr * y - sr * z, sr * y + cr * z
    x, z = cp * x + sp * z, cp * z - sp * x
    return cy * x - sy * y, sy * x + cy * y, z
