"""Noise of a sensor from its own samples: expressions of the car's program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vehicled.maths.white_noise import OF_SECOND_DIFFERENCES

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom, Graph
    from vehicled.symbolic.program import Program

    Stores = list[tuple[Atom, Atom]]
    """Stores of a kernel: a symbol, and the expression that it is set to."""


MEMORY = 250.0
"""Number of samples over which a variance is averaged."""
SPIKE = 25.0
"""Limit of a square in variances: a deviation beyond five standard deviations is no noise, and counts as
five."""


def number_axes(g: Graph, measured: Sequence[Atom]) -> Atom:
    """Code which axes were measured, each given as 1 or 0, as one number: zero if none was."""
    return sum((there * float(2**k) for k, there in enumerate(measured)), g.zero)


class NoiseFloor:
    """Variance of white noise from second differences of consecutive samples, component by component.

    Finds more vibration than configured from the sensor alone, without a model (`maths.white_noise`).
    """

    def __init__(self, program: Program, name: str, size: int) -> None:
        """Arrays `name.least` (size,): configured variances, the least ones that are used; and `name.floor`.

        Zero in the latter means that there have been no samples.
        """
        self._g = program.graph
        self.least = program.array(f"{name}.least", size)
        state = program.array(f"{name}.floor", 3 * size + 2)
        self._found, self._last, self._before = (state[i * size : (i + 1) * size] for i in range(3))
        self._count, self._pattern = state[-2:]
        """Number of consecutive samples, and which components they had, coded as a number."""

    def take(self, value: Sequence[Atom], measured: Sequence[Atom]) -> tuple[list[Atom], Stores]:
        """Variance of a sample by component, from it and all earlier ones, which come at regular times.

        `measured`: by component 1 if measured, else 0; if none is, nothing changes.
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
