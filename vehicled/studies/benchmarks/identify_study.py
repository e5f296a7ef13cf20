"""A front suspension whose parameters are identified: its base sets, motions, forces with noise, and wrong priors.

The mechanism and the questions are those of Mejía Calderón, "Metodología para la identificación de parámetros
dinámicos en sistemas mecánicos de baja movilidad" (2016), chapter 5; numbers of geometry and masses are our own,
as the source prints none. Forces are those of the mechanism itself, with noise of a share of each force's root mean
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
"""Bodies to which parameters of others are transferred in the reference set."""
NOISE = 0.05
"""Share of a force's root mean square that is its noise."""
PRIOR_ERRORS = (0.0, 0.2, 0.6, 1.0)
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 22, 25, 28, 30, 35, 40, 50, 60, 70, 83)
RELEVANT = 30
"""Number of parameters for which the motion is optimised, and by which orders are compared."""
FREQUENCY = 0.5
"""Frequency of the motions' first harmonic, Hz."""
SAMPLES = 100
_SEARCHED = 16
"""Number of samples of the motion during optimisation."""
_TRIES = 5
"""Number of noise realisations; results are medians over these."""


Observed = tuple[np.ndarray, np.ndarray]
"""W (N, f, 154) and τ (N, f) on the independent coordinates."""


@dataclass(frozen=True)
class Effort:
    """Amount of computation; a test may use less."""

    counts: Sequence[int] = COUNTS
    prior_errors: Sequence[float] = PRIOR_ERRORS
    tries: int = _TRIES
    samples: int = SAMPLES
    iterations: int = 5
    harmonics: int = 5


class Study:
    """The suspension with its motions and base sets; expensive parts are computed on first use."""

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
        """Ranges of travel left and right (m), spin left and right (rad), rack (m), with rates and accelerations."""
        self.drawn, self.validation = (
            [
                FourierTrajectory.draw(FREQUENCY, effort.harmonics, self.ranges, self.random)
                for _ in range(effort.tries)
            ]
            for _ in range(2)
        )
        """Trajectories for fitting, and others for validation."""
        self.reference = find_symbolic_base(self.mechanism, CONVERGENCE).base
        self.sets = {name: self.reference.change(self.get_independent(name)) for name in identify_sets.VALID}
        """The valid sets of the source, by name."""

    # -- base sets --------------------------------------------------------------------------------------------

    def get_independent(self, name: str) -> list[int]:
        """Indices of the independent parameters of a printed set."""
        names = self.regressor.names[: self.inertial]
        return identify_sets.complement(
            identify_sets.get_dependent(name, names), self.reference.null, self.inertial
        )

    @property
    def first(self) -> BaseSet:
        """The base set with the knuckles as convergence bodies."""
        return next(iter(self.sets.values()))

    def find_alone(self, name: str) -> list[str]:
        """Parameters that are dependent in a printed set although no transfer changes them.

        Each is a base parameter by itself in every set: a set in which one is dependent is not valid.
        """
        names = self.regressor.names[: self.inertial]
        combined = {*self.reference.dependent.tolist(), *self.reference.null.tolist()}
        combined |= {int(k) for k in self.reference.independent[np.any(self.reference.beta != 0.0, axis=1)]}
        return [names[k] for k in identify_sets.get_dependent(name, names) if k not in combined]

    # -- motions and equations --------------------------------------------------------------------------------

    def observe(self, trajectory: FourierTrajectory, samples: int) -> Observed:
        """One period with this number of samples; forces without noise."""
        t = trajectory.sample_times(samples)
        self.mechanism.q[:] = self.home
        motion = motions.solve_motion(self.mechanism, t, *trajectory.calc(t))
        return motions.observe(self.regressor, motion).on_coordinates()

    @cached_property
    def observed(self) -> dict[str, list[Observed]]:
        """Equations of random motions, one per try, for fitting and for validation.

        The optimised motion is added to them.
        """
        return {
            name: [self.observe(trajectory, self.effort.samples) for trajectory in trajectories]
            for name, trajectories in (("drawn", self.drawn), ("validation", self.validation))
        }

    def get_equations(self, motion: str, chosen: BaseSet, number: int = 0) -> Equations:
        """Equations of a motion, or of one of several, for base parameters; springs and dampers are known."""
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
        """Indices (RELEVANT,) of the base parameters of the first set that contribute most to a random motion."""
        return self.order(self.first, self.get_equations("drawn", self.first), self.true)[:RELEVANT]

    def optimise(self, progress: Callable[[int], None]) -> None:
        """Add a motion, optimised for the relevant parameters' condition; `progress` receives iterations."""
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
        """(150,) priors, each wrong by up to the share `error`."""
        return self.true * (1.0 + error * self.random.uniform(-1.0, 1.0, len(self.true)))

    def add_noise(self, forces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forces with noise, and its standard deviations (f,)."""
        deviations = NOISE * np.sqrt(np.mean(forces**2, axis=0))
        return forces + deviations * self.random.normal(size=forces.shape), deviations
