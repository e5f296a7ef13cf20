"""Plots of `vehicled bench identify`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from vehicled.identification.least_squares import estimate
from vehicled.report.style import ALARM, ESTIMATE, RUN_COLORS, STYLE, TRUTH, WIDTH, save
from vehicled.studies.benchmarks.identify import MOTIONS
from vehicled.studies.benchmarks.identify_study import NOISE, Study

_SHOWN = 25
"""Number of parameters of the reduced model whose forces are drawn."""
_UNITS = {"travel": "N", "spin": "N·m", "rack": "N"}


def draw(study: Study, found: dict[str, Any], directory: Path) -> None:
    """Draw `ranks.png`, `errors.png`, `priors.png` and `forces.png`."""
    directory.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figures = {
            "ranks": _ranks(found),
            "errors": _errors(found),
            "priors": _priors(found),
            "forces": _forces(study),
        }
        for name, figure in figures.items():
            save(figure, directory / f"{name}.png")


def draw_cars(rows: list[dict[str, Any]], directory: Path) -> None:
    """Draw `cars.png`: errors of the estimates for each car, with 3 σ, and those of the priors."""
    directory.mkdir(parents=True, exist_ok=True)
    names = [p["name"] for p in rows[0]["parameters"]]
    with matplotlib.rc_context(STYLE):
        figure = Figure((WIDTH, 0.32 * len(names) + 1.4))
        axes = figure.subplots()
        for n, row in enumerate(rows):
            places = np.arange(len(names)) + (n - 0.5 * (len(rows) - 1)) * 0.6 / len(rows)
            true, value, sigma, prior = (
                np.array([p[key] for p in row["parameters"]]) for key in ("true", "value", "sigma", "prior")
            )
            found = np.array([p["identified"] for p in row["parameters"]])
            error, before = 100 * (value - true) / abs(true), 100 * (prior - true) / abs(true)
            bar = 300 * sigma / abs(true)
            axes.plot(before, places, "|", color=ALARM, label="prior" if n == 0 else None)
            axes.errorbar(
                error[found],
                places[found],
                xerr=bar[found],
                fmt=".",
                color=ESTIMATE,
                label="estimate, with 3 σ" if n == 0 else None,
            )
        axes.axvline(0.0, color=TRUTH, linewidth=0.8)
        axes.set_yticks(np.arange(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlabel="error, % of the true value", title=f"{len(rows)} cars, one drive each")
        axes.legend()
        save(figure, directory / "cars.png")


def _ranks(found: dict[str, Any]) -> Figure:
    """Zero pivots: without a gap in double precision, with a wide one in extended precision."""
    figure = Figure((WIDTH, 3.6))
    left, right = figure.subplots(1, 2)
    ranks, r = found["ranks"], found["base"]
    singular = np.array(ranks["singular_values"])
    left.semilogy(np.arange(1, len(singular) + 1), singular / singular[0], ".", color=ESTIMATE)
    left.set(title="Singular values in double precision", xlabel="number", ylabel="share of the largest")
    pivots = np.array(ranks["pivots"])
    right.semilogy(np.arange(1, len(pivots) + 1), pivots, ".", color=ESTIMATE)
    right.set(title=f"Pivots with {ranks['digits']} digits", xlabel="number")
    for axes in (left, right):
        axes.axvline(r + 0.5, color=ALARM, linestyle="--", label=f"{r} base parameters")
        axes.legend()
    return figure


def _studies(found: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in found["studies"] if all(row[key] == value for key, value in wanted.items())]


def _curve(row: dict[str, Any], key: str) -> tuple[list[int], list[float]]:
    return [m["count"] for m in row["models"]], [m[key] for m in row["models"]]


def _errors(found: dict[str, Any]) -> Figure:
    """Prediction errors and conditions by set, with priors of the middle error."""
    figure = Figure((WIDTH, 6.4))
    panels = figure.subplots(2, 2)
    prior = sorted({row["prior_error"] for row in found["studies"]})[1]
    for column, motion in enumerate(MOTIONS):
        top, bottom = panels[:, column]
        for noise, style in ((0.0, ":"), (NOISE, "-")):
            rows = _studies(found, motion=motion, prior_error=prior, force_noise=noise, weighted=False)
            for row, color in zip(rows, RUN_COLORS, strict=False):
                counts, errors = _curve(row, "validation_error")
                label = row["set"] if noise else None
                top.semilogy(counts, 100 * np.maximum(errors, 1e-6), style, color=color, label=label)
                if noise:
                    bottom.semilogy(*_curve(row, "condition"), color=color)
        top.set(title=f"Motion {motion}: prediction error, %", xlabel="parameters", ylim=(1e-3, 2e3))
        bottom.set(title="Condition of their equations", xlabel="parameters")
    panels[0, 0].legend(title="5 % noise; dotted: none")
    return figure


def _priors(found: dict[str, Any]) -> Figure:
    """The small influence of the priors."""
    figure = Figure((WIDTH, 3.6))
    names = list(dict.fromkeys(row["set"] for row in found["studies"]))
    left, right = figure.subplots(1, 2)
    rows = _studies(found, motion="optimised", set=names[0], force_noise=NOISE, weighted=False)
    for row, color in zip(rows, RUN_COLORS, strict=False):
        counts, errors = _curve(row, "validation_error")
        left.semilogy(counts, 100 * np.array(errors), color=color, label=f"{100 * row['prior_error']:.0f} %")
    left.set(title=f"{names[0]}: prediction error, %", xlabel="parameters")
    left.legend(title="priors wrong by up to")
    for name, color in zip(names, RUN_COLORS, strict=False):
        rows = _studies(found, motion="optimised", set=name, force_noise=NOISE, weighted=False)
        shares = [100 * row["overlap"] for row in rows]
        right.plot([100 * row["prior_error"] for row in rows], shares, "o-", color=color, label=name)
    right.set(
        title="Of the 30 most relevant, found with priors, %",
        xlabel="priors wrong by up to, %",
        ylim=(0, 103),
    )
    right.legend()
    return figure


def _forces(study: Study) -> Figure:
    """Forces of the validation motion: the true ones, and those of a full and a reduced model fitted with noise."""
    name, chosen = next(iter(study.sets.items()))
    figure = Figure((WIDTH, 7.2))
    coordinates = [study.mechanism.coordinate_names[k] for k in study.mechanism.independent]
    panels = figure.subplots(len(coordinates), 1, sharex=True)
    t = study.validation[0].sample_times(study.effort.samples)
    fitted, validation = (study.get_equations(k, chosen) for k in ("drawn", "validation"))
    noisy, _ = study.add_noise(fitted.forces)
    order = study.order(chosen, fitted, study.true)
    for count, color, label in (
        (len(order), ALARM, f"all {len(order)} parameters"),
        (_SHOWN, ESTIMATE, f"{_SHOWN} parameters"),
    ):
        kept = order[:count]
        values = estimate(fitted.rows[:, kept], noisy.ravel()).values
        for k, axes in enumerate(panels):
            axes.plot(t, validation.w[:, k, kept] @ values, color=color, label=label)
    for k, (axes, coordinate) in enumerate(zip(panels, coordinates, strict=True)):
        axes.plot(t, validation.forces[:, k], "--", color=TRUTH, label="as it is")
        axes.set(title=f"{coordinate}, {_UNITS[coordinate.split('_')[0]]}")
    panels[0].legend(ncols=3, title=f"{name}, 5 % noise, fitted to another motion drawn at random")
    panels[-1].set(xlabel="s")
    return figure
