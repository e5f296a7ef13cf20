"""The transition of the last propagation, F, as smoothers need it."""

from __future__ import annotations

from dataclasses import dataclass

from vehicled.symbolic.program import KernelHandle


@dataclass(frozen=True)
class TransitionKernel:
    """How F is computed, element by element."""

    kernel: KernelHandle
    """The elements that are not zero into the array `transition`."""
    places: tuple[tuple[int, int], ...]
    """Row and column of each."""
