"""Which moments of inertia a body can have, as far as numbers of a file show it."""

from __future__ import annotations

from collections.abc import Sequence

ROUNDING = 2e-5
"""Share of the largest moment by which numbers may be beyond what bodies have. The largest moment of a thin plate is
the sum of the others, the least of a rod is zero: written with six digits, one in two of them is just beyond."""


def find_impossible(moments: Sequence[float]) -> str | None:
    """What is wrong with the moments (kg·m²) about the axis of a planar body, or about three axes at right angles."""
    least, largest = min(moments), max(moments)
    slack = ROUNDING * abs(largest)
    if least < -slack:
        return f"no body has a negative moment of inertia, here {least:.6g} kg·m²"
    if len(moments) > 1 and 2.0 * largest > sum(moments) + slack:
        return "no body has these moments: the largest principal one exceeds the sum of the others"
    return None
