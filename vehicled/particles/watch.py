"""Judges whether sensors and particles agree, by the share of rejected readings within a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from vehicled.messages import Innovation

_ENOUGH = 5
"""Least number of a sensor's readings for judging the share, however rarely they come."""
_MANY = 0.2
"""Share of rejected readings beyond which sensor and particles disagree. A sensor with its configured
standard deviation has hardly any rejected readings, and a loose contact in a cable causes a few."""
_WELL = 2.0
"""A sensor confirms the particles if the mean square of its normalised innovations is below this. It is at
most 1 if the sensor has its configured standard deviation."""
_CLIP = 9.0
"""Upper limit of an innovation's square in that mean, so that single outliers do not decide."""


@dataclass(frozen=True)
class Misfit:
    """A sensor many of whose readings were rejected."""

    sensor: int
    beyond: int
    readings: int


@dataclass(frozen=True)
class Verdict:
    """Result of judging the recent readings."""

    misfits: tuple[Misfit, ...]
    are_faults: bool
    """Whether these sensors are faulty, as the others confirm the particles. Otherwise the particles are
    wrong."""


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
        """Take the record of a reading compared with the particles' prediction."""
        self._windows[sensor].take(record)

    def judge(self, t: int) -> Verdict | None:
        """Judge at the time t (ns) of the last reading; None while there are too few readings."""
        since = t - self._length
        if since < self._begun:
            return None
        misfits, fitting, judged = [], set(), False
        for k, window in enumerate(self._windows):
            window.drop_before(since)
            count = len(window.readings)
            # A silent sensor is not judged.
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
