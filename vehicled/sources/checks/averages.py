"""Averages of incoming measurements over half a second, in which outliers and noise have little effect."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from vehicled.maths.angles import wrap
from vehicled.maths.geodesy import MEAN_RADIUS
from vehicled.messages import CHANNELS, Measurement
from vehicled.sources.speeds.wheels import ANGLES

_INTERVAL_NS = 500_000_000
_LARGEST = 1e7
"""A larger value, or NaN, is no measurement in any unit."""
_SHORTEST, _LONGEST = 0.3, 2.5
"""s: shortest time between the first and the last angle, and shortest and longest time between fixes, for a
rate."""
_MOST = 10_000
"""Most measurements kept of an interval, five times as many as sensors send: in a log, all may have the same
time."""
_AVERAGED = frozenset(
    c
    for c in CHANNELS
    if c.startswith(("imu.", "wheel.", "steer.", "vehicle.")) or c in ("gnss.speed", "gnss.course")
)
_ANGLES = frozenset(ANGLES)
_Fix = tuple[int, float, float, float | None]
"""Time, ns; latitude and longitude, deg; course."""


@dataclass(slots=True)
class Averages:
    """Averages of an interval."""

    means: dict[str, float] = field(default_factory=dict)
    """By channel."""
    rates: dict[str, float] = field(default_factory=dict)
    """Change per second of a wheel's angle, by channel."""
    position_speed: float | None = None
    """Speed over ground, m/s, by two fixes."""
    course_rate: float | None = None
    """Change of the course between the same fixes, per second, counter-clockwise."""
    position_course: float | None = None
    """Direction from one of these fixes to the other, rad, clockwise from north."""
    course: float | None = None
    """Mean of the courses of these fixes."""


class Averager:
    """Gathers measurements, in order of arrival."""

    def __init__(self) -> None:
        self._begun_ns = -math.inf
        # Evaluated all at once at the end: code and sums are then fetched into the CPU's caches only once.
        self._kept: defaultdict[tuple[str, ...], list[tuple[float, ...]]] = defaultdict(list)
        """By channels: time, ns, and values of the measurements of this interval that have them."""
        self._room = _MOST
        """Number of measurements that may still be kept of this interval."""
        self._fix: _Fix | None = None
        self._fix_before: _Fix | None = None
        """The last fix of the previous interval."""

    def take(self, m: Measurement) -> Averages | None:
        """Take a measurement. Returns the averages of the interval that it ends, or None."""
        # Intervals are by arrival: otherwise each sample of a device with late samples would begin another
        # one.
        since, done, values = m.arrival - self._begun_ns, None, m.values
        if not -_INTERVAL_NS < since < _INTERVAL_NS:
            if _INTERVAL_NS <= since < 4 * _INTERVAL_NS:
                done = self._finish()
            else:
                self._fix = self._fix_before = None
            self._begin(m.arrival)
        if self._room > 0:
            self._room -= 1
            self._kept[tuple(values)].append((m.t, *values.values()))
        if "gnss.lat" in values:
            self._take_fix(m)
        return done

    def _take_fix(self, m: Measurement) -> None:
        lat, lon = m.values["gnss.lat"], m.values.get("gnss.lon", math.nan)
        course = m.values.get("gnss.course", math.nan)
        if m.values.get("gnss.quality", 1.0) >= 1.0 and abs(lat) <= 90.0 and abs(lon) <= 360.0:
            self._fix = m.t, lat, lon, course if abs(course) < _LARGEST else None

    def _begin(self, arrival_ns: int) -> None:
        self._begun_ns, self._room = arrival_ns, _MOST
        self._kept.clear()

    def _finish(self) -> Averages:
        done = Averages()
        counts: dict[str, int] = {}
        for channels, kept in self._kept.items():
            if not _AVERAGED.isdisjoint(channels):
                _add_up(done, counts, channels, kept)
        for channel, count in counts.items():
            done.means[channel] /= count
        self._compare_fixes(done)
        return done

    def _compare_fixes(self, done: Averages) -> None:
        if self._fix is None:
            return
        before, self._fix_before = self._fix_before, self._fix
        if before is None:
            return
        (t_ns, lat, lon, course), (before_ns, before_lat, before_lon, before_course) = self._fix, before
        dt = (t_ns - before_ns) * 1e-9
        if not _SHORTEST < dt < _LONGEST:
            return
        north, east = math.radians(lat - before_lat), math.radians(math.remainder(lon - before_lon, 360.0))
        east *= math.cos(math.radians(lat))
        done.position_speed = MEAN_RADIUS * math.hypot(north, east) / dt
        done.position_course = math.atan2(east, north)
        if course is not None and before_course is not None:
            done.course_rate = -wrap(course - before_course) / dt
            done.course = before_course + 0.5 * wrap(course - before_course)


def _add_up(
    done: Averages, counts: dict[str, int], channels: Sequence[str], kept: Sequence[tuple[float, ...]]
) -> None:
    """Add measurements of these channels: values to `means`, as sums, their numbers to `counts`; and rates."""
    times, *columns = zip(*kept, strict=True)
    for channel, values in zip(channels, columns, strict=True):
        if channel not in _AVERAGED:
            continue
        total, at = sum(values), times
        if not (min(values) > -_LARGEST and max(values) < _LARGEST) or math.isnan(total):
            good = [
                (t, value) for t, value in zip(times, values, strict=True) if -_LARGEST < value < _LARGEST
            ]
            if not good:
                continue
            at, values = zip(*good, strict=True)
            total = sum(values)
        counts[channel] = counts.get(channel, 0) + len(values)
        done.means[channel] = done.means.get(channel, 0.0) + total
        if channel in _ANGLES and at[-1] - at[0] > _SHORTEST * 1e9:
            done.rates[channel] = (values[-1] - values[0]) / ((at[-1] - at[0]) * 1e-9)
