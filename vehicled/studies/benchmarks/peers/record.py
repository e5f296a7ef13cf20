"""The record of a drive that every engine returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Record:
    """Times of the steps, and the path of the car."""

    times_ns: list[int] = field(default_factory=list)
    path: list[np.ndarray] = field(default_factory=list)
    """(3,) each: position of the vehicle origin, m."""
