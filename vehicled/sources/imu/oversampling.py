"""Samples that come more often than what is wrong in them changes: expressions of the car's program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vehicled.sources.imu.noise_floor import number_axes

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

CHANGES = 0.0025
"""s: noise of a sample is new after it; closer samples share it. A sensor's bandwidth, vibrations, uneven roads and
what the model lacks correlate them, and a gateway may send the same sample several times. The noise in the
configuration holds for rates up to its inverse, 400 Hz."""
_MEMORY = 50.0
"""Samples over which the interval between them is averaged: those of a bus come in bursts."""
_LONGEST = 0.02
"""s: what is longer is a pause."""
_LEAST = 0.01 * CHANGES
"""s: of the mean interval."""


class Oversampling:
    """Finds by which factor to increase variances of samples, so that they tell as much per second as at 400 Hz."""

    def __init__(self, program: Program, name: str) -> None:
        """Arrays `name` (2,), to be zero at the start, and `name.at` (1,), the time of the last sample."""
        self._g = program.graph
        self._shortfall, self._pattern = program.array(name, 2)
        """By how much the mean interval is less than `CHANGES`, s; which axes the last sample had, as a number."""
        (self._at,) = program.array(f"{name}.at", 1)

    def take(self, t: Atom, measured: Sequence[Atom]) -> tuple[Atom, Stores]:
        """The factor for a sample at t (s); `measured`: by axis 1, or 0 where it was not measured."""
        g = self._g
        pattern = number_axes(g, measured)
        # Axes that come in messages of their own are not more samples of the same axis.
        is_same = g.where_less(g.abs(pattern - self._pattern), 0.5, 1.0, 0.0)
        interval, mean = t - self._at, CHANGES - is_same * self._shortfall
        counts = g.where_less(interval, 0.0, 0.0, is_same)
        mean = mean + counts * (g.min(interval, _LONGEST) - mean) * (1.0 / _MEMORY)
        factor = g.max(CHANGES / g.max(mean, _LEAST), 1.0)
        stores = [(self._shortfall, CHANGES - mean), (self._pattern, pattern), (self._at, t)]
        return factor, [(old, g.where_less(0.5, pattern, new, old)) for old, new in stores]
