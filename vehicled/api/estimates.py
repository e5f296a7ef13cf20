"""Estimates, or the truth, of a whole drive as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_COLUMNS, LOAD_COLUMNS, Estimate, Innovation
from vehicled.points import ORIGIN, find_point, with_point
from vehicled.units import Vector

if TYPE_CHECKING:
    import pandas


class Estimates:
    """A table over time: `estimates["yaw"]` is (n,) float64, NaN where unknown.

    Columns are those of the estimates table in the documentation: SI units and radians, latitude and longitude in
    degrees. World axes point east, north and up, vehicle axes forwards, left and up (ISO 8855).
    """

    def __init__(
        self, t_ns: np.ndarray, columns: Mapping[str, np.ndarray], innovations: Iterable[Innovation] = ()
    ) -> None:
        """`t_ns` (n,) int64, ns; `columns`: (n,) float64 each."""
        self.t_ns = t_ns
        """(n,) int64, ns on the clock of the log."""
        self.innovations = list(innovations)
        """A record of each observation in the order of the filter's updates, accepted or rejected; empty where they
        are not known."""
        self._columns = dict(columns)

    @classmethod
    def from_rows(
        cls, rows: Iterable[Estimate], innovations: Iterable[Innovation] = (), point: Vector = ORIGIN
    ) -> Estimates:
        """All columns, from what `Estimator.step` returned; `point`: that they are of, if not the vehicle origin.

        With `output.loads` those of the forces in the joints, too.
        """
        rows = list(rows)
        values = np.array([row.values for row in rows]).reshape(len(rows), len(ESTIMATE_COLUMNS))
        t_ns = np.array([row.t for row in rows], dtype=np.int64)
        columns = dict(zip(ESTIMATE_COLUMNS, values.T.copy(), strict=True))
        loads = [row.loads for row in rows if row.loads is not None]
        if loads:
            columns |= zip(LOAD_COLUMNS, np.array(loads).T.copy(), strict=True)
        return cls(t_ns, columns if point == ORIGIN else with_point(columns, point), innovations)

    @classmethod
    def read(cls, path: str | Path) -> Estimates:
        """From a recording (.mcap), with innovations, or from a table of estimates or truth (.csv).

        Raises UsageError for a file that is neither or cannot be read.
        """
        from vehicled.scoring.scores import read_run

        try:
            run = read_run(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        return cls(run.estimates.t, run.estimates.columns, run.innovations)

    @property
    def t(self) -> np.ndarray:
        """(n,) float64, s on the clock of the log: the number nearest to the decimal one, as files have it."""
        return self.t_ns / 1e9

    @property
    def point(self) -> Vector:
        """The point that position, velocity, sideslip and acceleration are of: m, vehicle axes."""
        return find_point(self._columns) or ORIGIN

    @property
    def columns(self) -> tuple[str, ...]:
        """Names, in order."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(self.t_ns)

    def __getitem__(self, column: str) -> np.ndarray:
        """(n,) float64. Raises KeyError."""
        return self._columns[column]

    def __repr__(self) -> str:
        span = f", {self.t[0]:.3f} to {self.t[-1]:.3f} s" if len(self) else ""
        return f"<Estimates: {len(self)} rows, {len(self.columns)} columns{span}>"

    def to_pandas(self) -> pandas.DataFrame:
        """A frame with the index `t` in s and a column for each of ours. Raises UsageError without pandas."""
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas: needs pandas: pip install 'vehicled[pandas]'") from None
        return pandas.DataFrame(self._columns, index=pandas.Index(self.t, name="t"))
