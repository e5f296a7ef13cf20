"""Shared by the tests of identification."""

from __future__ import annotations

import numpy as np

from vehicled.identification.motions import Motion, solve_motion
from vehicled.multibody.mechanism import Mechanism

SUSPENSION_REACH = np.array([0.05, 0.05, 0.8, 0.8, 0.05])
"""Range of suspension travels (m), wheel spins (rad) and rack (m)."""


def draw_motion(
    mechanism: Mechanism, samples: int, reach: float | np.ndarray = 0.05, seed: int = 1, speed: float = 5.0
) -> Motion:
    """Unconnected random states near the mechanism's present position, which is restored at the end."""
    random = np.random.default_rng(seed)
    f = len(mechanism.independent)
    home = mechanism.q.copy()
    parts = []
    for _ in range(samples):
        mechanism.q[:] = home
        z = mechanism.z + reach * random.uniform(-1.0, 1.0, f)
        zd, zdd = (k * reach * random.normal(size=f) for k in (speed, speed**2))
        parts.append(solve_motion(mechanism, np.zeros(1), z[None], zd[None], zdd[None]))
    mechanism.q[:] = home
    stacked = (np.concatenate([getattr(p, key) for p in parts]) for key in ("q", "qd", "qdd"))
    return Motion(np.zeros(samples), *stacked)
