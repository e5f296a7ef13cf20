"""Identified and true values, as in the source's tables 5.9 and 5.11, with springs and friction.

Table 5.9: all base parameters of T1 at once, of which ten are shown. Table 5.11: the 20 relevant parameters of T2, by
priors that are wrong by up to 20 %. Forces have 5 % noise. Beside inertial parameters, springs, dampers and friction
of the mechanism are identified; at rest under the load of several heights of the wheels, springs can be distinguished
from weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vehicled.identification import motions
from vehicled.identification.least_squares import LeastSquaresEstimate, estimate
from vehicled.identification.regressors import (
    Column,
    CoulombFriction,
    Regressor,
    ViscousFriction,
    spring_columns,
)
from vehicled.studies.benchmarks.identify_study import Study

FRICTION: dict[Column, float] = {
    CoulombFriction("strut_left"): 40.0,
    CoulombFriction("strut_right"): 40.0,
    CoulombFriction("rack_place"): 60.0,
    ViscousFriction("rack_place"): 150.0,
    ViscousFriction("spin_left"): 0.05,
    ViscousFriction("spin_right"): 0.05,
}
"""N, N·s/m, N·m·s/rad: values of this study, as the mechanism's file has no friction."""
SHOWN = (
    *(f"{body}_left.{kind}" for body in ("lower_wishbone", "upper_wishbone") for kind in ("my", "mz")),
    *(f"knuckle_left.{kind}" for kind in ("m", "mx", "my", "mz", "Ixx", "Ixy")),
)
"""The first ten of T1, in the order of table 5.3, named by the axes used here."""
_RELEVANT = 20
_PRIOR_ERROR = 0.2
_STEPS = 15
"""Load steps at rest: five heights of one wheel times three of the other."""
_AVERAGED = 100
"""Number of samples of a force at rest over which the mean is taken."""


class _Equations:
    """W (N, f, p) of inertial parameters and further columns, τ (N, f) with noise, of a motion and of load steps."""

    def __init__(self, study: Study) -> None:
        self.regressor = Regressor(study.mechanism, [*spring_columns(study.mechanism), *FRICTION])
        self.values = self.regressor.values.copy()
        self.values[-len(FRICTION) :] = list(FRICTION.values())
        trajectory = study.optimised
        t = trajectory.sample_times(study.effort.samples)
        moving = self._calc(study, *trajectory.calc(t))
        z = np.tile(0.5 * (study.ranges.low + study.ranges.high), (_STEPS, 1))
        reach = 0.4 * (study.ranges.high - study.ranges.low)[:2]
        z[:, 0] += reach[0] * np.repeat(np.linspace(-1.0, 1.0, 5), 3)
        z[:, 1] += reach[1] * np.tile(np.linspace(-1.0, 1.0, 3), 5)
        resting = self._calc(study, z, np.zeros_like(z), np.zeros_like(z))
        noisy, self.deviations = study.add_noise(moving @ self.values)
        self.moving = (moving, noisy)
        loaded = resting @ self.values
        at_rest = self.deviations / np.sqrt(_AVERAGED)
        self.resting = (resting, loaded + at_rest * study.random.normal(size=loaded.shape))

    def _calc(self, study: Study, z: np.ndarray, zd: np.ndarray, zdd: np.ndarray) -> np.ndarray:
        study.mechanism.q[:] = study.home
        motion = motions.solve_motion(study.mechanism, np.arange(float(len(z))), z, zd, zdd)
        return motions.observe(self.regressor, motion).on_coordinates()[0]

    def fit(self, columns: list[int], with_steps: bool) -> LeastSquaresEstimate:
        """Fit some columns, weighted by the noise of each force."""
        parts = [self.moving, self.resting] if with_steps else [self.moving]
        w = np.concatenate([w for w, _ in parts])[..., columns]
        forces = np.concatenate([forces for _, forces in parts])
        deviations = np.tile(self.deviations, (len(w), 1))
        deviations[len(self.moving[0]) :] /= np.sqrt(_AVERAGED)
        return estimate(w.reshape(-1, len(columns)), forces.ravel(), deviations.ravel())


def bench_tables(study: Study) -> dict[str, Any]:
    """Rows of both tables: `parameter`, `true`, `estimate`, `deviation`."""
    equations = _Equations(study)
    return {"table_5_9": _make_5_9(study, equations), "table_5_11": _make_5_11(study, equations)}


def _make_5_9(study: Study, equations: _Equations) -> list[dict[str, Any]]:
    chosen = study.sets["T1 knuckles"]
    further = range(study.inertial, len(equations.values))
    names = equations.regressor.names
    shown = [int(np.flatnonzero(chosen.independent == names.index(name))[0]) for name in SHOWN]
    true = chosen.combine(equations.values[: study.inertial])
    found = equations.fit([*chosen.independent.tolist(), *further], with_steps=True)
    return [_row(names[chosen.independent[k]], true[k], found.values[k], found.deviations[k]) for k in shown]


def _make_5_11(study: Study, equations: _Equations) -> list[dict[str, Any]]:
    """The relevant parameters, then springs and friction; for these also the deviation without load steps."""
    chosen = study.sets["T2 lower wishbones"]
    prior = study.draw_priors(_PRIOR_ERROR)
    order = study.order(chosen, study.get_equations("optimised", chosen), prior)[:_RELEVANT]
    further = range(study.inertial, len(equations.values))
    columns = [*chosen.independent[order].tolist(), *further]
    found = equations.fit(columns, with_steps=True)
    moving = equations.fit(columns, with_steps=False)
    inertial = equations.values[: study.inertial]
    true = [*chosen.combine(inertial)[order], *equations.values[study.inertial :]]
    texts = chosen.describe(equations.regressor.names)
    names = [*(texts[k] for k in order), *equations.regressor.names[study.inertial :]]
    priors = [*chosen.combine(prior)[order], *(None for _ in further)]
    return [
        {
            **_row(name, t, value, deviation),
            "prior": None if p is None else float(p),
            "deviation_without_load_steps": float(alone),
        }
        for name, t, p, value, deviation, alone in zip(
            names, true, priors, found.values, found.deviations, moving.deviations, strict=True
        )
    ]


def _row(name: str, true: float, value: float, deviation: float) -> dict[str, Any]:
    return {"parameter": name, "true": float(true), "estimate": float(value), "deviation": float(deviation)}


def format_tables(tables: dict[str, Any]) -> list[str]:
    """Both tables as text."""
    lines = ["table 5.9: all parameters of T1 at once, with 5 % noise, optimised motion and load steps"]
    lines.append(f"{'':<34} {'true':>11} {'identified':>11} {'± 1 σ':>9}")
    for row in tables["table_5_9"]:
        lines.append(_format(row))
    lines += ["", "table 5.11: 20 parameters of T2 (priors wrong by up to 20 %), springs and friction"]
    lines.append(f"{'':<34} {'true':>11} {'identified':>11} {'± 1 σ':>9} {'no steps':>9} {'prior':>11}")
    for row in tables["table_5_11"]:
        prior = "" if row["prior"] is None else f"{row['prior']:>11.4g}"
        lines.append(f"{_format(row)} {row['deviation_without_load_steps']:>9.2g} {prior}".rstrip())
    return lines


def _format(row: dict[str, Any]) -> str:
    name = row["parameter"]
    short = name if len(name) <= 34 else f"{name.split(' ')[0]} …"
    return f"{short:<34} {row['true']:>11.4g} {row['estimate']:>11.4g} {row['deviation']:>9.2g}"
