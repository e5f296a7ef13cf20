"""Samples that come faster than their errors change: expressions of the car's program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vehicled.sources.imu.noise_floor import number_axes

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

CHANGES = 0.0025
"""s: time after which a sample's noise is independent; closer samples share it. A sensor's bandwidth,
vibrations, uneven roads and errors of the model correlate them, and a gateway may send the same sample
several times. The configured noise holds for rates up to the inverse of this time, 400 Hz."""
_MEMORY = 50.0
"""Number of samples over which their interval is averaged: on a bus they come in bursts."""
_LONGEST = 0.02
"""s: a longer interval is a pause."""
_LEAST = 0.01 * CHANGES
"""s: lower limit of the mean interval."""


class Oversampling:
    """Finds the factor of variances with which samples have as much information per second as at 400 Hz."""

    def __init__(self, program: Program, name: str) -> None:
        """Arrays `name` (2,), to be zero at the start, and `name.at` (1,), the time of the last sample."""
        self._g = program.graph
        self._shortfall, self._pattern = program.array(name, 2)
        """Shortfall of the mean interval below `CHANGES`, s; and which axes the last sample had, coded as a
        number."""
        (self._at,) = program.array(f"{name}.at", 1)

    def take(self, t: Atom, measured: Sequence[Atom]) -> tuple[Atom, Stores]:
        """Factor for a sample at t (s); `measured`: by axis 1 if measured, else 0."""
        g = self._g
        pattern = number_axes(g, measured)
        # Different axes in separate messages are not more samples of the same axis.
        is_same = g.where_less(g.abs(pattern - self._pattern), 0.5, 1.0, 0.0)
        interval, mean = t - self._at, CHANGES - is_same * self._shortfall
        counts = g.where_less(interval, 0.0, 0.0, is_same)
        mean = mean + counts * (g.min(interval, _LONGEST) - mean) * (1.0 / _MEMORY)
        factor = g.max(CHANGES / g.max(mean, _LEAST), 1.0)
        stores = [(self._shortfall, CHANGES - mean), (self._pattern, pattern), (self._at, t)]
        return factor, [(old, g.where_less(0.5, pattern, new, old)) for old, new in stores]
