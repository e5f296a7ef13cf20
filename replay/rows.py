"""Measurements as rows of a table: a row is one instant, with a cell for each channel."""

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replay.steps import LOOK_AHEAD_NS
from vehicled.messages import CHANNELS, Measurement

ARRIVAL = "gnss.arrival"
"""The one column that is not a channel: when the fix of this row arrived."""


def source_of(channel: str) -> str:
    """Used in place of the device, which tables do not name: `imu.ax` → `imu`, `wheel.fl.angle` → `wheel.angle`."""
    parts = channel.split(".")
    return f"{parts[0]}.{parts[2]}" if len(parts) == 3 else parts[0]


class TableRow(NamedTuple):
    """All that was measured at one instant."""

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
        """Samples that arrived later than measured but of a sensor whose arrival has no column."""
        self.same_instant = 0
        """Second samples of a channel at one instant: a row of their own; readers take it for a duplicate."""
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
