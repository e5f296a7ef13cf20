"""Angles that are the same but for whole turns."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

Angle = TypeVar("Angle", float, np.ndarray)


def wrap(angle: Angle) -> Angle:
    """The same angle (rad, of any shape) in [−π, π)."""
    wrapped: Angle = np.remainder(angle + np.pi, 2.0 * np.pi) - np.pi
    return wrapped
