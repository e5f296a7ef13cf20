"""Displacement of the tie rods' inner ends from road-wheel angles or the steering-wheel angle."""

from __future__ import annotations

import numpy as np

from vehicled.maths.linear_table import LinearTable
from vehicled.vehicle.model_parameters import corner_parameters
from vehicled.vehicle.parameters import LEFT_RIGHT, Vehicle

_LARGEST = 0.7
"""rad: largest turn of the knuckles in the table."""
_POINTS = 281


def _rotated(v: np.ndarray, axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """v turned about a unit axis by each angle, (n, 3) (Rodrigues)."""
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    turned: np.ndarray = v * c + np.cross(axis, v) * s + axis * (axis @ v) * (1 - c)
    return turned


class SteeringGeometry:
    """Kinematics of the front corners about their kingpins, at design height."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._tables = [self._table(corner_parameters(vehicle, w)) for w in LEFT_RIGHT if w[0] == "f"]
        self.ratio = vehicle.steering.ratio
        """Rack displacement per steering-wheel angle, m/rad."""
        # Tables, as an angle is needed for each of its measurements, and at each step of a simulation.
        self._rods = [LinearTable(a, u) for a, u in self._tables]
        slope = [np.interp(1e-3, a, u) - np.interp(-1e-3, a, u) for a, u in self._tables]
        self.rack_per_angle = float(np.mean(slope)) / 2e-3
        """Displacement along y per road-wheel angle about straight ahead, m/rad; negative with tie rods behind
        the axle."""
        self.sign = float(np.sign(self.rack_per_angle))
        """Sign of the displacement along y that steers left."""
        self.reach = float(min(min(-a[0], a[-1]) for a, _ in self._tables))
        """Largest angle within the table to which tie rods can turn either wheel in both directions, rad."""
        self._angles = [LinearTable(u * self.sign, a) for a, u in self._tables]

    @staticmethod
    def _table(p: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """Road-wheel angles (rising, zero in design) and tie-rod displacements along y."""

        def vector(name: str) -> np.ndarray:
            return np.array([p[f"{name}.{a}"] for a in "xyz"])

        lower, inner, outer = vector("lower.joint"), vector("tie.inner"), vector("tie.outer")
        kingpin = vector("upper.joint") - lower
        kingpin /= np.linalg.norm(kingpin)
        turned = np.linspace(-_LARGEST, _LARGEST, _POINTS)
        spin = _rotated(vector("wheel.axis"), kingpin, turned)
        heading = np.arctan2(-spin[:, 0], spin[:, 1])
        ends = lower + _rotated(outer - lower, kingpin, turned)
        # |end − inner − u y|² = length²: of both roots, the one near the design position.
        gap = ends - inner
        length = np.linalg.norm(outer - inner)
        across = length**2 - gap[:, 0] ** 2 - gap[:, 2] ** 2
        reach = np.sqrt(np.maximum(across, 0.0)) * np.sign(outer[1] - inner[1])
        u = gap[:, 1] - reach
        sound = across > 0
        angle = heading - np.interp(0.0, turned, heading)
        keep = _monotone(u, sound)
        return angle[keep], u[keep]

    def is_same(self, other: SteeringGeometry) -> bool:
        """Whether it turns every signal into the same displacement as another geometry."""
        pairs = zip(self._tables, other._tables, strict=True)
        same = all(np.array_equal(x, y) for ours, its in pairs for x, y in zip(ours, its, strict=True))
        return same and self.ratio == other.ratio

    def rod(self, corner: int, angle: float) -> float:
        """Displacement along y, m, that turns front wheel 0 (left) or 1 (right) by an angle (rad, left > 0)."""
        return self._rods[corner](angle)

    def angle(self, corner: int, displacement: float) -> float:
        """Road-wheel angle of a displacement along y: the inverse of `rod`."""
        return self._angles[corner](displacement * self.sign)


def _monotone(u: np.ndarray, sound: np.ndarray) -> slice:
    """The range around the middle where the tie rod reaches and u is strictly monotone."""
    middle = len(u) // 2
    sign = np.sign(u[middle + 1] - u[middle - 1])
    low = high = middle
    while high + 1 < len(u) and sound[high + 1] and (u[high + 1] - u[high]) * sign > 0:
        high += 1
    while low > 0 and sound[low - 1] and (u[low] - u[low - 1]) * sign > 0:
        low -= 1
    return slice(low, high + 1)
