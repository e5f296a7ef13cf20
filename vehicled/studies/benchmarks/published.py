"""The published drive of the reference vehicle, and the path on which four multibody engines agree."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

STEP = 4e-3
"""s"""
SPEED = 20.0
"""m/s, straight ahead with rolling wheels, from design position."""
DURATION = 10.0
"""s"""
_AMPLITUDE, _FREQUENCY = 0.004, 2 * np.pi * 0.25


def rack(t: float) -> tuple[float, float, float]:
    """Displacement of the rack to the left (m), its rate and acceleration, at a time of the drive (s)."""
    phase = _FREQUENCY * t
    sine, cosine = float(np.sin(phase)), float(np.cos(phase))
    return _AMPLITUDE * sine, _AMPLITUDE * _FREQUENCY * cosine, -_AMPLITUDE * _FREQUENCY**2 * sine


@lru_cache
def published() -> np.ndarray:
    """(n, 4) time (s) and position (m) of the chassis' centre of mass in the finest published run.

    It is MuJoCo's, Runge–Kutta 4, 0.25 ms.
    """
    rows = np.genfromtxt(Path(__file__).with_name("reference_path.csv"), delimiter=",", names=True)
    return np.column_stack([rows[c] for c in "txyz"])


def calc_deviation(path: np.ndarray) -> float:
    """Largest distance (m) of a path from the published one, over the length of the given path.

    `path`: (n, 3) positions of the chassis' centre of mass, one every STEP from t = 0.
    """
    t = STEP * np.arange(len(path))
    there = published()
    there = there[there[:, 0] <= t[-1]]
    here = np.column_stack([np.interp(there[:, 0], t, column) for column in path.T])
    return float(np.linalg.norm(here - there[:, 1:], axis=1).max())
