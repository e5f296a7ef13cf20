"""Noise that moves particles and preserves their covariance.

For a mechanism without plant noise, noise of motion only keeps the particles different from each other. Added step
by step it is a random walk: the swarm loses the information of earlier readings, and wrong initial states become
indistinguishable from the true one. Liu and West (2001, Combined parameter and state estimation in simulation-based
filtering, section 10.3) shift particles towards their mean by as much as the noise increases their covariance,

    x ← m + √(1 − h²) (x − m) + h L ξ,   L Lᵀ = C,

with mean m and covariance C of the swarm, both of which stay. Here x are the noisy coordinates and their rates, so
that the rates change as they go along with the coordinates in the swarm; and m and C are those of cells, a few noises
wide, because a swarm may be in several clusters, or all around a circle. The boundaries of the cells are at random
places every time.
"""

from __future__ import annotations

import numpy as np

from vehicled.particles.swarm import Swarm

_CELL = 16.0
"""Width of a cell in standard deviations of the noise."""
_CELLS_AROUND = 3
"""Least number of cells on a circle: a cluster at the boundary of a cell is then in two cells, not at both ends of
one."""
_MOST = 0.5
"""Largest h: noise has at most this share of the standard deviation of its cell. Near 1, cells of few particles
would be drawn completely at random in every step, and drift."""


def draw(
    swarm: Swarm, weights: np.ndarray, sigmas: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(noisy, N) each: what to add to the noisy coordinates, and to their rates.

    `sigmas`: (2, noisy) of coordinates and rates per step. In each cell h is the largest at which no noise is larger
    than its own; a coordinate with zero noise sets no bound and follows the others. `weights`: (N,).
    """
    states = np.array([*(swarm.get(n) for n in swarm.noisy), *(swarm.get_rates(n) for n in swarm.noisy)])
    lost = ~np.isfinite(states).all(axis=0)
    states[:, lost] = 0.0
    bounds = sigmas.ravel()
    cells = np.zeros(swarm.count, dtype=np.int64)
    for k, bound in enumerate(bounds):
        angle = k < len(swarm.noisy) and swarm.noisy[k] in swarm.angles
        width = _CELL * bound
        if angle:
            around = max(_CELLS_AROUND, int(2.0 * np.pi / width) if width > 0.0 else 0)
            width = 2.0 * np.pi / around
        elif width == 0.0:
            continue
        place = states[k] / width + random.random()
        along = np.floor(place).astype(np.int64)
        if angle:
            states[k] = (place - along) * width  # within the cell, which may lie across ±π
            along %= around
        along -= along.min()
        cells = cells * (along.max() + 1) + along
    weights = np.where(lost, 0.0, weights) + np.finfo(float).tiny
    positions = np.where(lost, 0.0, swarm.get_q())
    cells = _apart(cells, weights, states[: len(swarm.noisy)], positions)
    off, covariance = _moments(cells, weights, states, states)
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    bounded = bounds > 0.0
    with np.errstate(divide="ignore"):
        h = np.min(bounds[bounded] / deviation[:, bounded], axis=1).clip(max=_MOST)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :] * h[:, None, None]
    noise = random.standard_normal(states.shape)
    changes = (np.sqrt(1.0 - h**2) - 1.0)[cells] * off
    for i, row in enumerate(root.transpose(1, 2, 0)):
        changes[i] += sum(column[cells] * z for column, z in zip(row, noise, strict=True))
    return changes[: len(swarm.noisy)], changes[len(swarm.noisy) :]


def _apart(cells: np.ndarray, weights: np.ndarray, known: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """(N,) cells from 0 on; particles that are assembled in different ways are in different ones.

    Within a cell the positions (n, N) of particles assembled alike nearly follow from the noisy coordinates `known`
    (noisy, N). Where there is a residual, there are two ways of assembly, distinguished by its sign.
    """
    cells = _numbered(cells)
    off, covariance = _moments(cells, weights, known, known)
    off_positions, across = _moments(cells, weights, known, positions)
    # Few particles may be on a line by chance: the fewer they are, the less their slopes count.
    weight = np.maximum(0.0, 1.0 - (len(known) + 2) / np.bincount(cells))[:, None, None]
    slopes = weight * (np.linalg.pinv(covariance, hermitian=True) @ across)
    left = off_positions - sum(
        x * slope[:, cells] for x, slope in zip(off, slopes.transpose(1, 2, 0), strict=True)
    )
    squares, total = (_averages(cells, weights, x**2) for x in (left, off_positions))
    most = np.argmax(squares, axis=0)
    two = squares.sum(axis=0) > 0.5 * total.sum(axis=0)
    beyond = two[cells] & (left[most[cells], np.arange(len(cells))] > 0.0)
    return _numbered(2 * cells + beyond)


def _numbered(labels: np.ndarray) -> np.ndarray:
    """(N,) labels from 0 on, numbered without gaps; sorted only where there are too many to count."""
    if labels.max() > 4 * len(labels):
        return np.unique(labels, return_inverse=True)[1]
    consecutive: np.ndarray = (np.cumsum(np.bincount(labels) > 0) - 1)[labels]
    return consecutive


def _averages(cells: np.ndarray, weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(n, cells) weighted means of (n, N)."""
    return np.array([np.bincount(cells, weights * x) for x in values]) / np.bincount(cells, weights)


def _moments(
    cells: np.ndarray, weights: np.ndarray, ours: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(m, N) deviations of `others` from their cell's mean; (cells, n, m) covariances of `ours` and `others`."""
    off = others - _averages(cells, weights, others)[:, cells]
    rows = [_averages(cells, weights, x * off) for x in ours - _averages(cells, weights, ours)[:, cells]]
    return off, np.array(rows).transpose(2, 0, 1)
