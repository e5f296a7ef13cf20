"""The gate that each measurement of a source must pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from vehicled.units import Positive, Range, Seconds

Policy = Literal["reset", "distrust"]
"""When a source keeps failing its gate: `reset` restarts the states that it observes from it (counted and
published as a reset); `distrust` goes on rejecting it, and publishes that."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Chi-squared test of each measurement, and the life of its source."""

    probability: Annotated[float, Range(0.0, 1.0, above=True)] = 0.9999
    """Share of good measurements that pass."""
    persistent: Annotated[int, Positive] = 25
    """Failures in a row after which `policy` applies."""
    policy: Policy = "distrust"
    timeout: Annotated[Seconds, Positive] = 1.0
    """Silence after which the source counts as lost; it starts anew with its next good measurement."""
