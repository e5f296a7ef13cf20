"""Errors of the model that change within seconds, found from innovations: expressions of the car's program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vehicled.sources.imu.noise_floor import MEMORY, SPIKE

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

_MOST = 25.0
"""Largest factor by which a density grows, so that the filter does not follow a failing sensor at once: noise
grows by five."""


class ExcessVariance:
    """Excess of the innovations' variance over the filter's expectation (Mehra 1970): E[ν²] − H P Hᵀ − R.

    The filter treats it as white noise. It follows changes within seconds, such as those of a road's
    roughness.
    """

    def __init__(self, program: Program, name: str) -> None:
        """Array `name` (1,): zero means that there have been no innovations."""
        self._g = program.graph
        (self._found,) = program.array(name, 1)
        self.variance = self._g.max(self._found, 0.0)
        """To be added to R."""

    def take(self, innovation: Atom, expected: Atom) -> Stores:
        """Take an innovation and its variance S, which includes `variance`."""
        square = self._g.min(innovation * innovation, SPIKE * expected)
        more = square - (expected - self.variance) - self._found
        return [(self._found, self._found + more * (1.0 / MEMORY))]


class ExcessDensity:
    """Density of white noise on the rate of a state, found from innovations of a sensor that measures the state.

    Consecutive innovations are uncorrelated if process and sensor are as noisy as expected. A noisier process
    makes their product positive, by (1 − K) times the excess variance of the state; a noisier sensor, such as
    one that vibrates, makes it negative (Mehra, 1970). Products are weighted by the corrections K ν.
    """

    def __init__(self, program: Program, name: str) -> None:
        """Array `name` (2,): excess density of the process over its least one, unit²/s, and the last innovation.

        Zero means that there have been no innovations.
        """
        self._g = program.graph
        self.density, self._before = program.array(name, 2)

    def take(
        self, innovation: Atom, expected: Atom, noise: Atom, interval: Atom, least: Atom, follows: Atom
    ) -> tuple[Atom, Stores]:
        """Take an innovation, its variance S, the sensor's noise in that, and the time since the last one, s.

        `least`: density that the process has in any case; `follows`: 1 if the innovation directly follows the
        last one; with 0 nothing changes. Returns the density.
        """
        g = self._g
        gain = g.max(expected - noise, 0.0) / expected
        most = SPIKE * expected
        product = g.clamp(innovation * self._before, -most, most)
        more = self.density + gain * gain * product / interval * (1.0 / MEMORY)
        density = g.clamp(more, 0.0, _MOST * least)
        found = g.where_less(0.5, follows, density, self.density)
        return found, [
            (self.density, found),
            (self._before, g.where_less(0.5, follows, innovation, self._before)),
        ]
