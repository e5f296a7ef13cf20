"""Noise that renews particles without spreading them.

Noise of motion that nothing in the mechanism makes serves diversity alone. Added step by step it is a random walk:
the swarm forgets what the readings have told of earlier times, and particles of another start may wander to where
they read what the truth reads. Liu and West (2001, Combined parameter and state estimation in simulation-based
filtering, section 10.3) draw particles towards their mean by as much as the noise spreads them,

    x ← m + √(1 − h²) (x − m) + h L ξ,   L Lᵀ = C,

with mean m and covariance C of the swarm, both of which stay. Here x are the noisy coordinates and their rates, so
that the rates change as they go along with the coordinates in the swarm; and m and C are those of cells, a few noises
wide, because a swarm may be in several clusters, or all around a circle. The cells lie elsewhere every time.
"""

from __future__ import annotations

import numpy as np

from vehicled.observers.particles.swarm import Swarm

_CELL = 16.0
"""Width of a cell in standard deviations of the noise."""
_CELLS_AROUND = 3
"""At least, on a circle: a cluster that the end of one cuts is in two, not on both ends of the same."""
_MOST = 0.5
"""Largest h: noise has at most this share of the spread of its cell. Near 1, cells of few particles would be drawn
wholly anew in every step, and drift."""


def draw(
    swarm: Swarm, weights: np.ndarray, sigmas: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(noisy, N) each: what to add to the noisy coordinates, and to their rates.

    `sigmas`: (2, noisy) of coordinates and rates per step. In each cell h is the largest at which no noise is larger
    than its own; one of zero sets no bound, the coordinate follows the others. `weights`: (N,).
    """
    states = np.array([*(swarm.get(n) for n in swarm.noisy), *(swarm.get_rates(n) for n in swarm.noisy)])
    lost = ~np.isfinite(states).all(axis=0)
    states[:, lost] = 0.0
    bounds = sigmas.ravel()
    cells = np.zeros(swarm.count, dtype=np.int64)
    for k in np.flatnonzero(bounds):
        angle = k < len(swarm.noisy) and swarm.noisy[k] in swarm.angles
        width = _CELL * bounds[k]
        if angle:
            around = max(_CELLS_AROUND, int(2.0 * np.pi / width))
            width = 2.0 * np.pi / around
        place = states[k] / width + random.random()
        along = np.floor(place).astype(np.int64)
        if angle:
            states[k] = (place - along) * width  # within the cell, which may lie across ±π
            along %= around
        along -= along.min()
        cells = cells * (along.max() + 1) + along
    _, cells = np.unique(cells, return_inverse=True)
    weights = np.where(lost, 0.0, weights) + np.finfo(float).tiny
    total = np.bincount(cells, weights)

    def average(values: np.ndarray) -> np.ndarray:
        return np.bincount(cells, weights * values) / total

    off = states - np.array([average(x) for x in states])[:, cells]
    covariance = np.array([[average(a * b) for b in off] for a in off]).transpose(2, 0, 1)
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    bounded = bounds > 0.0
    with np.errstate(divide="ignore"):
        h = np.min(bounds[bounded] / spread[:, bounded], axis=1).clip(max=_MOST)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :] * h[:, None, None]
    noise = random.standard_normal(states.shape)
    changes = (np.sqrt(1.0 - h**2) - 1.0)[cells] * off
    for i, row in enumerate(root.transpose(1, 2, 0)):
        changes[i] += sum(column[cells] * z for column, z in zip(row, noise, strict=True))
    return changes[: len(swarm.noisy)], changes[len(swarm.noisy) :]
