"""Whether sensors determine a mechanism's state at all, before any filter has run.

Readings of one second are differentiated with respect to the initial state, for several initial states. Each
reading is scaled by its standard deviation, and each state by its prior uncertainty: 1 rad or the range of a
distance, 1 rad/s or the mechanism's extent per second. A singular value below 1 then belongs to a combination
of states that the readings determine less well than the prior does (Maybeck, *Stochastic Models, Estimation,
and Control* 1, section 1.7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.maths.angles import wrap
from vehicled.multibody.description import Description
from vehicled.particles.swarm import Swarm

_SECONDS = 1.0
_STARTS = 8
_SMALL = 1e-4
"""Size of the finite differences, in scaled states."""
_NAMED = 0.3
"""Least share, relative to the largest part of a combination, for a state to be named."""


@dataclass(frozen=True)
class Measured:
    """A coordinate, or its rate, that a sensor measures."""

    name: str
    rate: bool
    sigma: float


def find_unobservable(
    description: Description,
    noisy: list[str],
    positions: np.ndarray,
    ranges: np.ndarray,
    measured: list[Measured],
    step: float,
) -> list[str]:
    """States that the readings do not determine from any of the starts: names of `noisy`, or `rate of` one.

    `positions`: (n, m) of a swarm's particles, of which a few are used, half of them in motion; `ranges`: (noisy,)
    how far each coordinate may be off at the start; `step` of integration, s. Empty where all are determined.
    """
    f, random = len(noisy), np.random.default_rng(0)
    starts = min(_STARTS, positions.shape[1])
    per_start = 1 + 2 * f
    swarm = Swarm(description, starts * per_start, noisy)
    chosen = random.choice(positions.shape[1], starts, replace=False)
    q = np.repeat(positions[:, chosen], per_start, axis=1)
    swarm.set_states(q, np.zeros_like(q))
    rates = swarm.units * random.standard_normal((f, starts)) * (np.arange(starts) % 2)
    scale = np.concatenate([ranges, swarm.units[:, 0]])
    changes = np.zeros((2 * f, starts, per_start))
    changes[np.arange(2 * f), :, 1 + np.arange(2 * f)] = _SMALL * scale[:, None]
    moves, kicks = changes.reshape(2, f, -1)
    swarm.shift(moves, kicks + np.repeat(rates, per_start, axis=1))
    rows = []
    for _ in range(round(_SECONDS / step)):
        swarm.advance(step)
        for m in measured:
            values = swarm.get_rates(m.name) if m.rate else swarm.get(m.name)
            by_start = values.reshape(starts, per_start)
            off = by_start[:, 1:] - by_start[:, :1]
            angle = not m.rate and m.name in swarm.angles
            rows.append((wrap(off) if angle else off) / (_SMALL * m.sigma))
    sensitivity = np.nan_to_num(np.array(rows).transpose(1, 0, 2))
    _, values, directions = np.linalg.svd(sensitivity, full_matrices=False)
    best = int(np.argmax(values[:, -1]))
    hidden = directions[best][values[best] < 1.0]
    if not len(hidden):
        return []
    share = np.sqrt(np.sum(hidden**2, axis=0))
    names = [*noisy, *(f"rate of {name}" for name in noisy)]
    return [n for n, part in zip(names, share, strict=True) if part >= _NAMED * np.max(share)]
