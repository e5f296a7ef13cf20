"""Plant noise of a step: how fast the errors of a running car become uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from vehicled.filter.error_dynamics import calc_free_share
from vehicled.filter.state_table import StateVector
from vehicled.filter.states import VELOCITY, WHEEL_SLIP
from vehicled.messages import WHEELS
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Program
from vehicled.vehicle.arrays import AHEAD, AX, AY, LEFT

_LEAST_COMMON, _GRIPPING = 1.0 / 16.0, 4.0
"""Share of the noise of the wheels' mean slip that is left without tyre forces, and acceleration, m/s², from which on
it is whole.

The mean slip follows from the sum of all tyre forces, which the acceleration shows, however they are shared among the
wheels. Differences of slips do not: radii, loads, and torques that nothing measures are in them."""


class ErrorNoise:
    """Densities of the noise, set from outside, and the covariance that they add within a step."""

    def __init__(self, program: Program, states: StateVector, is_forced: bool) -> None:
        """`is_forced`: whether unmodelled accelerations are states that act on the car."""
        self._graph, self._states, self._is_forced = program.graph, states, is_forced
        self.densities = program.array("density", len(states))
        """Spectral density of each state's white noise, without what `calc_density` adds."""
        (self._per_speed,) = program.array("lateral_per_speed", 1)

    def calc_density(self, i: int, pose: Sequence[Atom]) -> Atom:
        """Spectral density of the white noise on a state, at a pose.

        That of the lateral velocity grows with the speed, unless the unmodelled force is a state that acts on the
        car. That of wheel slip grows with the speed while it is low: on sticking tyres wheels only roll.
        """
        g, s, density, ahead = self._graph, self._states, self.densities[i], pose[AHEAD]
        if i in s.places(WHEEL_SLIP):
            return density * calc_free_share(g, ahead, pose[LEFT])
        if self._is_forced or i != s.index(VELOCITY, "left"):
            return density
        root = g.sqrt(density) + self._per_speed * g.abs(ahead)
        return root * root

    def calc_covariance(self, h: Atom, pose: Sequence[Atom]) -> dict[tuple[int, int], Atom]:
        """Covariance that a step of `h` (s) at a pose adds: its diagonal, then elements above it, by row and column.

        Wheel slips are correlated such that the variance of their mean is reduced.
        """
        g, noise = self._graph, [h * self.calc_density(i, pose) for i in range(len(self._states))]
        force = (pose[AX] * pose[AX] + pose[AY] * pose[AY]) * (1.0 / _GRIPPING**2)
        share = (1.0 - g.min(_LEAST_COMMON + force, 1.0)) * (1.0 / len(WHEELS))
        slips = self._states.places(WHEEL_SLIP)
        found = {(i, i): q * (1.0 - share) if i in slips else q for i, q in enumerate(noise)}
        return found | {(i, j): -(g.sqrt(noise[i] * noise[j]) * share) for i, j in combinations(slips, 2)}
