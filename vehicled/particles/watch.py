"""Whether sensors and particles fit each other: by the share of readings that are refused within a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from vehicled.messages import Innovation

_ENOUGH = 5
"""Readings of a sensor from which a share of them is judged, however rarely they come."""
_MANY = 0.2
"""Share of refused readings beyond which a sensor and the particles do not fit. A sensor of the deviation that the
configuration says has hardly any beyond the limit of rejection, and a cable with a loose contact a few."""
_WELL = 2.0
"""Mean square of the innovations of a sensor, in standard deviations, below which it confirms the particles. It is at
most 1 where the deviation of the sensor is as the configuration says."""
_CLIP = 9.0
"""Square that an innovation has in that mean at most, so that single outliers do not decide."""


@dataclass(frozen=True)
class Misfit:
    """A sensor of whose readings many were beyond the limit of rejection."""

    sensor: int
    beyond: int
    readings: int


@dataclass(frozen=True)
class Verdict:
    """What the readings of the last while say."""

    misfits: tuple[Misfit, ...]
    are_faults: bool
    """Of these sensors: the others confirm the particles. Otherwise the particles are wrong."""


class _Window:
    """The last readings of a sensor."""

    def __init__(self) -> None:
        self.readings: deque[tuple[int, bool, float]] = deque()
        """Time (ns), whether beyond the limit of rejection, clipped square of the innovation."""
        self.beyond = 0
        self.square = 0.0
        """Sum of squares."""

    def take(self, record: Innovation) -> None:
        beyond, square = record.test_ratio > 1.0, min(record.nis, _CLIP)
        self.readings.append((record.t, beyond, square))
        self.beyond += beyond
        self.square += square

    def drop_before(self, t: int) -> None:
        while len(self.readings) > _ENOUGH and self.readings[0][0] < t:
            _, beyond, square = self.readings.popleft()
            self.beyond -= beyond
            self.square -= square


class Watch:
    """Judges the readings of all sensors since the particles began."""

    def __init__(self, sensors: int, seconds: float, suffice: Callable[[frozenset[int]], bool]) -> None:
        """`seconds` of readings are judged. `suffice`: whether these sensors alone determine the state."""
        self._windows = [_Window() for _ in range(sensors)]
        self._length = round(seconds * 1e9)
        self._suffice = suffice
        self._begun = 0

    def begin(self, t: int) -> None:
        """The particles have begun anew at t (ns)."""
        self._begun = t
        self._windows = [_Window() for _ in self._windows]

    def take(self, sensor: int, record: Innovation) -> None:
        """A reading of a sensor beside what the particles predict."""
        self._windows[sensor].take(record)

    def judge(self, t: int) -> Verdict | None:
        """At the time t (ns) of the last reading; None while there are too few."""
        since = t - self._length
        if since < self._begun:
            return None
        misfits, fitting, judged = [], set(), False
        for k, window in enumerate(self._windows):
            window.drop_before(since)
            count = len(window.readings)
            # Of a sensor that has become silent nothing is known.
            if count < _ENOUGH or window.readings[-1][0] < since:
                continue
            judged = True
            if window.beyond > _MANY * count:
                misfits.append(Misfit(k, window.beyond, count))
            elif window.square < _WELL * count:
                fitting.add(k)
        if not judged:
            return None
        return Verdict(tuple(misfits), bool(misfits) and self._suffice(frozenset(fitting)))
