"""Identification of a front suspension: what can be told, and what a model of few parameters predicts.

The mechanism and the questions are those of Mejía Calderón, "Metodología para la identificación de parámetros dinámicos
en sistemas mecánicos de baja movilidad" (2016), chapter 5; numbers of geometry and masses are our own, as the source
prints none. Forces are those of the mechanism itself, with noise of a share of each one's root mean square added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vehicled.errors import UsageError
from vehicled.identification import base, excitation, extended, feasible, least_squares, motions, relevance, transfers
from vehicled.identification.base import BaseSet
from vehicled.identification.excitation import FourierTrajectory, Ranges
from vehicled.identification.regressors import Regressor, spring_columns
from vehicled.identification.relevance import Equations
from vehicled.multibody.mechanism import Mechanism

MECHANISM = "front_suspension"
SIDES = ("left", "right")
CONVERGENCE = {
    "T1 knuckles": ("knuckle",),
    "T2 lower wishbones": ("lower_wishbone",),
    "T3 both wishbones": ("lower_wishbone", "upper_wishbone"),
}
"""Bodies that others are transferred to, on either side; the source's names."""
DRAWN = "T4 drawn, valid"
REJECTED = "T5 drawn"
NOISE = 0.05
"""Share of a force's root mean square."""
PRIOR_ERRORS = (0.0, 0.2, 0.6, 1.0)
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 22, 25, 28, 30, 35, 40, 50, 60, 70, 83)
RELEVANT = 30
"""Parameters that the motion is optimised for, and that orders are compared by."""
SAMPLES = 200
_SEARCHED = 16
"""Samples of the motion while it is optimised."""
_TRIES = 5
"""Of noise; medians count."""
_DIGITS = 50


@dataclass(frozen=True)
class Effort:
    """How much is computed; a test may ask for less."""

    counts: Sequence[int] = COUNTS
    prior_errors: Sequence[float] = PRIOR_ERRORS
    tries: int = _TRIES
    samples: int = SAMPLES
    iterations: int = 6
    harmonics: int = 4


