"""A drive that is repeated without end: each lap continues where the last one ended."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vehicled.messages import Measurement


@dataclass(frozen=True)
class Laps:
    """The measurements of a drive that ends as it began, again and again, in memory that does not grow.

    The car must be at the end in the state, and with the heading, that it had at the start; where it is then, and how
    far its wheels have turned, is in `gained`.
    """

    measurements: Sequence[Measurement]
    """Of one lap, in order of arrival."""
    lap_ns: int
    """Length of a lap: each begins so much later, ns."""
    gained: Mapping[str, float]
    """By how much a channel is greater in each lap than in the one before."""
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
