"""A run, brought into the form that its plots need: arrays over seconds since its start."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pymap3d

from replay.csv_log import Table, read_estimates
from replay.mcap_log import McapLog
from replay.mcap_messages import is_mcap
from replay.problems import Problems
from vehicled.errors import RunError
from vehicled.messages import Innovation, Measurement, Status
from vehicled.schemas import StepRecord
from vehicled.scoring import (
    Comparison,
    Scores,
    SensorScore,
    at_point,
    compare,
    read_configuration,
    score,
    score_sensors,
)


@dataclass(frozen=True)
class SensorHistory:
    """All innovation records of one kind of observation."""

    t: np.ndarray
    """(n,) s."""
    normalised: np.ndarray
    """(n, components) innovation over its own standard deviation."""
    fused: np.ndarray
    """(n,) bool."""
    reasons: Counter[str]
    """Why the others were not."""


@dataclass(frozen=True)
class RunData:
    """Everything that a report shows."""

    name: str
    start: int
    """ns; all times in plots are seconds since then."""
    estimates: Table
    measurements: list[Measurement] = field(default_factory=list)
    innovations: list[Innovation] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    problems: list[Problems] = field(default_factory=list)
    comparison: Comparison | None = None
    scores: Scores | None = None

    def seconds(self, t: Sequence[int] | np.ndarray) -> np.ndarray:
        """(n,) s since the start of the run, of times in ns."""
        return (np.asarray(t, dtype=np.int64) - self.start) / 1e9

    def known(self, column: str) -> bool:
        """Whether the estimates have any value in a column."""
        return column in self.estimates.columns and bool(np.isfinite(self.estimates.columns[column]).any())

    @cached_property
    def sensor_scores(self) -> dict[str, SensorScore]:
        """Consistency of the innovations, by sensor."""
        return score_sensors(self.innovations)

    @cached_property
    def sensors(self) -> dict[str, SensorHistory]:
        """Innovations by kind of observation, in alphabetical order."""
        records: dict[str, list[Innovation]] = {}
        for innovation in self.innovations:
            records.setdefault(innovation.sensor, []).append(innovation)
        return {sensor: self._history(records[sensor]) for sensor in sorted(records)}

    def _history(self, records: list[Innovation]) -> SensorHistory:
        counts = np.array([len(r.innovation) for r in records])
        normalised = np.full((len(records), counts.max()), np.nan)
        for n in set(counts.tolist()) - {0}:  # some components may be missing
            rows = np.flatnonzero(counts == n)
            innovations = np.array([records[i].innovation for i in rows])
            variances = np.array([records[i].variance for i in rows])
            with np.errstate(divide="ignore", invalid="ignore"):
                normalised[rows, :n] = innovations / np.sqrt(variances)
        return SensorHistory(
            self.seconds([r.t for r in records]),
            normalised,
            np.array([r.fused for r in records], dtype=bool),
            Counter(r.reason for r in records if not r.fused),
        )

    @cached_property
    def fixes(self) -> np.ndarray:
        """(n, 2) m, east and north of every GNSS fix in the frame of the estimates; empty if unknown."""
        columns = self.estimates.columns
        if not all(self.known(c) for c in ("lat", "lon", "x", "y")):
            return np.empty((0, 2))
        anchor = int(np.flatnonzero(np.isfinite(columns["lat"]) & np.isfinite(columns["x"]))[0])
        lat, lon, x, y = (float(columns[c][anchor]) for c in ("lat", "lon", "x", "y"))
        fixes = [
            (m.values["gnss.lat"], m.values["gnss.lon"])
            for m in self.measurements
            if "gnss.lat" in m.values and "gnss.lon" in m.values
        ]
        if not fixes:
            return np.empty((0, 2))
        lats, lons = np.array(fixes).T
        east, north, _ = pymap3d.geodetic2enu(lats, lons, 0.0, lat, lon, 0.0)
        return np.column_stack([east + x, north + y])


def load_run(path: str | Path, truth: str | Path | None = None) -> RunData:
    """A recording (.mcap) or a table of estimates (.csv), and the truth if there is one.

    UsageError if a file is not what it should be; RunError if there are no estimates in it or the truth has
    nothing in common with them.
    """
    path = Path(path)
    if is_mcap(path):
        log = McapLog(path)
        run = log.read_run()
        if not len(run.estimates.t):
            raise RunError(f"{path}: no estimates in it; expected the recording of a run")
        data = RunData(
            path.name,
            int(run.estimates.t[0]),
            at_point(run.estimates, read_configuration(log)),
            run.measurements,
            run.innovations,
            run.statuses,
            run.steps,
            [run.problems],
        )
    else:
        table = read_estimates(path)
        if not len(table.t):
            raise RunError(f"{path}: no estimates in it")
        data = RunData(path.name, int(table.t[0]), table, problems=[table.problems])
    if truth is None:
        return data
    true = read_estimates(truth)
    comparison = compare(data.estimates, true)
    return replace(
        data,
        problems=[*data.problems, true.problems],
        comparison=comparison,
        scores=score(comparison, data.innovations),
    )