class Study:
    """The suspension with its motions and base sets; what takes time is made when it is first asked for."""

    def __init__(self, effort: Effort = Effort(), seed: int = 1):  # noqa: B008
        self.effort = effort
        self.random = np.random.default_rng(seed)
        self.mechanism = Mechanism.load(MECHANISM)
        self.regressor = Regressor(self.mechanism, spring_columns(self.mechanism))
        self.inertial = self.regressor.inertial
        self.true = self.regressor.values[: self.inertial]
        self._home = self.mechanism.q.copy()
        z = self.mechanism.z
        reach = np.array([0.05, 0.05, 12.0, 12.0, 0.05])
        self.ranges = Ranges(
            z - reach,
            z + reach,
            np.array([0.6, 0.6, 40.0, 40.0, 0.5]),
            np.array([15.0, 15.0, 60.0, 60.0, 12.0]),
        )
        """Of travel left and right (m), spin left and right (rad), rack (m), with rates and accelerations."""
        self.start, self.validation = (
            FourierTrajectory.draw(0.5, effort.harmonics, self.ranges, self.random) for _ in range(2)
        )
        self.sets = self._make_sets()
        self.rejection = self._draw_invalid()

    # -- base sets --------------------------------------------------------------------------------------------

    def _make_sets(self) -> dict[str, BaseSet]:
        sets = {}
        for name, bodies in CONVERGENCE.items():
            convergence = [f"{b}_{side}" for side in SIDES for b in bodies]
            sets[name] = transfers.find_symbolic_base(self.mechanism, convergence).base
        first = next(iter(sets.values()))
        sets[DRAWN] = first.change(self._draw_valid(first))
        return sets

    def _draw_valid(self, first: BaseSet) -> list[int]:
        """Parameters in a random order, each that is independent of those before it."""
        matrix, span = first.matrix, np.zeros((len(first.independent), 0))
        chosen: list[int] = []
        for k in self.random.permutation(np.concatenate([first.independent, first.dependent])):
            column = matrix[:, k] / np.linalg.norm(matrix[:, k])
            left = column - span @ (span.T @ column)
            left -= span @ (span.T @ left)
            if np.linalg.norm(left) > 1e-2:
                span = np.column_stack([span, left / np.linalg.norm(left)])
                chosen.append(int(k))
        return chosen

    def _draw_invalid(self) -> str:
        """Why a choice that takes parameters at random is no base set."""
        first = self.sets[next(iter(self.sets))]
        pool = np.concatenate([first.independent, first.dependent])
        while True:
            try:
                first.change(self.random.choice(pool, len(first.independent), replace=False))
            except UsageError as error:
                return str(error)

    # -- motions and equations --------------------------------------------------------------------------------

    def observe(self, trajectory: FourierTrajectory, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """W (N, f, 154) and τ (N, f) on the independent coordinates."""
        t = trajectory.sample_times(samples)
        self.mechanism.q[:] = self._home
        motion = motions.solve_motion(self.mechanism, t, *trajectory.calc(t))
        return motions.observe(self.regressor, motion).on_coordinates()

    def reduce(self, observed: tuple[np.ndarray, np.ndarray], chosen: BaseSet) -> Equations:
        """Of base parameters, springs and dampers taken as known."""
        w, forces = observed
        known = w[..., self.inertial :] @ self.regressor.values[self.inertial :]
        return Equations(chosen.reduce(w[..., : self.inertial]), forces - known)

    @cached_property
    def observed(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Equations of the motion to begin with, and of the one to validate with."""
        return {
            "start": self.observe(self.start, self.effort.samples),
            "validation": self.observe(self.validation, self.effort.samples),
        }

    def order(self, chosen: BaseSet, equations: Equations, prior: np.ndarray) -> np.ndarray:
        contributions = relevance.calc_contributions(
            equations.rows, chosen.combine(prior), equations.forces.ravel()
        )
        return relevance.order_by_contribution(contributions)

    def optimise(self, progress: Callable[[int], None]) -> FourierTrajectory:
        """For the condition of the parameters that contribute most in the first set."""
        chosen = next(iter(self.sets.values()))
        kept = self.order(chosen, self.reduce(self.observed["start"], chosen), self.true)[:RELEVANT]

        def equations(trajectory: FourierTrajectory) -> np.ndarray:
            return self.reduce(self.observe(trajectory, _SEARCHED), chosen).rows[:, kept]

        return excitation.optimise(
            self.start, self.ranges, equations, "condition", self.effort.iterations, progress
        )

    def draw_priors(self, error: float) -> np.ndarray:
        """(150,) each wrong by up to that share."""
        return self.true * (1.0 + error * self.random.uniform(-1.0, 1.0, len(self.true)))

    def add_noise(self, forces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forces with noise, and its standard deviations (f,)."""
        deviations = NOISE * np.sqrt(np.mean(forces**2, axis=0))
        return forces + deviations * self.random.normal(size=forces.shape), deviations


def bench_identify(study: Study, progress: Callable[[float, str], None]) -> dict[str, Any]:
    """The contents of `vehicled bench identify --json`; `progress` is told the share that is done."""
    progress(0.0, "rank")
    first = next(iter(study.sets.values()))
    found: dict[str, Any] = {
        "parameters": study.inertial,
        "with_springs": len(study.regressor.names),
        "null": len(first.null),
        "remaining": study.inertial - len(first.null),
        "base": len(first.independent),
        "ranks": _bench_ranks(study, lambda share: progress(0.3 * share, "rank")),
    }
    progress(0.3, "motion")
    optimised = study.optimise(lambda k: progress(0.3 + 0.4 * k / study.effort.iterations, "motion"))
    study.observed["optimised"] = study.observe(optimised, study.effort.samples)
    progress(0.7, "models")
    found["excitation"] = _bench_excitation(study)
    found["sets"] = _bench_sets(study)
    found["studies"] = _bench_studies(study, lambda share: progress(0.7 + 0.25 * share, "models"))
    progress(0.95, "feasible")
    found["feasible"] = _bench_feasible(study)
    found["springs"] = _bench_springs(study)
    progress(1.0, "")
    return found


def _bench_ranks(study: Study, progress: Callable[[float], None]) -> dict[str, Any]:
    """By tolerance in double precision, of several motions, and in extended precision."""
    mechanism, f = study.mechanism, len(study.mechanism.independent)
    states = -(-study.inertial // f) + 4
    reach = 0.5 * (study.ranges.high - study.ranges.low)
    shares = study.random.uniform(-1.0, 1.0, (3, states, f))
    centre = 0.5 * (study.ranges.high + study.ranges.low)
    # Wheels turn by an eighth at most, so that their angles do not matter more than all else.
    z = centre + shares[0] * np.minimum(reach, 0.8)
    assert study.ranges.rate is not None and study.ranges.acceleration is not None
    rates = (shares[1] * study.ranges.rate, shares[2] * study.ranges.acceleration)
    blocks, q = [], mechanism.q
    for k in range(states):
        q[:] = study._home
        one = motions.solve_motion(mechanism, np.zeros(1), z[k : k + 1], *(r[k : k + 1] for r in rates))
        one.put(mechanism, 0)
        blocks.append(extended.calc_extended_equations(mechanism, _DIGITS))
        progress((k + 1) / (states + 6))
    rank = extended.calc_rank(np.concatenate(blocks), _DIGITS)
    q[:] = study._home
    exact = motions.solve_motion(mechanism, np.zeros(states), z, *rates)
    noise = 1e-6
    loose = motions.Motion(
        exact.t, *(a + noise * study.random.normal(size=a.shape) for a in (exact.q, exact.qd, exact.qdd))
    )
    doubles = {
        "any states": motions.observe(study.regressor, exact).stacked,
        "loose kinematics": motions.observe(study.regressor, loose).stacked,
        "projected": motions.observe(study.regressor, motions.project_motion(mechanism, loose)).stacked,
    }
    doubles |= {name: w.reshape(-1, w.shape[-1]) for name, (w, _) in study.observed.items()}
    doubles = {name: w[:, : study.inertial] for name, w in doubles.items()}
    progress(1.0)
    return {
        "extended": rank.rank,
        "digits": _DIGITS,
        "pivots": [float(p) for p in rank.pivots[: rank.rank + 5]],
        "double": {name: base.calc_double_rank(w) for name, w in doubles.items()},
        "double_null": {name: len(base.find_null(w)) for name, w in doubles.items()},
        "singular_values": [float(s) for s in base.calc_singular_values(doubles["any states"])],
    }


def _bench_excitation(study: Study) -> dict[str, Any]:
    chosen = next(iter(study.sets.values()))
    kept = study.order(chosen, study.reduce(study.observed["start"], chosen), study.true)[:RELEVANT]
    conditions = {}
    for name in ("start", "optimised"):
        w = study.reduce(study.observed[name], chosen).rows
        conditions[name] = float(np.linalg.cond(w[:, kept]))
    return {"relevant": RELEVANT, "condition": conditions}


def _bench_sets(study: Study) -> list[dict[str, Any]]:
    rows = []
    first = next(iter(study.sets.values()))
    w = study.observed["optimised"][0][..., : study.inertial].reshape(-1, study.inertial)
    scale = np.abs(w).max()
    for name, chosen in study.sets.items():
        rows.append(
            {
                "set": name,
                "valid": True,
                "distance": base.calc_space_distance(first, chosen),
                "residual": float(np.abs(w @ chosen.calc_null_space()).max() / scale),
                "condition": float(np.linalg.cond(chosen.reduce(w))),
            }
        )
    return [*rows, {"set": REJECTED, "valid": False, "reason": study.rejection}]


def _bench_studies(study: Study, progress: Callable[[float], None]) -> list[dict[str, Any]]:
    """Prediction errors over the number of parameters: by set, error of the priors, noise of the forces."""
    rows, effort = [], study.effort
    cases = [(name, error) for name in study.sets for error in effort.prior_errors]
    for done, (name, error) in enumerate(cases):
        chosen = study.sets[name]
        fitted, validation = (study.reduce(study.observed[k], chosen) for k in ("optimised", "validation"))
        best = study.order(chosen, fitted, study.true)
        for noise in (0.0, NOISE):
            for weighted in (False, True) if noise else (False,):
                tries = []
                overlaps = []
                for _ in range(effort.tries if noise or error else 1):
                    order = study.order(chosen, fitted, study.draw_priors(error))
                    overlaps.append(relevance.calc_overlap(best, order, RELEVANT))
                    forces, deviations = study.add_noise(fitted.forces)
                    noisy = Equations(fitted.w, forces) if noise else fitted
                    tries.append(
                        relevance.reduce_models(
                            order, effort.counts, noisy, validation, deviations if weighted else None
                        )
                    )
                rows.append(
                    {
                        "set": name,
                        "prior_error": error,
                        "force_noise": noise,
                        "weighted": weighted,
                        "overlap": float(np.median(overlaps)),
                        "models": _medians(tries),
                    }
                )
        progress((done + 1) / len(cases))
    return rows


def _medians(tries: Sequence[Sequence[relevance.ReducedModel]]) -> list[dict[str, float]]:
    by_count: dict[int, list[relevance.ReducedModel]] = {}
    for models in tries:
        for model in models:
            by_count.setdefault(len(model.kept), []).append(model)
    return [
        {
            "count": count,
            **{
                key: float(np.median([getattr(m, key) for m in models]))
                for key in ("fitted_error", "validation_error", "condition")
            },
        }
        for count, models in sorted(by_count.items())
    ]


def _bench_feasible(study: Study) -> list[dict[str, Any]]:
    """All 154 parameters at once, kept such that bodies could have them, with noise and priors of some error."""
    w, forces = study.observed["optimised"]
    w_validation, expected = study.observed["validation"]
    p, rows = w.shape[-1], []
    springs = study.regressor.values[study.inertial :]
    for error in study.effort.prior_errors:
        noisy, deviations = study.add_noise(forces)
        inertial = study.draw_priors(error)
        # A mass of nothing is no prior, whatever its error.
        masses = [k for k, name in enumerate(study.regressor.names) if name.endswith(".m")]
        inertial[masses] = np.maximum(inertial[masses], 0.1 * study.true[masses])
        prior = np.concatenate([inertial, springs])
        rows_deviations = np.tile(deviations, len(w))
        found = feasible.estimate_feasible(
            w.reshape(-1, p), noisy.ravel(), study.regressor.sizes, prior, rows_deviations, trust=0.3
        )
        rows.append(
            {
                "prior_error": error,
                "prior_infeasible": len(feasible.find_infeasible(prior, study.regressor.sizes)),
                "infeasible": len(feasible.find_infeasible(found.values, study.regressor.sizes)),
                "prior_validation_error": least_squares.calc_prediction_error(w_validation @ prior, expected),
                "validation_error": least_squares.calc_prediction_error(
                    w_validation @ found.values, expected
                ),
            }
        )
    return rows


def _bench_springs(study: Study) -> list[dict[str, Any]]:
    """Standard deviations of stiffness and damping estimated beside the relevant parameters, with noise."""
    chosen = next(iter(study.sets.values()))
    w, forces = study.observed["optimised"]
    kept = study.order(chosen, study.reduce(study.observed["optimised"], chosen), study.true)[:20]
    columns = [*chosen.independent[kept], *range(study.inertial, w.shape[-1])]
    noisy, deviations = study.add_noise(forces)
    found = least_squares.estimate(
        w[..., columns].reshape(-1, len(columns)), noisy.ravel(), np.tile(deviations, len(w))
    )
    true = study.regressor.values[study.inertial :]
    names = study.regressor.names[study.inertial :]
    return [
        {"name": name, "value": float(v), "estimate": float(e), "deviation": float(d)}
        for name, v, e, d in zip(
            names, true, found.values[len(kept) :], found.deviations[len(kept) :], strict=True
        )
    ]
