"""Length of integration steps for fast particles, and which particles are too fast for any step."""

from __future__ import annotations

import math

import numpy as np

from vehicled.particles.swarm import Swarm

_TURN = 0.1
"""Largest motion of almost all particles in a step, rad or sizes of the mechanism. Beyond it the error of the
classical Runge–Kutta method is no longer below an encoder's noise."""
_ALMOST_ALL = 0.99
_PARTS = 64
"""Largest number of parts of a step: with more, the computation takes longer than the motion itself."""
_ABSURD = 1.0
"""Largest motion of a single particle in a step: beyond it the particle does not follow its equations of
motion at all."""


class Pace:
    """Divides steps according to the speed of a swarm's particles."""

    def __init__(self, swarm: Swarm, size: float) -> None:
        """`size` of the mechanism, m: a motion by it takes as many steps as a rotation by 1 rad."""
        self._swarm = swarm
        self._sizes = np.ones((len(swarm.coordinates), 1))
        self._sizes[swarm.point_rows] = size

    def divide(self, h: float, weights: np.ndarray) -> int:
        """Number of parts of a step of `h` (s) for particles of these weights (N,)."""
        turns = self._turns(h)
        order = np.argsort(turns)
        place = np.searchsorted(np.cumsum(weights[order]), _ALMOST_ALL * np.sum(weights))
        fast = float(turns[order[min(int(place), len(order) - 1)]])
        return max(1, min(_PARTS, math.ceil(fast / _TURN))) if math.isfinite(fast) else _PARTS

    def find_absurd(self, h: float) -> np.ndarray:
        """(N,) which particles have moved too far in a step of `h` (s) to be valid, or are NaN."""
        absurd: np.ndarray = self._turns(h) > _ABSURD
        return absurd

    def _turns(self, h: float) -> np.ndarray:
        """(N,) motion in a step of `h` (s), rad or sizes; infinite for NaN."""
        swarm = self._swarm
        moves = (np.abs(swarm.get_qd()) / self._sizes).max(axis=0, initial=0.0)
        for name in swarm.angles:
            moves = np.maximum(moves, np.abs(swarm.get_rates(name)))
        turns: np.ndarray = np.nan_to_num(h * moves, nan=np.inf, posinf=np.inf)
        return turns
