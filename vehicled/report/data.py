"""A run as its plots need it: arrays over seconds since its start."""

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
from vehicled.report.recording import RecordedDrive, read_recorded
from vehicled.scoring.origins import find_height, find_origin
from vehicled.scoring.scores import (
    Comparison,
    Scores,
    at_point,
    compare,
    read_configuration,
    score,
)


def _nothing() -> RecordedDrive:
    return RecordedDrive(np.empty((0, 2)), {}, {}, {}, None, None, np.empty((0, 2), dtype=np.int64))


@dataclass(frozen=True)
class RunData:
    """All data that a report shows."""

    name: str
    start: int
    """ns; times in plots are seconds since then."""
    estimates: Table
    recorded: RecordedDrive = field(default_factory=_nothing)
    """Data in addition to the estimates."""
    problems: list[Problems] = field(default_factory=list)
    comparison: Comparison | None = None
    scores: Scores | None = None

    def seconds(self, t: Sequence[int] | np.ndarray) -> np.ndarray:
        """(n,) s since the start of the run, from times in ns."""
        return (np.asarray(t, dtype=np.int64) - self.start) / 1e9

    def known(self, column: str) -> bool:
        """Whether the estimates have any value in a column."""
        return column in self.estimates.columns and bool(np.isfinite(self.estimates.columns[column]).any())

    @cached_property
    def fixes(self) -> np.ndarray:
        """(n, 2) m, east and north of every GNSS fix in the frame of the estimates; empty if unknown."""
        # A kilometre on the ground is 0.6 m longer 4 km above the ellipsoid, and axes turn with their origin.
        height = find_height(self.estimates)
        origin = find_origin(self.estimates, height)
        if origin is None or not len(self.recorded.fixes):
            return np.empty((0, 2))
        lats, lons = self.recorded.fixes.T
        place = origin.latitude, origin.longitude, origin.height
        east, north, _ = pymap3d.geodetic2enu(lats, lons, height, *place)
        return np.column_stack([east, north])


def load_run(path: str | Path, truth: str | Path | None = None, processes: int = 1) -> RunData:
    """Load a recording (.mcap) or a table of estimates (.csv), and the truth if given.

    UsageError for a file of another kind; RunError without estimates, or if the truth has nothing in common
    with them.
    """
    path = Path(path)
    if is_mcap(path):
        log = McapLog(path)
        estimates, recorded = read_recorded(log, processes)
        if not len(estimates.t):
            raise RunError(f"{path}: no estimates in it; expected the recording of a run")
        at = at_point(estimates, read_configuration(log))
        data = RunData(path.name, int(estimates.t[0]), at, recorded, [log.problems])
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
        scores=replace(score(comparison), sensors=data.recorded.scores),
    )
