"""Angles that are the same but for whole turns."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

Angle = TypeVar("Angle", float, np.ndarray)


def wrap(angle: Angle) -> Angle:
    """The same angle (rad, of any shape) in [−π, π)."""
    # In Python, not by a function of NumPy, which takes ten times as long of a single number.
    wrapped: Angle = (angle + math.pi) % (2.0 * math.pi) - math.pi
    return wrapped
