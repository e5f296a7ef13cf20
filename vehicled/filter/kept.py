"""What an earlier drive has found of a slow state, as it is known now."""

from __future__ import annotations

import math
from typing import NamedTuple

from vehicled.filter.states import Group
from vehicled.messages import SlowState

_FORGETTING_TIME = 30 * 86400.0
"""s: over which what was found of a car is no longer so."""


class KeptState(NamedTuple):
    """What a slow state begins with."""

    value: float
    variance: float
    prior: float
    """σ₀."""


def calc_kept(
    group: Group, found: SlowState, age: float, before: float, is_widened: bool, switched_on: bool
) -> KeptState:
    """What was found `age` seconds ago of a state of a group, whose variance would be `before` without that.

    With time it becomes as one of which nothing is known: with a = exp(−age/τ), x → √a x and σ² → a σ² + (1 − a) σ₀².
    So x remains N(0, σ₀² − σ²) (see `SlowStates.widen`), where σ₀ is as wide as it must have been to let x be found:
    `is_widened`. A sensor that has been `switched_on` since has another bias at once, however short the stop was.
    """
    kept = math.exp(-age / _FORGETTING_TIME)
    limit = math.inf if group.limit is None else group.limit
    value = min(max(found.value, -limit), limit)
    prior = max(before, found.sigma**2 + value**2) if is_widened else before
    variance = kept * min(found.sigma**2, prior) + (1.0 - kept) * prior
    if switched_on:
        variance = min(variance + group.turn_on**2 * before, prior)
    return KeptState(math.sqrt(kept) * value, variance, math.sqrt(prior))
