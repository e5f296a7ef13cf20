"""Plots of `vehicled bench particles`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from vehicled.benchmarks import particles
from vehicled.benchmarks.particles import CRANK, SETTLED, STEP, Experiment, Try, find_rivals
from vehicled.report.plots import ALARM, ESTIMATE, STYLE, TRUTH, WIDTH

_SHOWN = 300
"""Particles drawn at a time."""


def draw(found: dict[str, Any], directory: Path) -> None:
    """`costs.png`, `sweeps.png`, `rivals.png` and, of the first tries that were missed, `missed_….png`."""
    directory.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figures = {"costs": _costs(found["costs"]), "sweeps": _sweeps(found["sweeps"]), "rivals": _rivals()}
        for row in found["sweeps"]["settled"]:
            for miss in row["missed"][:2]:
                experiment = replace(SETTLED, motion=row["motion_sigma"])
                figures[f"missed_{row['motion_sigma']:g}_{miss['seed']}"] = draw_try(experiment, miss["seed"])
        usual = next(r for r in found["sweeps"]["count"] if r["count"] >= 200)
        for miss in usual["missed"][:2]:
            name = f"missed_as_in_the_source_{miss['seed']}"
            figures[name] = draw_try(Experiment(count=usual["count"]), miss["seed"])
        for name, figure in figures.items():
            figure.savefig(directory / f"{name}.png")


def _costs(rows: list[dict[str, float]]) -> Figure:
    figure = Figure((0.6 * WIDTH, 3.6))
    axes = figure.subplots()
    counts = [row["count"] for row in rows]
    for kind, label, color in (
        ("advance", "motion and projection", TRUTH),
        ("step", "filter step", ESTIMATE),
        ("drawing", "filter step that draws anew", ALARM),
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
        share = [100 * row["converged"] / row["tries"] for row in rows]
        axes.semilogx([row[key] for row in rows], share, "o-", color=ESTIMATE, label="mean of the particles")
        peak = [100 * row["converged_peak"] / row["tries"] for row in rows]
        axes.semilogx([row[key] for row in rows], peak, "o--", color=ESTIMATE, label="their peak")
        axes.set(xlabel=label, title="Tries that converged, %")
    rows = sweeps["settled"]
    for key, mark in (("converged", "s-"), ("converged_peak", "s--")):
        share = [100 * row[key] / row["tries"] for row in rows]
        label = f"{SETTLED.count} particles" + (", peak" if mark == "s--" else "")
        right.semilogx([row["motion_sigma"] for row in rows], share, mark, color=ALARM, label=label)
    left.legend()
    right.legend()
    left.set_ylim(0, 103)
    return figure


def _rivals() -> Figure:
    """Which starts can be told from all that end elsewhere: above the line, by 3 σ."""
    figure = Figure((WIDTH, 3.6))
    for axes, both in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        rivals = find_rivals(Experiment(both_branches=both))
        for branch, color in ((1.0, ESTIMATE), (-1.0, "#c2561a")):
            of = rivals.branch == branch
            if np.any(of):
                label = f"assembled {'left' if branch > 0 else 'right'}"
                axes.semilogy(np.degrees(rivals.start[of]), rivals.distance[of], color=color, label=label)
        for k, style in ((1.0, "-"), (SETTLED.multiplier, "--"), (Experiment.multiplier, ":")):
            axes.axhline(3 * k, color=ALARM, linestyle=style, label=f"3 σ, multiplier {k:g}")
        axes.set(
            title="Both ways of assembly" if both else "One way of assembly",
            xlabel="crank where it is released, °",
            ylabel="σ between a start and its rival",
        )
        axes.legend()
    return figure


def draw_try(experiment: Experiment, seed: int) -> Figure:
    """All particles' crank angles over time beside the truth, and the readings beside those of the rival start."""
    trial = Try(experiment, seed)
    rivals = find_rivals(experiment)
    near = np.abs(particles.wrapped(rivals.start - trial.start)) + 10.0 * (rivals.branch != trial.branch)
    here = int(np.argmin(near))
    rival = int(rivals.rival[here])
    figure = Figure((WIDTH, 3.8))
    left, right = figure.subplots(1, 2)
    t, truth, estimate = [], [], []
    for k in range(experiment.steps):
        trial.step()
        t.append((k + 1) * STEP)
        truth.append(trial.angle)
        estimate.append(trial.filter.estimate_angle(CRANK))
        angles = np.degrees(trial.swarm.get_angles(CRANK)[:_SHOWN])
        left.plot(np.full(len(angles), t[-1]), angles, ",", color=ESTIMATE, alpha=0.5)
    left.plot(t, np.degrees(truth), ".", markersize=3, color=ALARM, label="truth")
    left.plot(t, np.degrees(estimate), ".", markersize=2, color=TRUTH, label="estimate")
    left.set(title=f"Try {seed}: crank and particles", xlabel="s", ylabel="crank angle, °", ylim=(-180, 180))
    left.legend()
    right.plot(t, rivals.rates[:, here], color=ALARM, label=f"released at {np.degrees(trial.start):.0f}°")
    label = f"rival, {np.degrees(rivals.start[rival]):.0f}°: {rivals.distance[here]:.1f} σ apart"
    right.plot(t, rivals.rates[:, rival], color=TRUTH, linestyle="--", label=label)
    right.set(title="What the gyroscope reads of both", xlabel="s", ylabel="rad/s")
    right.legend()
    return figure
