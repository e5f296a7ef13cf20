"""A front suspension whose parameters are identified: its base sets, motions, forces with noise, and wrong priors.

The mechanism and the questions are those of Mejía Calderón, "Metodología para la identificación de parámetros
dinámicos en sistemas mecánicos de baja movilidad" (2016), chapter 5; numbers of geometry and masses are our own,
as the source prints none. Forces are those of the mechanism itself, with noise of a share of each one's root mean
square added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vehicled.identification import excitation, motions, relevance
from vehicled.identification.base import BaseSet
from vehicled.identification.excitation import FourierTrajectory, Ranges
from vehicled.identification.regressors import Regressor, spring_columns
from vehicled.identification.relevance import Equations
from vehicled.identification.symbolic_base import find_symbolic_base
from vehicled.multibody.mechanism import Mechanism
from vehicled.studies.benchmarks import identify_sets

MECHANISM = "front_suspension"
CONVERGENCE = ("knuckle_left", "knuckle_right")
"""Bodies that others are transferred to in the reference set."""
NOISE = 0.05
"""Share of a force's root mean square."""
PRIOR_ERRORS = (0.0, 0.2, 0.6, 1.0)
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 22, 25, 28, 30, 35, 40, 50, 60, 70, 83)
RELEVANT = 30
"""Parameters that the motion is optimised for, and that orders are compared by."""
FREQUENCY = 0.5
"""Hz, of the motions' first harmonic."""
SAMPLES = 100
_SEARCHED = 16
"""Samples of the motion while it is optimised."""
_TRIES = 5
"""Draws of noise; results are medians over these."""


Observed = tuple[np.ndarray, np.ndarray]
"""W (N, f, 154) and τ (N, f) on the independent coordinates."""


@dataclass(frozen=True)
class Effort:
    """How much is computed; a test may ask for less."""

    counts: Sequence[int] = COUNTS
    prior_errors: Sequence[float] = PRIOR_ERRORS
    tries: int = _TRIES
    samples: int = SAMPLES
    iterations: int = 5
    harmonics: int = 5


class Study:
    """The suspension with its motions and base sets; parts that take time are made on first use."""

    def __init__(self, effort: Effort = Effort(), seed: int = 1) -> None:
        self.effort = effort
        self.random = np.random.default_rng(seed)
        self.mechanism = Mechanism.load(MECHANISM)
        self.regressor = Regressor(self.mechanism, spring_columns(self.mechanism))
        self.inertial = self.regressor.inertial
        self.true = self.regressor.values[: self.inertial]
        self.home = self.mechanism.q.copy()
        """(n,) q of the position as described."""
        z = self.mechanism.z
        reach = np.array([0.05, 0.05, 12.0, 12.0, 0.05])
        self.ranges = Ranges(
            z - reach,
            z + reach,
            np.array([0.6, 0.6, 40.0, 40.0, 0.5]),
            np.array([15.0, 15.0, 60.0, 60.0, 12.0]),
        )
        """Of travel left and right (m), spin left and right (rad), rack (m), with rates and accelerations."""
        self.drawn, self.validation = (
            [
                FourierTrajectory.draw(FREQUENCY, effort.harmonics, self.ranges, self.random)
                for _ in range(effort.tries)
            ]
            for _ in range(2)
        )
        """Trajectories to fit to, and others to validate with."""
        self.reference = find_symbolic_base(self.mechanism, CONVERGENCE).base
        self.sets = {name: self.reference.change(self.get_independent(name)) for name in identify_sets.VALID}
        """The valid ones of the source, by name."""

    # -- base sets --------------------------------------------------------------------------------------------

    def get_independent(self, name: str) -> list[int]:
        """Indices of the independent parameters of a printed set."""
        names = self.regressor.names[: self.inertial]
        return identify_sets.complement(
            identify_sets.get_dependent(name, names), self.reference.null, self.inertial
        )

    @property
    def first(self) -> BaseSet:
        """That with the knuckles as convergence bodies."""
        return next(iter(self.sets.values()))

    def find_alone(self, name: str) -> list[str]:
        """Parameters that a printed set has as dependent, though no transfer changes them.

        Each is a base parameter by itself in every set: with one of them dependent a set is not valid.
        """
        names = self.regressor.names[: self.inertial]
        combined = {*self.reference.dependent.tolist(), *self.reference.null.tolist()}
        combined |= {int(k) for k in self.reference.independent[np.any(self.reference.beta != 0.0, axis=1)]}
        return [names[k] for k in identify_sets.get_dependent(name, names) if k not in combined]

    # -- motions and equations --------------------------------------------------------------------------------

    def observe(self, trajectory: FourierTrajectory, samples: int) -> Observed:
        """One period in so many samples, forces without noise."""
        t = trajectory.sample_times(samples)
        self.mechanism.q[:] = self.home
        motion = motions.solve_motion(self.mechanism, t, *trajectory.calc(t))
        return motions.observe(self.regressor, motion).on_coordinates()

    @cached_property
    def observed(self) -> dict[str, list[Observed]]:
        """Equations of motions drawn at random, as many as tries, to fit to and to validate with.

        The optimised motion joins them.
        """
        return {
            name: [self.observe(trajectory, self.effort.samples) for trajectory in trajectories]
            for name, trajectories in (("drawn", self.drawn), ("validation", self.validation))
        }

    def get_equations(self, motion: str, chosen: BaseSet, number: int = 0) -> Equations:
        """Equations of a motion, or the next of so many, for base parameters; springs and dampers are known."""
        of_motion = self.observed[motion]
        w, forces = of_motion[number % len(of_motion)]
        known = w[..., self.inertial :] @ self.regressor.values[self.inertial :]
        return Equations(chosen.reduce(w[..., : self.inertial]), forces - known)

    def order(self, chosen: BaseSet, equations: Equations, prior: np.ndarray) -> np.ndarray:
        """(r,) indices of base parameters, those that contribute most by a prior (150,) first."""
        contributions = relevance.calc_contributions(
            equations.rows, chosen.combine(prior), equations.forces.ravel()
        )
        return relevance.order_by_contribution(contributions)

    def find_relevant(self) -> np.ndarray:
        """Indices (RELEVANT,) of those base parameters of the first set that contribute most to a random motion."""
        return self.order(self.first, self.get_equations("drawn", self.first), self.true)[:RELEVANT]

    def optimise(self, progress: Callable[[int], None]) -> None:
        """Add to `observed` a motion for the condition of the relevant parameters; `progress` receives iterations."""
        kept = self.find_relevant()

        def equations(trajectory: FourierTrajectory) -> np.ndarray:
            w, _ = self.observe(trajectory, _SEARCHED)
            return w[..., self.first.independent[kept]].reshape(-1, len(kept))

        best = excitation.optimise(
            self.drawn[0], self.ranges, equations, "condition", self.effort.iterations, progress
        )
        self.optimised = best
        self.observed["optimised"] = [self.observe(best, self.effort.samples)]

    def draw_priors(self, error: float) -> np.ndarray:
        """(150,) each wrong by up to that share."""
        return self.true * (1.0 + error * self.random.uniform(-1.0, 1.0, len(self.true)))

    def add_noise(self, forces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forces with noise, and its standard deviations (f,)."""
        deviations = NOISE * np.sqrt(np.mean(forces**2, axis=0))
        return forces + deviations * self.random.normal(size=forces.shape), deviations
