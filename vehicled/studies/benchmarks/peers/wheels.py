"""State of the wheels of a car in another engine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Wheels(NamedTuple):
    """In the order of `messages.WHEELS`, in the engine's world axes, SI; (4, 3) unless stated otherwise."""

    places: np.ndarray
    """Positions of the hubs."""
    axes: np.ndarray
    """Spin axes, unit vectors to the left."""
    velocities: np.ndarray
    """Velocities of the hubs."""
    rates: np.ndarray
    """Angular velocities of the wheels, including their rotation."""
    forces: np.ndarray
    """Forces of the ground on the tyres."""
    radii: np.ndarray
    """(4,) rolling radii: from the hub to the point whose velocity over the ground is slip."""
