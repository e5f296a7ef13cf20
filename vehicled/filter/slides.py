"""Whether a car goes sideways: its tyres then slide, and neither their forces nor wheels show its motion."""

from __future__ import annotations

import numpy as np

from vehicled.vehicle.arrays import AHEAD, LEFT

SIDEWAYS = 0.2
"""Lateral speed over speed ahead from which on a car slides."""


def goes_sideways(pose: np.ndarray) -> bool:
    """Whether a car with this pose (elements of POSE) slides."""
    return bool(abs(pose.item(LEFT)) > SIDEWAYS * abs(pose.item(AHEAD)))
