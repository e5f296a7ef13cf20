"""Motion of the suspensions with the travel of the wheels: the matrix R of their kinematics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TravelMotion:
    """Derivatives of coordinates by the travel of the four wheels, with a fixed chassis."""

    corners: np.ndarray
    """(n, 4, 4) derivatives of each corner's coordinates without the wheel's spin, by corner and travel."""
    axle: np.ndarray
    """(k, 4) derivatives of the coordinates of a live axle; k = 0 without one."""


def calc_travel_motion(jacobian: np.ndarray, axle: int) -> TravelMotion:
    """Motion from the result of the kernel `travel_jacobian`, (4, m, n + k) by corner with k = `axle`.

    Constraints that a corner lacks are rows of zeros. Raises LinAlgError if a wheel has no travel.
    """
    if axle == 0:
        return TravelMotion(_calc_apart(jacobian), np.zeros((0, len(jacobian))))
    n = jacobian.shape[2] - axle
    corners = np.zeros((n, 4, 4))
    corners[:, :2, :2] = _calc_apart(np.array([_drop_zeros(j[:, :n]) for j in jacobian[:2]]))
    left, right = (_drop_zeros(j) for j in jacobian[2:])
    right = right[np.any(right[:, :n] != 0.0, axis=1)]  # the axle's own are among those of the left corner
    matrix = np.zeros((2 * n + axle, 2 * n + axle))
    matrix[: len(left), :n], matrix[len(left) :, n : 2 * n] = left[:, :n], right[:, :n]
    matrix[: len(left), 2 * n :], matrix[len(left) :, 2 * n :] = left[:, n:], right[:, n:]
    unit = np.zeros((len(matrix), 2))
    unit[len(left) - 1, 0] = unit[-1, 1] = 1.0
    found = np.linalg.solve(matrix, unit)
    corners[:, 2:, 2:] = found[: 2 * n].reshape(2, n, 2).transpose(1, 0, 2)
    return TravelMotion(corners, np.column_stack([np.zeros((axle, 2)), found[2 * n :]]))


def _calc_apart(jacobian: np.ndarray) -> np.ndarray:
    """(n, c, c) motion of independent corners, from derivatives (c, n, n)."""
    count, n, _ = jacobian.shape
    unit = np.zeros((count, n, 1))
    unit[:, -1] = 1.0
    motion, own = np.zeros((n, count, count)), np.arange(count)
    motion[:, own, own] = np.linalg.solve(jacobian, unit)[:, :, 0].T
    return motion


def _drop_zeros(rows: np.ndarray) -> np.ndarray:
    return rows[np.any(rows != 0.0, axis=1)]
