"""What a wrong sensor has falsified besides the states that it observes."""

from __future__ import annotations

from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.states import UNMODELLED


def doubt_unmodelled(f: EstimatedFilter) -> None:
    """Make accelerations that the model lacks uncertain by their whole size: they may have explained the error."""
    if UNMODELLED in f.states:
        for element, force in zip(UNMODELLED.elements, f.slow.view(UNMODELLED).tolist(), strict=True):
            if element in ("left", "yaw"):
                f.add_variance(UNMODELLED, element, force**2)
