"""Plots of `vehicled bench particles`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vehicled.maths.angles import wrap
from vehicled.report.style import ALARM, ESTIMATE, GNSS, RUN_COLORS, STYLE, TRUTH, WIDTH, save
from vehicled.studies.benchmarks.particle_ambiguity import find_posterior, find_similar_starts
from vehicled.studies.benchmarks.particle_logs import trace
from vehicled.studies.benchmarks.particle_tries import CRANK, SETTLED, Experiment, Try
from vehicled.studies.benchmarks.particles import FIRST_SEED, SETTINGS, find_setting

_SHOWN = 300
"""Number of particles drawn for each time."""
_OTHERS = 1
"""Number of missed tries drawn for each setting other than the settled one."""


def draw(found: dict[str, Any], directory: Path) -> None:
    """Draw `costs.png`, `similar_starts.png`, `effective.png`, and the sweeps, into a folder.

    The sweeps are `sweeps.png`, `steps.png`, `settings.png`; and `missed_….png` for every try missed by the
    settled filter and for the first ones missed by the others.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figures = {
            "costs": _costs(found["costs"]),
            "similar_starts": _similar_starts(),
            "effective": draw_effective(FIRST_SEED),
        }
        sweeps = found["sweeps"]
        if {"count", "motion", "settled", "wandering"} <= sweeps.keys():
            figures["sweeps"] = _sweeps(sweeps)
        if "step" in sweeps:
            figures["steps"] = _steps(sweeps["step"])
        if "settings" in sweeps:
            figures["settings"] = _settings(sweeps["settings"])
        for varied in set(sweeps) - {"step", "settings"}:
            for row in sweeps[varied]:
                shown = row["missed"] if varied == "settled" else row["missed"][:_OTHERS]
                for miss in shown:
                    name = f"missed_{varied}_{row['count']}_{row['motion_sigma']:g}_{miss['seed']}"
                    figures[name] = draw_try(_experiment(row), miss["seed"])
        for name, figure in figures.items():
            save(figure, directory / f"{name}.png")


def _costs(rows: list[dict[str, float]]) -> Figure:
    figure = Figure((0.6 * WIDTH, 3.6))
    axes = figure.subplots()
    counts = [row["count"] for row in rows]
    for kind, label, color in (
        ("advance", "motion and projection", TRUTH),
        ("step", "filter step", ESTIMATE),
        ("drawing", "filter step that resamples", ALARM),
        ("keeping", "filter step that preserves covariance", GNSS),
    ):
        axes.loglog(counts, [row[kind] for row in rows], "o-", color=color, label=label)
    axes.axhline(0.5, color="#999", linestyle="--", label="0.5 µs")
    axes.set(title="Cost", xlabel="particles", ylabel="µs per particle and step")
    axes.legend()
    return figure


def _sweeps(sweeps: dict[str, list[dict[str, Any]]]) -> Figure:
    figure = Figure((WIDTH, 3.4))
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, varied, key, label in (
        (left, "count", "count", "particles"),
        (right, "motion", "motion_sigma", "motion noise, rad a step"),
    ):
        rows = sweeps[varied]
        _shares(axes, key, rows, ESTIMATE, "as in the source")
        axes.set(xlabel=label, title="Tries that converged, % (dashed: by the mean of all)")
    for rows, color, label in (
        (sweeps["settled"], ALARM, "covariance preserved"),
        (sweeps["wandering"], GNSS, "plant noise"),
    ):
        for count in sorted({row["count"] for row in rows}):
            alike = [row for row in rows if row["count"] == count]
            _shares(right, "motion_sigma", alike, color, f"{count:,}, {label}", "s" if count < 1000 else "^")
    left.legend()
    right.legend()
    left.set_ylim(0, 103)
    return figure


