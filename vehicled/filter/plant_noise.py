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
from vehicled.vehicle.arrays import AHEAD, LEFT, YAW_RATE

_LEAST_COMMON, _SLIPPING = 1.0 / 16.0, 0.01
"""Share of the noise of the wheels' mean slip that is left while wheels roll, and slip from which on it is whole.

The mean slip follows from the sum of all tyre forces, which the acceleration shows, however they are shared among the
wheels. Differences of slips do not: radii, loads, and torques that nothing measures are in them. Nor does the mean
where the simulated wheels slip much, as with torque on ice."""
_LEAST_SQUARE = 1e-3
"""(rad/s)²: so that the slip of wheels at rest is finite."""


class ErrorNoise:
    """Densities of the noise, set from outside, and the covariance that they add within a step."""

    def __init__(
        self, program: Program, states: StateVector, rolling: Sequence[Atom], is_forced: bool
    ) -> None:
        """`rolling`: (8,) derivatives of each rolling wheel's rate by forward speed (rad/m) and by yaw rate.

        `is_forced`: whether unmodelled accelerations are states that act on the car.
        """
        self._graph, self._states, self._is_forced = program.graph, states, is_forced
        self._rolling, (_, self._rates) = rolling, program.lanes("now_wheels")
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

        Wheel slips, whose densities are equal, are correlated such that the variance of their mean is reduced.
        """
        g, noise = self._graph, [h * self.calc_density(i, pose) for i in range(len(self._states))]
        common = g.min(_LEAST_COMMON + self._calc_square_slip(pose) * (1.0 / _SLIPPING**2), 1.0)
        share = (1.0 - common) * (1.0 / len(WHEELS))
        slips = self._states.places(WHEEL_SLIP)
        found = {(i, i): q * (1.0 - share) if i in slips else q for i, q in enumerate(noise)}
        return found | {(i, j): -(noise[i] * share) for i, j in combinations(slips, 2)}

    def _calc_square_slip(self, pose: Sequence[Atom]) -> Atom:
        """Mean square of the wheels' slips, relative to the rates of rolling."""
        rolled = slipped = self._graph.zero
        for k, rate in enumerate(self._rates):
            by_speed, by_turning = self._rolling[2 * k : 2 * k + 2]
            along = by_speed * pose[AHEAD]
            slip = rate - along - by_turning * pose[YAW_RATE]
            rolled, slipped = rolled + along * along, slipped + slip * slip
        return slipped / (rolled + _LEAST_SQUARE)
