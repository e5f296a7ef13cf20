"""A drive that is repeated without end: each lap continues where the last one ended."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vehicled.messages import Measurement


@dataclass(frozen=True)
class Laps:
    """The measurements of a drive that ends as it began, again and again, in memory that does not grow.

    At the end, the car must have the same state and heading as at the start; `gained` has the change of its
    position and of its wheels' angles.
    """

    measurements: Sequence[Measurement]
    """Measurements of one lap, in order of arrival."""
    lap_ns: int
    """Length of a lap, ns: each begins this much later than the one before."""
    gained: Mapping[str, float]
    """Increase of a channel from lap to lap."""
    end_ns: int
    """Arrivals from this time on are left out, ns; the clock is that of the measurements."""

    def __iter__(self) -> Iterator[Measurement]:
        lap = 0
        while True:
            later = lap * self.lap_ns
            for m in self.measurements:
                if m.arrival + later >= self.end_ns:
                    return
                values = {c: v + lap * self.gained.get(c, 0.0) for c, v in m.values.items()}
                yield Measurement(m.source, m.t + later, m.arrival + later, values)
            lap += 1
