"""The queue between the driver threads and the estimator: ordered by time, and bounded."""

import heapq
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from vehicled.messages import Measurement


class MeasurementQueue:
    """Queue with many producers and one consumer. Its order is by arrival, then by source, then by time of `put`.

    That order holds over all calls of `drain` together: a recording that is replayed by arrival has every
    measurement in the same filter step again.
    """

    def __init__(self, sources: Sequence[str], capacity: int = 4096) -> None:
        """`sources`: names of the devices, in the order in which equal arrivals come out.

        `capacity`: measurements; a full queue drops its oldest, counted under the source that loses it. Raises
        ValueError for less than one.
        """
        if capacity < 1:
            raise ValueError("a queue needs a capacity of at least one measurement")
        self._order = {source: i for i, source in enumerate(sources)}
        self._capacity = capacity
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, int, Measurement]] = []
        self._put = 0
        self._late = 0
        self._high_water = 0
        self._dropped: dict[str, int] = {}
        self._drained_until: int | None = None

    def put(self, measurement: Measurement) -> None:
        """Called by the driver threads; microseconds, and never blocks for longer than another `put`."""
        with self._lock:
            # An unknown source comes after all known ones.
            order = self._order.get(measurement.source, len(self._order))
            entry = (measurement.arrival, order, self._put, measurement)
            self._put += 1
            if len(self._heap) < self._capacity:
                heapq.heappush(self._heap, entry)
                if len(self._heap) > self._high_water:
                    self._high_water = len(self._heap)
            else:
                oldest = heapq.heappushpop(self._heap, entry)[3]
                self._dropped[oldest.source] = self._dropped.get(oldest.source, 0) + 1

    def drain(self, until: int) -> list[Measurement]:
        """Take everything that arrived no later than `until`, ns.

        A thread may be delayed between reading the time of arrival and `put`, until the step of its
        measurement is over. The arrival is then changed to just after that step, as the measurement takes
        effect in the next step.
        """
        taken: list[Measurement] = []
        with self._lock:
            floor = self._drained_until
            if floor is not None:
                while self._heap and self._heap[0][0] <= floor:
                    _, order, number, late = heapq.heappop(self._heap)
                    late = msgspec.structs.replace(late, arrival=floor + 1)
                    self._late += 1
                    heapq.heappush(self._heap, (late.arrival, order, number, late))
            while self._heap and self._heap[0][0] <= until:
                taken.append(heapq.heappop(self._heap)[3])
            self._drained_until = until if floor is None else max(floor, until)
        return taken

    def counters(self) -> dict[str, Any]:
        """Measurements `put`, `waiting`, `late` (after their step), `dropped` by source; `high_water`."""
        with self._lock:
            return {
                "put": self._put,
                "waiting": len(self._heap),
                "high_water": self._high_water,
                "late": self._late,
                "dropped": dict(self._dropped),
            }
