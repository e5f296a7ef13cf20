"""Plots of `vehicled identify` and `vehicled tune`."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from vehicled.identification.vehicle.prediction_error import calc_nis_over_time
from vehicled.identification.vehicle.session import Session
from vehicled.report.style import ALARM, BAND, ESTIMATE, STYLE, TRUTH, WIDTH, save

_SIGMAS = 3.0


def draw(session: Session, directory: Path) -> None:
    """Draw `parameters.png` and `prediction.png`.

    Values before and after the identification, and how well each predicts the drive that was held out.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        save(_parameters(session), directory / "parameters.png")
        save(_prediction(session), directory / "prediction.png")


def _parameters(session: Session) -> Figure:
    """Parameters in standard deviations of their priors, so that all fit on one axis."""
    found = session.estimate.found
    figure = Figure((WIDTH, 0.32 * len(found) + 1.4))
    axes = figure.subplots()
    places = np.arange(len(found))
    unit = np.array([f.parameter.calc_deviation(f.prior, f.parameter.sigma) for f in found])
    change = np.array([f.value - f.prior for f in found]) / unit
    sigma = _SIGMAS * np.array([f.sigma for f in found]) / unit
    known = np.array([f.identified for f in found])
    axes.barh(places, 2.0, left=-1.0, height=0.5, color=BAND, label="known before, 1 σ")
    axes.errorbar(
        change[known],
        places[known],
        xerr=sigma[known],
        fmt="o",
        markersize=4,
        color=ESTIMATE,
        label=f"found, {_SIGMAS:.0f} σ",
    )
    axes.axvline(0.0, color=TRUTH, linewidth=0.8)
    axes.set_yticks(places, [f.parameter.name for f in found])
    axes.invert_yaxis()
    axes.set(xlabel="change, in σ of what was known before", title="What was found")
    axes.legend()
    return figure


def _prediction(session: Session) -> Figure:
    """Mean normalised innovation squared for each second, all wheels together."""
    before, after = (
        _by_kind(calc_nis_over_time(c, session.held_out)) for c in (session.before, session.after)
    )
    figure = Figure((WIDTH, 1.5 * len(before) + 0.6))
    rows = figure.subplots(len(before), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (kind, old) in zip(rows, before.items(), strict=True):
        axes.plot(*old.T, color=ALARM, label="before")
        if kind in after:
            axes.plot(*after[kind].T, color=ESTIMATE, label="after")
        axes.axhline(1.0, color=TRUTH, linewidth=0.8)
        axes.set(ylabel="NIS", title=kind)
    rows[0].legend(ncols=2, loc="upper right")
    rows[-1].set_xlabel("time of the drive, s")
    return figure


def _by_kind(surprise: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Combine the four wheels to one kind."""
    kinds: dict[str, list[np.ndarray]] = {}
    for sensor, rows in surprise.items():
        parts = sensor.split(".")
        kind = f"wheels, {parts[2]}" if parts[0] == "wheel" else sensor
        kinds.setdefault(kind, []).append(rows)
    found = {}
    for kind, parts_of_kind in kinds.items():
        rows = np.concatenate(parts_of_kind)
        times = np.unique(rows[:, 0])
        found[kind] = np.array([(t, rows[rows[:, 0] == t, 1].mean()) for t in times])
    return found
