"""Errors of the model that change within seconds, as innovations show them: expressions of the car's program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vehicled.sources.imu.noise_floor import MEMORY, SPIKE

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program

_MOST = 25.0
"""Densities grow by no more than this factor, so that a sensor that fails is not followed at once: noise by five."""


class ExcessVariance:
    """Variance by which innovations exceed what the filter expects of them (Mehra 1970): E[ν²] − H P Hᵀ − R.

    White, as the filter takes it to be. It follows what changes within seconds, such as the roughness of a road.
    """

    def __init__(self, program: Program, name: str) -> None:
        """Array `name` (1,): zero, there have been no innovations."""
        self._g = program.graph
        (self._found,) = program.array(name, 1)
        self.variance = self._g.max(self._found, 0.0)
        """To be added to R."""

    def take(self, innovation: Atom, expected: Atom) -> Stores:
        """An innovation and its variance, S, to which `variance` had been added."""
        square = self._g.min(innovation * innovation, SPIKE * expected)
        more = square - (expected - self.variance) - self._found
        return [(self._found, self._found + more * (1.0 / MEMORY))]


class ExcessDensity:
    """Density of white noise on the rate of a state, by the innovations of a sensor that measures the state.

    Consecutive innovations are not correlated where process and sensor are as noisy as expected. A noisier process
    makes their product positive, by (1 − K) times the variance that the state has in excess; a noisier sensor, such
    as one that vibrates, makes it negative (Mehra, 1970). What an innovation corrects, K ν, weighs it.
    """

    def __init__(self, program: Program, name: str) -> None:
        """Array `name` (2,): the density by which the process has more noise than it has at least, unit²/s.

        And the last innovation. Zero, there have been none.
        """
        self._g = program.graph
        self.density, self._before = program.array(name, 2)

    def take(
        self, innovation: Atom, expected: Atom, noise: Atom, interval: Atom, least: Atom, follows: Atom
    ) -> tuple[Atom, Stores]:
        """An innovation, its variance S and the part of it that is the sensor's noise; s since the one before.

        `least`: density that the process has in any case; `follows`: 1 where the innovation follows the one before,
        or 0: then all stays. Returns the density.
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
