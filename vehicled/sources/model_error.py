"""The error of the model in a direction, as the innovations there show it."""

from __future__ import annotations

_MEMORY = 250.0
"""Samples over which it is averaged."""
_SPIKE = 25.0
"""An innovation beyond five standard deviations counts as if it were there."""


class ModelError:
    """Variance by which innovations exceed what the filter expects of them (Mehra 1970): E[ν²] − H P Hᵀ − R.

    White, as the filter takes it to be. It follows what changes within seconds, such as the roughness of a road.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all innovations."""
        self._found = 0.0
        self.variance = 0.0
        """To be added to R."""

    def take(self, innovation: float, expected: float) -> None:
        """An innovation and its variance, S, to which `variance` had been added."""
        square = min(innovation * innovation, _SPIKE * expected)
        self._found += (square - (expected - self.variance) - self._found) / _MEMORY
        self.variance = max(self._found, 0.0)
