"""The gate of a measurement: components with large innovations get less weight, those with very large ones none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from vehicled.units import Positive, Seconds

Policy = Literal["reset", "distrust"]
"""When a source keeps failing its gate: `reset` restarts the states that it observes from it (counted and
published as a reset); `distrust` goes on rejecting it, and publishes that."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How innovations are weighted, each component by itself, and the life of the source.

    A measurement that disagrees with the model keeps some weight (Huber), as the model may be wrong; an
    extreme one has none.
    """

    weigh_beyond: Annotated[float, Positive] = 3.0
    """Innovations beyond this many standard deviations are limited to it, by a larger measurement noise."""
    reject_beyond: Annotated[float, Positive] = 10.0
    """Innovations beyond this many standard deviations are rejected."""
    persistent: Annotated[int, Positive] = 25
    """Consecutive failures after which `policy` applies."""
    policy: Policy = "distrust"
    timeout: Annotated[Seconds, Positive] = 1.0
    """Time without measurements after which the source counts as lost; it starts anew with its next good
    measurement.

    For a sensor that measures less often, 2.5 of its usual intervals."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) where a measurement would be rejected before it loses weight."""
        if self.weigh_beyond > self.reject_beyond:
            yield (
                "weigh_beyond",
                f"expected at most reject_beyond, {self.reject_beyond:g}, got {self.weigh_beyond:g}",
            )
