"""The noise of a sensor as its own samples show it."""

from __future__ import annotations

from collections.abc import Sequence

MEMORY = 250.0
"""Samples over which a variance is averaged."""
SPIKE = 25.0
"""What is beyond five standard deviations is no noise, and counts as if it were there: so many variances."""


class NoiseFloor:
    """Variance of white noise from second differences of consecutive samples, component by component.

    A signal that is smooth over three samples cancels in x₀ − 2 x₁ + x₂, of which the variance is then 6 σ² (von
    Neumann's successive differences, of second order). A sensor that vibrates more than its settings say is
    found by itself, without a model.
    """

    def __init__(self, variances: Sequence[float]) -> None:
        """`variances` of the settings: noise is never taken as less."""
        self._least = list(variances)
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._found = [0.0] * len(self._least)
        self._present: Sequence[int] | None = None
        self.interrupt()

    def interrupt(self) -> None:
        """The samples to come do not follow those before; what was found of their noise stays."""
        self._last: Sequence[float] | None = None
        self._before: Sequence[float] | None = None

    def reconfigure(self, variances: Sequence[float]) -> None:
        """Other settings, of the same components."""
        self._least = list(variances)

    def take(self, value: Sequence[float], present: Sequence[int] | None = None) -> list[float]:
        """Variance of a sample by component, from it and all before; samples follow each other regularly.

        `present`: the components that were measured, None: all.
        """
        if present != self._present:
            self._present = present
            self.interrupt()
        least, found, last, before = self._least, self._found, self._last, self._before
        if last is not None and before is not None:
            for k, (x, x1, x2, usual) in enumerate(zip(value, last, before, least, strict=True)):
                second, mean = x - 2.0 * x1 + x2, found[k]
                square, spike = second * second / 6.0, SPIKE * (mean if mean > usual else usual)
                found[k] = mean + ((square if square < spike else spike) - mean) / MEMORY
        self._last, self._before = value, last
        return list(map(max, least, found))
