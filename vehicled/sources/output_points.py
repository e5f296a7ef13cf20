"""Motion of named points of the car, beside the point that the whole estimate is of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vehicled.messages import ESTIMATE_INDEX, POINT_QUANTITIES
from vehicled.points import rotations
from vehicled.units import Vector
from vehicled.vehicle.arrays import POSE

_P, _V, _W, _A = (np.array([ESTIMATE_INDEX[f"{name}{a}"] for a in "xyz"]) for name in ("", "v", "w", "a"))
_ATTITUDE = np.array([ESTIMATE_INDEX[name] for name in ("roll", "pitch", "yaw")])
_ALPHA = np.array([POSE.index(f"alpha.{a}") for a in "xyz"])


class OutputPoints:
    """Moves an estimate to several points of the rigid chassis: v + ω × r, a + α × r + ω × (ω × r)."""

    def __init__(self, points: Mapping[str, Vector], of: Vector) -> None:
        """`points`: places by name; `of`: that which estimates are of; m, vehicle axes."""
        self._names = tuple(points)
        self._arms = np.array([np.subtract(place, of) for place in points.values()]).reshape(-1, 3)

    def __bool__(self) -> bool:
        return bool(self._names)

    def calc(self, values: np.ndarray, pose: np.ndarray) -> dict[str, np.ndarray]:
        """(len(POINT_QUANTITIES),) of each point by name. `values`: of the estimate; `pose`: the present one."""
        arms, w = self._arms, values[_W]
        moved = np.empty((len(arms), len(POINT_QUANTITIES)))
        moved[:, 0:3] = values[_P] + arms @ rotations(*values[_ATTITUDE][:, None])[0].T
        turning = np.cross(w, arms)
        moved[:, 3:6] = values[_V] + turning
        moved[:, 6] = np.arctan2(moved[:, 4], moved[:, 3])
        moved[:, 7:10] = values[_A] + np.cross(pose[_ALPHA], arms) + np.cross(w, turning)
        return dict(zip(self._names, moved, strict=True))
