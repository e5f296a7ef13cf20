"""Initial particles of any mechanism: moved from one position to any other, along the constraints."""

from __future__ import annotations

import numpy as np

from vehicled.maths.angles import wrap
from vehicled.multibody.mechanism import Mechanism
from vehicled.particles.swarm import Swarm

_NEAR = 1e-9
_REACHED = 1e-6
"""Tolerance of the coordinates, rad or extents of the mechanism."""


def assemble(
    swarm: Swarm,
    mechanism: Mechanism,
    wanted: np.ndarray,
    rates: np.ndarray | float = 0.0,
    stride: float = 0.05,
    limit: int = 500,
) -> np.ndarray:
    """(N,) whether each particle's noisy coordinates have reached `wanted` (noisy, N).

    Particles move from the mechanism's position in steps of at most `stride` (rad or extents), angles the
    shorter way round.

    All end assembled, with `rates` of the noisy coordinates as far as these are possible. A particle that has
    not reached `wanted` may be at the end of its travel. `noisy` must name independent coordinates.
    """
    places = [mechanism.index(name) for name in swarm.coordinates]
    q = np.repeat(mechanism.q[places, None], swarm.count, axis=1)
    swarm.set_states(q, np.zeros_like(q), mechanism.t)
    for _ in range(limit):
        left = _left(swarm, wanted)
        if not np.any(np.abs(left) > _NEAR * swarm.units):
            break
        swarm.shift(np.clip(left, -stride * swarm.units, stride * swarm.units))
    now = np.array([swarm.get_rates(name) for name in swarm.noisy])
    swarm.shift(None, rates - now)
    assembled: np.ndarray = np.all(np.abs(_left(swarm, wanted)) <= _REACHED * swarm.units, axis=0)
    return assembled


def _left(swarm: Swarm, wanted: np.ndarray) -> np.ndarray:
    left: np.ndarray = wanted - np.array([swarm.get(name) for name in swarm.noisy])
    angles = [name in swarm.angles for name in swarm.noisy]
    left[angles] = wrap(left[angles])
    return left
