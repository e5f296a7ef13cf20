"""Motion of named points of the car, in addition to the point of the main estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from vehicled.messages import ESTIMATE_INDEX, POINT_QUANTITIES
from vehicled.units import Vector
from vehicled.vehicle.arrays import POSE

_MOTION = [ESTIMATE_INDEX[c] for c in ("roll", "pitch", "yaw", "wx", "wy", "wz")]
_OF_POINT = [ESTIMATE_INDEX[c] for c in ("x", "y", "z", "vx", "vy", "vz", "ax", "ay", "az")]
_ALPHA = [POSE.index(f"alpha.{a}") for a in "xyz"]
_SLIP = POINT_QUANTITIES.index("sideslip")
_OTHERS = [k for k in range(len(POINT_QUANTITIES)) if k != _SLIP]
_VX, _VY = 3, 4
"""Indices in `_OF_POINT`."""


class OutputPoints:
    """Moves an estimate to several points of the rigid chassis: v + ω × r, a + α × r + ω × (ω × r)."""

    def __init__(self, points: Mapping[str, Vector], of: Vector) -> None:
        """`points`: places by name; `of`: the point that estimates are of; both m, vehicle axes."""
        self._names = tuple(points)
        self._arms = np.array([np.subtract(place, of) for place in points.values()]).reshape(-1, 3)

    def __bool__(self) -> bool:
        return bool(self._names)

    def calc(self, values: np.ndarray, pose: np.ndarray) -> dict[str, np.ndarray]:
        """(len(POINT_QUANTITIES),) of each point by name. `values`: of the estimate; `pose`: the present one."""
        # Plain numbers: most array functions take longer than all of these products together.
        roll, pitch, yaw, wx, wy, wz = values[_MOTION].tolist()
        bx, by, bz = pose[_ALPHA].tolist()
        cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
        cy, sy = math.cos(yaw), math.sin(yaw)
        by_arm = [
            # Rows: x, y, z of the arm. Columns: position, by the rotation to the world; velocity, by ω ×;
            # acceleration, by α × + ω × ω ×.
            *(cy * cp, sy * cp, -sp, 0.0, wz, -wy, -wy * wy - wz * wz, wx * wy + bz, wx * wz - by),
            *(cy * sp * sr - sy * cr, sy * sp * sr + cy * cr, cp * sr, -wz, 0.0, wx),
            *(wx * wy - bz, -wx * wx - wz * wz, wy * wz + bx),
            *(cy * sp * cr + sy * sr, sy * sp * cr - cy * sr, cp * cr, wy, -wx, 0.0),
            *(wx * wz + by, wy * wz - bx, -wx * wx - wy * wy),
        ]
        moved = values[_OF_POINT] + self._arms @ np.array(by_arm).reshape(3, 9)
        found = np.empty((len(moved), len(POINT_QUANTITIES)))
        found[:, _OTHERS] = moved
        found[:, _SLIP] = np.arctan2(moved[:, _VY], moved[:, _VX])
        return dict(zip(self._names, found, strict=True))
