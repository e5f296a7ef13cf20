"""The noise of a sensor as its own samples show it, as expressions of the car's program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vehicled.maths.white_noise import OF_SECOND_DIFFERENCES

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom, Graph
    from vehicled.symbolic.program import Program

    Stores = list[tuple[Atom, Atom]]
    """Of a kernel: symbol, and the expression that it becomes."""


MEMORY = 250.0
"""Samples over which a variance is averaged."""
SPIKE = 25.0
"""What is beyond five standard deviations is no noise, and counts as if it were there: so many variances."""


def number_axes(g: Graph, measured: Sequence[Atom]) -> Atom:
    """Which of the axes were measured, 1 or 0 each, as one number: zero where none was."""
    return sum((there * float(2**k) for k, there in enumerate(measured)), g.zero)


class NoiseFloor:
    """Variance of white noise from second differences of consecutive samples, component by component.

    A sensor that vibrates more than its settings say is found by itself, without a model (`maths.white_noise`).
    """

    def __init__(self, program: Program, name: str, size: int) -> None:
        """Arrays `name.least` (size,), variances of the settings: noise is never taken as less; and `name.floor`.

        Zero, the latter knows of no samples.
        """
        self._g = program.graph
        self.least = program.array(f"{name}.least", size)
        state = program.array(f"{name}.floor", 3 * size + 2)
        self._found, self._last, self._before = (state[i * size : (i + 1) * size] for i in range(3))
        self._count, self._pattern = state[-2:]
        """Samples that follow each other, and which components they had, as a number."""

    def take(self, value: Sequence[Atom], measured: Sequence[Atom]) -> tuple[list[Atom], Stores]:
        """Variance of a sample by component, from it and all before; samples follow each other regularly.

        `measured`: by component 1, or 0 where it was not measured; without any of them, all stays.
        """
        g = self._g
        pattern = number_axes(g, measured)
        count = g.where_less(g.abs(pattern - self._pattern), 0.5, self._count + 1.0, 1.0)
        variances, stores = [], []
        for x, x1, x2, mean, usual in zip(
            value, self._last, self._before, self._found, self.least, strict=True
        ):
            second = x - 2.0 * x1 + x2
            square = g.min(second * second * (1.0 / OF_SECOND_DIFFERENCES), SPIKE * g.max(mean, usual))
            found = g.where_less(2.5, count, mean + (square - mean) * (1.0 / MEMORY), mean)
            variances.append(g.max(usual, found))
            stores += [(mean, found), (x1, x), (x2, x1)]
        stores += [(self._count, count), (self._pattern, pattern)]
        return variances, [(old, g.where_less(0.5, pattern, new, old)) for old, new in stores]
