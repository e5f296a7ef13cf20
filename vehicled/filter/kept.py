"""Value of a slow state from an earlier drive, as known now."""

from __future__ import annotations

import math
from typing import NamedTuple

from vehicled.filter.states import Group
from vehicled.messages import SlowState

IMU_LATENCY = "imu_latency"
"""Name under which the latency of the IMU's samples is kept, which is no state of the filter."""
_PLAUSIBLE = 3.0
"""Number of σ₀ up to which a value is no reason to widen it: if it grew by x² in each drive, x would too."""
_FORGETTING_TIME = 30 * 86400.0
"""s: time constant with which a car changes, so that earlier results expire."""


class KeptState(NamedTuple):
    """Start values of a slow state."""

    value: float
    variance: float
    prior: float
    """σ₀."""


def calc_kept(
    group: Group,
    found: SlowState,
    age: float,
    before: float,
    is_widened: bool,
    switched_on: bool,
    shared: float = 0.0,
) -> KeptState:
    """Start values from the result `found`, `age` seconds ago; `before`: variance of the state without it.

    `shared`: 1 σ of the error that what all drives have shown has in common.

    With time it returns to its prior: with a = exp(−age/τ), x → √a x and σ² → a σ² + (1 − a) σ₀². So x
    remains N(0, σ₀² − σ²) (see `SlowStates.widen`). If `is_widened`, σ₀ is as large as a large x needs. A sensor
    that has been `switched_on` since has another bias, however short the stop was; else σ is kept, however large.
    """
    limit = math.inf if group.limit is None else group.limit
    value = min(max(found.value, -limit), limit)
    prior = before
    if is_widened and value * value > _PLAUSIBLE**2 * before:
        prior = max(before, found.sigma**2 + value**2)
    if not switched_on:
        prior = max(prior, found.sigma**2)  # a jump may just have made it less certain than it was at first
    elif found.sigma**2 > prior:
        value = 0.0  # it says less than the prior
    value, variance = fade(value, min(found.sigma**2, prior), prior, age)
    if shared > 0.0:
        value, variance = _weaken(value, variance, prior, shared)
    if switched_on:
        variance = min(variance + group.turn_on**2 * before, prior)
    return KeptState(value, variance, math.sqrt(prior))


def fade(value: float, variance: float, prior: float, age: float) -> tuple[float, float]:
    """Value and variance `age` seconds later, as they return to zero and to the variance `prior`."""
    kept = math.exp(-age / _FORGETTING_TIME)
    return math.sqrt(kept) * value, kept * variance + (1.0 - kept) * prior


def _weaken(value: float, variance: float, prior: float, shared: float) -> tuple[float, float]:
    """Value and variance if what has been shown beside the prior is no better than `shared`, 1 σ."""
    shown = 1.0 / max(variance, 1e-300) - 1.0 / prior
    least = 1.0 / shared**2
    if shown <= least:
        return value, variance
    weakened = 1.0 / (1.0 / prior + least)
    return value / (max(variance, 1e-300) * shown) * least * weakened, weakened
