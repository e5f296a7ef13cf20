"""Noise that moves particles and preserves their covariance.

For a mechanism without plant noise, noise of motion only keeps the particles different from each other. Added
step by step it is a random walk: the swarm loses the information of earlier readings, and wrong initial
states become indistinguishable from the true one. Liu and West (2001, Combined parameter and state estimation
in simulation-based filtering, section 10.3) shift particles towards their mean by as much as the noise
increases their covariance,

    x ← m + √(1 − h²) (x − m) + h L ξ,   L Lᵀ = C,

with mean m and covariance C of the swarm, both of which are preserved. Here x are the noisy coordinates and
their rates, so the rates change according to their correlation with the coordinates in the swarm. m and C are
those of cells, a few standard deviations of the noise wide, because a swarm may have several clusters, or
extend around a circle. The boundaries of the cells are random every time.
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
"""Largest h: the noise has at most this share of its cell's standard deviation. With h near 1, cells of few
particles would be redrawn at random in every step, and drift."""
_REDRAWN = 0.8
"""h when particles are redrawn after resampling in a part of a correction."""
_PER_STATE = 32
"""Number of particles in a cell for each state when redrawing. With fewer, or with a smaller h, the few
selected particles are not spread enough for the next part of the correction, and the swarm contracts at a
wrong state."""


def draw(
    swarm: Swarm, weights: np.ndarray, sigmas: np.ndarray, random: np.random.Generator, growth: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """(noisy, N) each: what to add to the noisy coordinates, and to their rates.

    `sigmas`: (2, noisy) of coordinates and rates per step. In each cell h is the largest with which no noise
    exceeds its `sigmas`; a coordinate with zero noise sets no limit and follows the others. `weights`: (N,).
    The covariance of each cell becomes `growth` times what it was.
    """
    states, weights = _states(swarm, weights)
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
            states[k] = (place - along) * width  # relative to the cell, which may contain ±π
            along %= around
        along -= along.min()
        cells = cells * (along.max() + 1) + along
    cells = _apart(swarm, cells, weights, states)
    off, covariance = _moments(cells, weights, states, states)
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    bounded = bounds > 0.0
    with np.errstate(divide="ignore"):
        h = np.min(bounds[bounded] / deviation[:, bounded], axis=1).clip(max=_MOST)
    return _changes(cells, off, covariance, h, growth, random)


def redraw(swarm: Swarm, weights: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """As `draw`, with a large h, for particles just resampled, many of which are copies.

    The cells are as narrow as the number of particles in each allows, of whatever extent and dimension the
    swarm is. (Musso, Oudjane and Le Gland 2001, section 12.3, have one kernel for the whole swarm.)
    """
    states, weights = _states(swarm, weights)
    for k, name in enumerate(swarm.noisy):
        if name in swarm.angles:
            states[k] = _opened(states[k])
    cells = _apart(swarm, _divided(states, _PER_STATE * len(states)), weights, states)
    off, covariance = _moments(cells, weights, states, states)
    return _changes(cells, off, covariance, np.full(len(covariance), _REDRAWN), 1.0, random)


def _states(swarm: Swarm, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(2 noisy, N) noisy coordinates and their rates, and (N,) weights above zero.

    Particles that are NaN or have zero weight are set to zero, with a negligible weight.
    """
    states = np.array([*(swarm.get(n) for n in swarm.noisy), *(swarm.get_rates(n) for n in swarm.noisy)])
    lost = ~(np.isfinite(states).all(axis=0) & (weights > 0.0))
    states[:, lost] = 0.0
    return states, np.where(lost, 0.0, weights) + np.finfo(float).tiny


def _changes(
    cells: np.ndarray,
    off: np.ndarray,
    covariance: np.ndarray,
    h: np.ndarray,
    growth: float,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """(noisy, N) each, of coordinates and rates: √(growth − h²) (x − m) + h L ξ less x − m."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :] * h[:, None, None]
    noise = random.standard_normal(off.shape)
    changes = (np.sqrt(growth - h**2) - 1.0)[cells] * off
    for i, row in enumerate(root.transpose(1, 2, 0)):
        changes[i] += sum(column[cells] * z for column, z in zip(row, noise, strict=True))
    half = len(off) // 2
    return changes[:half], changes[half:]


def _opened(angles: np.ndarray) -> np.ndarray:
    """(N,) angles counted from the middle of the widest gap between them, so that no cluster contains the cut."""
    order = np.sort(angles)
    gaps = np.diff(order, append=order[0] + 2.0 * np.pi)
    widest = int(np.argmax(gaps))
    opened: np.ndarray = np.mod(angles - order[widest] - 0.5 * gaps[widest], 2.0 * np.pi)
    return opened


def _divided(states: np.ndarray, least: int) -> np.ndarray:
    """(N,) cells: the particles divided in two, each time along the widest state, where there are twice `least`.

    Widths are in standard deviations of the whole swarm. The cut is at the widest gap outside the outer
    eighths, so that clusters are in cells of their own.
    """
    deviation = np.std(states, axis=1, keepdims=True)
    scaled = states / np.where(deviation > 0.0, deviation, 1.0)
    cells = np.zeros(states.shape[1], dtype=np.int64)
    left, k = [np.arange(states.shape[1])], 0
    while left:
        part = left.pop()
        if len(part) < 2 * least:
            cells[part] = k
            k += 1
            continue
        along = scaled[np.argmax(np.var(scaled[:, part], axis=1))]
        part = part[np.argsort(along[part])]
        margin = len(part) // 8
        cut = margin + 1 + int(np.argmax(np.diff(along[part[margin : len(part) - margin]])))
        left += [part[:cut], part[cut:]]
    return cells


def _apart(swarm: Swarm, cells: np.ndarray, weights: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(N,) cells from 0 on, such that particles with different ways of assembly are in different cells.

    Within a cell the positions of particles assembled alike nearly follow from the noisy coordinates, the
    first half of `states`. Where there is a residual, there are two ways of assembly, distinguished by its
    sign.
    """
    cells, known = _numbered(cells), states[: len(swarm.noisy)]
    positions = np.where(weights > np.finfo(float).tiny, swarm.get_q(), 0.0)
    off, covariance = _moments(cells, weights, known, known)
    off_positions, across = _moments(cells, weights, known, positions)
    # Few particles may lie on a line by chance: the fewer they are, the less their slopes count.
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
