"""Identification of a front suspension: base parameters, and the predictions of models of few parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vehicled.errors import UsageError
from vehicled.identification import base, extended, feasible, least_squares, motions, relevance
from vehicled.identification.relevance import Equations
from vehicled.studies.benchmarks.identify_sets import REJECTED
from vehicled.studies.benchmarks.identify_study import NOISE, RELEVANT, Study
from vehicled.studies.benchmarks.identify_tables import bench_tables

MOTIONS = ("drawn", "optimised")
_DIGITS = 50


def bench_identify(study: Study, progress: Callable[[float, str], None]) -> dict[str, Any]:
    """The contents of `vehicled bench identify --json`; `progress` receives the completed share."""
    progress(0.0, "rank")
    first = study.first
    exact = _calc_exact(study, lambda share: progress(0.28 * share, "rank"))
    found: dict[str, Any] = {
        "parameters": study.inertial,
        "with_springs": len(study.regressor.names),
        "null": len(first.null),
        "remaining": study.inertial - len(first.null),
        "base": len(first.independent),
        "ranks": _bench_ranks(study, exact),
    }
    progress(0.3, "motion")
    study.optimise(lambda k: progress(0.3 + 0.4 * k / study.effort.iterations, "motion"))
    progress(0.7, "models")
    found["excitation"] = _bench_excitation(study)
    found["sets"] = _bench_sets(study, exact)
    found["studies"] = _bench_studies(study, lambda share: progress(0.7 + 0.25 * share, "models"))
    progress(0.95, "feasible")
    found["feasible"] = _bench_feasible(study)
    found["springs"] = _bench_springs(study)
    found |= bench_tables(study)
    progress(1.0, "")
    return found


@dataclass(frozen=True)
class _Exact:
    """Equations of random states, in extended precision."""

    w: np.ndarray
    """(rows, p) decimal numbers."""
    base: extended.ExtendedBase
    z: np.ndarray
    """(states, f), with their rates and accelerations."""
    rates: tuple[np.ndarray, np.ndarray]

    def calc_rank(self, columns: Sequence[int]) -> int:
        """Rank of some columns."""
        return extended.find_extended_base(self.w[:, columns], _DIGITS).rank


def _calc_exact(study: Study, progress: Callable[[float], None]) -> _Exact:
    mechanism, f = study.mechanism, len(study.mechanism.independent)
    # More equations than parameters.
    states = (study.inertial - len(study.first.null)) // f + 2
    reach = 0.5 * (study.ranges.high - study.ranges.low)
    shares = study.random.uniform(-1.0, 1.0, (3, states, f))
    centre = 0.5 * (study.ranges.high + study.ranges.low)
    # Wheels rotate by at most an eighth of a turn, so that their angles do not dominate.
    z = centre + shares[0] * np.minimum(reach, 0.8)
    assert study.ranges.rate is not None
    assert study.ranges.acceleration is not None
    rates = (shares[1] * study.ranges.rate, shares[2] * study.ranges.acceleration)
    blocks, q = [], mechanism.q
    for k in range(states):
        q[:] = study.home
        one = motions.solve_motion(mechanism, np.zeros(1), z[k : k + 1], *(r[k : k + 1] for r in rates))
        one.put(mechanism, 0)
        blocks.append(extended.calc_extended_equations(mechanism, _DIGITS))
        progress((k + 1) / states)
    q[:] = study.home
    w = np.concatenate(blocks)
    return _Exact(w, extended.find_extended_base(w, _DIGITS), z, rates)


def _bench_ranks(study: Study, exact: _Exact) -> dict[str, Any]:
    """Ranks by tolerance in double precision, for several motions, and in extended precision."""
    mechanism, exactly = study.mechanism, exact.base
    solved = motions.solve_motion(mechanism, np.zeros(len(exact.z)), exact.z, *exact.rates)
    noise = 1e-6
    loose = motions.Motion(
        solved.t, *(a + noise * study.random.normal(size=a.shape) for a in (solved.q, solved.qd, solved.qdd))
    )
    doubles = {
        "any states": motions.observe(study.regressor, solved).stacked,
        "loose kinematics": motions.observe(study.regressor, loose).stacked,
        "projected": motions.observe(study.regressor, motions.project_motion(mechanism, loose)).stacked,
    }
    doubles |= {name: w.reshape(-1, w.shape[-1]) for name, ((w, _), *_) in study.observed.items()}
    doubles = {name: w[:, : study.inertial] for name, w in doubles.items()}
    return {
        "extended": exactly.rank,
        "digits": _DIGITS,
        "distance": base.calc_space_distance(study.first, exactly.base),
        "pivots": [float(p) for p in exactly.pivots],
        "double": {name: base.calc_double_rank(w) for name, w in doubles.items()},
        "double_null": {name: len(base.find_null(w)) for name, w in doubles.items()},
        "singular_values": [float(s) for s in base.calc_singular_values(doubles["any states"])],
    }


def _bench_excitation(study: Study) -> dict[str, Any]:
    kept = study.find_relevant()
    rows = {name: study.get_equations(name, study.first).rows[:, kept] for name in MOTIONS}
    conditions = {name: float(np.linalg.cond(w)) for name, w in rows.items()}
    return {"relevant": RELEVANT, "condition": conditions}


def _bench_sets(study: Study, exact: _Exact) -> list[dict[str, Any]]:
    """For the printed sets: their rank in extended precision, and their agreement with the parameters found there."""
    rows: list[dict[str, Any]] = []
    w = study.observed["optimised"][0][0][..., : study.inertial].reshape(-1, study.inertial)
    scale = np.abs(w).max()
    for name, chosen in study.sets.items():
        rows.append(
            {
                "set": name,
                "valid": True,
                "rank": exact.calc_rank(chosen.independent.tolist()),
                "distance": base.calc_space_distance(exact.base.base, chosen),
                "residual": float(np.abs(w @ chosen.calc_null_space()).max() / scale),
                "condition": float(np.linalg.cond(chosen.reduce(w))),
            }
        )
    independent = study.get_independent(REJECTED)
    try:
        study.reference.change(independent)
    except UsageError as error:
        reason = str(error)
    rank, alone = exact.calc_rank(independent), study.find_alone(REJECTED)
    return [*rows, {"set": REJECTED, "valid": False, "rank": rank, "reason": reason, "alone": alone}]


def _bench_studies(study: Study, progress: Callable[[float], None]) -> list[dict[str, Any]]:
    """Prediction errors over the number of parameters.

    Rows by fitted motion, set, error of the priors, and noise of the forces.
    """
    rows = []
    cases = [(m, s, e) for m in MOTIONS for s in study.sets for e in study.effort.prior_errors]
    for done, case in enumerate(cases):
        rows += [
            _bench_case(study, *case, noise, weighted)
            for noise, weighted in ((0.0, False), (NOISE, False), (NOISE, True))
        ]
        progress((done + 1) / len(cases))
    return rows


def _bench_case(
    study: Study, motion: str, name: str, prior_error: float, noise: float, weighted: bool
) -> dict[str, Any]:
    chosen = study.sets[name]
    tries, overlaps = [], []
    for number in range(study.effort.tries):
        fitted, validation = (study.get_equations(k, chosen, number) for k in (motion, "validation"))
        best = study.order(chosen, fitted, study.true)
        order = study.order(chosen, fitted, study.draw_priors(prior_error))
        overlaps.append(relevance.calc_overlap(best, order, RELEVANT))
        forces, deviations = study.add_noise(fitted.forces)
        known = Equations(fitted.w, forces) if noise else fitted
        weights = deviations if weighted else None
        tries.append(relevance.reduce_models(order, study.effort.counts, known, validation, weights))
    return {
        "motion": motion,
        "set": name,
        "prior_error": prior_error,
        "force_noise": noise,
        "weighted": weighted,
        "overlap": float(np.median(overlaps)),
        "models": _medians(tries),
    }


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
    """All 154 parameters estimated at once, physically consistent, with noise and priors with errors."""
    w, forces = study.observed["optimised"][0]
    w_validation, expected = study.observed["validation"][0]
    p, rows = w.shape[-1], []
    springs = study.regressor.values[study.inertial :]
    for error in study.effort.prior_errors:
        noisy, deviations = study.add_noise(forces)
        inertial = study.draw_priors(error)
        # A mass of zero is no valid prior.
        masses = [k for k, name in enumerate(study.regressor.names) if name.endswith(".m")]
        inertial[masses] = np.maximum(inertial[masses], 0.1 * study.true[masses])
        prior = np.concatenate([inertial, springs])
        rows_deviations = np.tile(deviations, len(w))
        found = feasible.estimate_feasible(
            w.reshape(-1, p), noisy.ravel(), study.regressor.sizes, prior, rows_deviations, prior_weight=0.3
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
    """Standard deviations of stiffness and damping, estimated with the relevant parameters, with noise."""
    w, forces = study.observed["optimised"][0]
    kept = study.order(study.first, study.get_equations("optimised", study.first), study.true)[:20]
    columns = [*study.first.independent[kept], *range(study.inertial, w.shape[-1])]
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
