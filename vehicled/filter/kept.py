"""Value of a slow state from an earlier drive, as known now."""

from __future__ import annotations

import math
from typing import NamedTuple

from vehicled.filter.states import Group
from vehicled.messages import SlowState

_FORGETTING_TIME = 30 * 86400.0
"""s: time constant with which a car changes, so that earlier results expire."""


class KeptState(NamedTuple):
    """Start values of a slow state."""

    value: float
    variance: float
    prior: float
    """σ₀."""


def calc_kept(
    group: Group, found: SlowState, age: float, before: float, is_widened: bool, switched_on: bool
) -> KeptState:
    """Start values from the result `found`, `age` seconds ago; `before`: variance of the state without it.

    With time it returns to its prior: with a = exp(−age/τ), x → √a x and σ² → a σ² + (1 − a) σ₀². So x
    remains N(0, σ₀² − σ²) (see `SlowStates.widen`). If `is_widened`, σ₀ is as large as needed for x. A sensor
    that has been `switched_on` since has another bias, however short the stop was.
    """
    limit = math.inf if group.limit is None else group.limit
    value = min(max(found.value, -limit), limit)
    prior = max(before, found.sigma**2 + value**2) if is_widened else before
    value, variance = fade(value, min(found.sigma**2, prior), prior, age)
    if switched_on:
        variance = min(variance + group.turn_on**2 * before, prior)
    return KeptState(value, variance, math.sqrt(prior))


def fade(value: float, variance: float, prior: float, age: float) -> tuple[float, float]:
    """Value and variance `age` seconds later, as they return to zero and to the variance `prior`."""
    kept = math.exp(-age / _FORGETTING_TIME)
    return math.sqrt(kept) * value, kept * variance + (1.0 - kept) * prior