def _by_setting(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Name, colour and rows of each setting that occurs."""
    for name, color in zip(SETTINGS, (ESTIMATE, GNSS, ALARM), strict=True):
        alike = [row for row in rows if find_setting(row) == name]
        if alike:
            yield name, color, alike


def _steps(rows: list[dict[str, Any]]) -> Figure:
    figure = Figure((WIDTH, 3.4))
    left, right = figure.subplots(1, 2)
    for name, color, alike in _by_setting(rows):
        label = f"{name}, {alike[0]['count']} particles"
        _shares(left, "step", alike, color, label)
        right.loglog(
            [row["step"] for row in alike],
            [row["of_real_time"] for row in alike],
            "o-",
            color=color,
            label=label,
            markersize=4,
        )
    right.axhline(1.0, color="#999", linestyle="--", label="real time")
    left.set(xlabel="s between readings", title="Tries that converged, % (dashed: by the mean of all)")
    right.set(xlabel="s between readings", title="Processor time over real time")
    left.set_ylim(0, 103)
    left.legend()
    right.legend()
    return figure


def _settings(rows: list[dict[str, Any]]) -> Figure:
    figure = Figure((WIDTH, 3.4))
    left, right = figure.subplots(1, 2, sharey=True)
    count, sigma = SETTLED.count, SETTLED.motion
    for name, color, alike in _by_setting(rows):
        by_count = [row for row in alike if row["motion_sigma"] == sigma]
        by_sigma = sorted(
            (row for row in alike if row["count"] == count), key=lambda row: float(row["motion_sigma"])
        )
        _shares(left, "count", by_count, color, name)
        _shares(right, "motion_sigma", by_sigma, color, name)
    left.set(xlabel="particles", title=f"Tries that converged, %, at {sigma:g} rad (dashed: by the mean)")
    right.set(xlabel="motion noise, rad a step", title=f"The same, {count} particles")
    left.set_ylim(0, 103)
    left.legend()
    return figure


def draw_effective(seed: int) -> Figure:
    """Draw the effective sample size, and errors of mean and heaviest cluster, over one try of each setting."""
    figure = Figure((WIDTH, 3.4))
    left, right = figure.subplots(1, 2)
    for (name, experiment), color in zip(SETTINGS.items(), (ESTIMATE, GNSS, ALARM), strict=True):
        snapshots = list(trace(experiment, seed))
        t = [s.t for s in snapshots]
        left.plot(t, [100 * s.effective for s in snapshots], color=color, label=name)
        for key, line in (("cluster", "-"), ("mean", "--")):
            errors = np.array([getattr(s, key) - s.truth for s in snapshots])
            label = name if key == "cluster" else None
            right.semilogy(t, np.degrees(np.abs(wrap(errors))), line, color=color, label=label)
    right.axhline(5.0, color="#999", linestyle=":", label="5°")
    left.set(title=f"Try {seed}: effective sample size, % of the particles", xlabel="s", ylim=(0, 103))
    right.set(title="Error of the angle, ° (dashed: of the mean of all)", xlabel="s")
    left.legend()
    right.legend()
    return figure


def _shares(
    axes: Axes, key: str, rows: list[dict[str, Any]], color: str, label: str, mark: str = "o"
) -> None:
    """Dashed lines are for the mean of all particles."""
    for converged, line in (("converged", "-"), ("converged_mean", "--")):
        share = [100 * row[converged] / row["tries"] for row in rows]
        named = label if line == "-" else None
        axes.semilogx(
            [row[key] for row in rows], share, f"{mark}{line}", color=color, label=named, markersize=4
        )


def _similar_starts() -> Figure:
    """Starts that can be distinguished from all that end differently: above the line, by 3 σ."""
    figure = Figure((WIDTH, 3.6))
    for axes, both in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        similar = find_similar_starts(Experiment(both_branches=both))
        for branch, color in zip((1.0, -1.0), RUN_COLORS, strict=False):
            of = similar.branch == branch
            if np.any(of):
                label = f"assembled {'left' if branch > 0 else 'right'}"
                axes.semilogy(np.degrees(similar.start[of]), similar.distance[of], color=color, label=label)
        for k, style in ((1.0, "-"), (SETTLED.multiplier, "--"), (Experiment.multiplier, ":")):
            axes.axhline(3 * k, color=ALARM, linestyle=style, label=f"3 σ, multiplier {k:g}")
        axes.set(
            title="Both ways of assembly" if both else "One way of assembly",
            xlabel="crank where it is released, °",
            ylabel="σ to the most similar start",
        )
        axes.legend()
    return figure


def draw_try(experiment: Experiment, seed: int) -> Figure:
    """Draw all particles' crank angles over time, and the truth.

    Also the readings with those of the most similar start, and the exact posterior of the crank's angle at
    the end.
    """
    trial, posterior = Try(experiment, seed), find_posterior(experiment, seed)
    figure = Figure((WIDTH, 3.8))
    left, middle, right = figure.subplots(1, 3, width_ratios=(3, 2, 2))
    t, truth, estimate = [], [], []
    for k in range(experiment.steps):
        trial.step()
        t.append((k + 1) * experiment.step)
        truth.append(trial.angle)
        estimate.append(trial.filter.find_peak(CRANK))
        angles = np.degrees(trial.swarm.get_angles(CRANK)[:_SHOWN])
        left.plot(np.full(len(angles), t[-1]), angles, ",", color=ESTIMATE, alpha=0.5)
    left.plot(t, np.degrees(truth), ".", markersize=3, color=ALARM, label="truth")
    left.plot(t, np.degrees(estimate), ".", markersize=2, color=TRUTH, label="estimate")
    left.set(title=f"Try {seed}: crank and particles", xlabel="s", ylabel="crank angle, °", ylim=(-180, 180))
    left.legend()
    similar = find_similar_starts(experiment)
    near = np.abs(wrap(similar.start - trial.start)) + 10.0 * (similar.branch != trial.branch)
    here = int(np.argmin(near))
    nearest = int(similar.nearest[here])
    label = f"similar, from {np.degrees(similar.start[nearest]):.0f}°: {similar.distance[here]:.1f} σ"
    middle.plot(
        t, trial.readings, ".", markersize=2, color=ALARM, label=f"from {np.degrees(trial.start):.0f}°"
    )
    middle.plot(t, similar.rates[:, nearest], color=TRUTH, label=label)
    middle.set(title="Readings", xlabel="s", ylabel="rad/s")
    middle.legend()
    ends = np.degrees(posterior.end)
    right.hist(ends, np.arange(-180.0, 181.0, 2.0), weights=posterior.probability, color=ESTIMATE)
    right.axvline(np.degrees(posterior.truth), color=ALARM, linewidth=0.8, label="truth")
    right.axvline(np.degrees(estimate[-1]), color=TRUTH, linestyle="--", linewidth=0.8, label="estimate")
    title = f"Exact: {100 * posterior.near:.1f} % within 5°"
    right.set(title=title, xlabel="crank angle at the end, °", ylabel="probability in 2°", xlim=(-180, 180))
    right.set_xticks(range(-180, 181, 90))
    right.legend()
    return figure


def _experiment(row: dict[str, Any]) -> Experiment:
    """Experiment of a row of a sweep."""
    return Experiment(
        count=row["count"],
        motion=row["motion_sigma"],
        resampling=row["resampling_sigma"],
        multiplier=row["multiplier"],
        keeps_covariance=row["keeps_spread"],
        both_branches=row["both_branches"],
        step=row["step"],
        steps=row["readings"],
    )
