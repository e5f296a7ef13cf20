"""How short steps of integration have to be for particles that turn fast, and which are too fast for any."""

from __future__ import annotations

import math

import numpy as np

from vehicled.particles.swarm import Swarm

_TURN = 0.1
"""rad, or sizes of the mechanism: of almost all particles in a step. Over that the classical Runge–Kutta rule is no
longer exact to the noise of an encoder."""
_ALMOST_ALL = 0.99
_PARTS = 64
"""Into which the longest step is divided at most: more takes longer than the motion itself."""
_ABSURD = 1.0
"""The same of one particle in a step: it does not follow its equations of motion at all."""


class Pace:
    """Divides steps by how fast the particles of a swarm turn."""

    def __init__(self, swarm: Swarm, size: float) -> None:
        """`size` of the mechanism, m: to cross it takes as many steps as to turn by 1 rad."""
        self._swarm = swarm
        self._sizes = np.ones((len(swarm.coordinates), 1))
        self._sizes[swarm.point_rows] = size

    def divide(self, h: float, weights: np.ndarray) -> int:
        """Parts of a step of `h` (s) for particles of these weights (N,)."""
        turns = self._turns(h)
        order = np.argsort(turns)
        place = np.searchsorted(np.cumsum(weights[order]), _ALMOST_ALL * np.sum(weights))
        fast = float(turns[order[min(int(place), len(order) - 1)]])
        return max(1, min(_PARTS, math.ceil(fast / _TURN))) if math.isfinite(fast) else _PARTS

    def find_absurd(self, h: float) -> np.ndarray:
        """(N,) which particles have turned too far in a step of `h` (s) to be right, or are no numbers."""
        absurd: np.ndarray = self._turns(h) > _ABSURD
        return absurd

    def _turns(self, h: float) -> np.ndarray:
        """(N,) rad, or sizes, in a step of `h` (s); infinite for a particle that is not a number."""
        swarm = self._swarm
        moves = (np.abs(swarm.get_qd()) / self._sizes).max(axis=0, initial=0.0)
        for name in swarm.angles:
            moves = np.maximum(moves, np.abs(swarm.get_rates(name)))
        turns: np.ndarray = np.nan_to_num(h * moves, nan=np.inf, posinf=np.inf)
        return turns
