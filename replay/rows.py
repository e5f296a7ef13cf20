"""Measurements as rows of a table: one time per row, with a cell for each channel."""

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replay.steps import LOOK_AHEAD_NS
from vehicled.messages import CHANNELS, Measurement

ARRIVAL = "gnss.arrival"
"""Column that is not a channel: time of arrival of the row's fix."""


def source_of(channel: str) -> str:
    """Source for tables, which do not name devices: `imu.ax` → `imu`, `wheel.fl.angle` → `wheel.angle`."""
    parts = channel.split(".")
    return f"{parts[0]}.{parts[2]}" if len(parts) == 3 else parts[0]


class TableRow(NamedTuple):
    """All measurements of one time."""

    t: int
    """ns."""
    values: dict[str, float]
    """By channel."""
    arrival: int | None
    """ns, of a fix that arrived later than it was measured."""


class RowMerger:
    """Merges the sensors of one instant into one row; rows are in order of measurement, within a bounded window."""

    def __init__(self, channels: Iterable[str]) -> None:
        """`channels` that will come."""
        wanted = set(channels)
        self.channels = [c for c in CHANNELS if c in wanted]
        self.has_arrival = any(c.startswith("gnss.") for c in self.channels)
        """Whether a table of them needs a column for the arrival of fixes."""
        self.arrivals_lost = 0
        """Number of samples with a late arrival that is lost, as their sensor has no column for it."""
        self.same_instant = 0
        """Number of second samples of a channel at one time: they get a row of their own, which readers take
        for a duplicate."""
        self._held: list[tuple[int, int, Measurement]] = []
        self._order = 0
        self._newest: int | None = None
        self._row: TableRow | None = None

    def take(self, m: Measurement) -> Iterator[TableRow]:
        """Take a measurement; yields the rows that are complete: those older than the newest by the window."""
        heapq.heappush(self._held, (m.t, self._order, m))
        self._order += 1
        self._newest = m.t if self._newest is None else max(self._newest, m.t)
        while self._held and self._held[0][0] <= self._newest - LOOK_AHEAD_NS:
            yield from self._merge(heapq.heappop(self._held)[2])

    def finish(self) -> Iterator[TableRow]:
        """The rows that are left."""
        while self._held:
            yield from self._merge(heapq.heappop(self._held)[2])
        if self._row is not None:
            yield self._row
            self._row = None

    def _merge(self, m: Measurement) -> Iterator[TableRow]:
        arrival = None
        if m.arrival != m.t:
            if any(channel.startswith("gnss.") for channel in m.values):
                arrival = m.arrival
            else:
                self.arrivals_lost += 1
        row = self._row
        taken = row is not None and m.t == row.t and not row.values.keys().isdisjoint(m.values)
        self.same_instant += taken
        if row is not None and m.t == row.t and not taken:
            row.values.update(m.values)
            if arrival is not None:
                self._row = row._replace(arrival=arrival)
            return
        if row is not None:
            yield row
        self._row = TableRow(m.t, dict(m.values), arrival)
