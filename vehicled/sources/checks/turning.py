"""Whether other sensors than the gyroscopes show that the car has begun, or ceased, to turn.

A gyroscope whose readings come in coarse steps repeats itself for seconds on a straight road. Nothing is known about
its steps before its first change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vehicled.maths.angles import wrap

LEAST = 0.03
"""rad/s: change of the yaw rate that any gyroscope shows: usual ones have steps of 0.017 rad/s at most."""
_LASTING_NS = 200_000_000
"""Time for which the steering must show it: single angles are noisy."""
_WHEELS = 0.003
"""rad/m: the same of wheels, in addition, per speed: counters have teeth, and radii differ."""
_COURSES = 0.4
"""m/s²: the same of courses, over the speed: velocities are noisy."""
_IN_A_ROW = 2
"""Consecutive averages of wheels or courses that must show it."""
_INTERVAL = 0.5
"""s: interval of the averages."""
_SLOWEST = 5.0
"""m/s: at less, courses are noisy."""
_COURSE = "gnss.course"
_AXLES = ("wheel.fl", "wheel.fr"), ("wheel.rl", "wheel.rr")


class TurnChange:
    """Compares the yaw rate by each of the other sensors with that at the first call."""

    def __init__(self, track: float) -> None:
        """`track`: distance of the wheels of an axle, m."""
        self._track = track
        self.has_changed = False
        """Whether any of them has shown a change."""
        self._curvature: float | None = None
        """1/m: by the steering, at the first call."""
        self._straight_ns = 0
        """Time when the steering last showed no change."""
        self._means: Mapping[str, float] = {}
        self._first: dict[str, float] = {}
        """By wheels and by course: at the first average, rad/s."""
        self._row: dict[str, int] = {}
        """Number of averages in a row that have shown a change, negative to the right."""

    def take(self, t_ns: int, speed: float, steering: float | None, means: Mapping[str, float]) -> bool:
        """Look at the others; returns `has_changed`.

        `speed` of the moving car, m/s; `steering`: yaw rate by it, rad/s, None if not measured; `means`: averages
        by channel.
        """
        if steering is None:
            self._straight_ns = t_ns
        else:
            curvature = steering / speed
            if self._curvature is None:
                self._curvature = curvature
            if speed * abs(curvature - self._curvature) < LEAST:
                self._straight_ns = t_ns
        shown = t_ns - self._straight_ns > _LASTING_NS
        if means is not self._means:
            for name, rate in self._find_rates(speed, means):
                apart = rate - self._first.setdefault(name, rate)
                before, sign = self._row.get(name, 0), 1 if apart > 0.0 else -1
                row = (before if before * sign > 0 else 0) + sign
                least = LEAST + (_COURSES / speed if name == _COURSE else _WHEELS * speed)
                self._row[name] = row if abs(apart) > least else 0
                shown |= abs(self._row[name]) >= _IN_A_ROW
            self._means = means
        self.has_changed |= shown
        return self.has_changed

    def _find_rates(self, speed: float, means: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        """Yaw rates, rad/s, with the name of what shows them."""
        before = self._means
        for pair in _AXLES:
            left, right = (means.get(f"{w}.speed") or _find_turn(f"{w}.angle", before, means) for w in pair)
            if left > 0.0 and right > 0.0:
                yield pair[0], 2.0 * speed * (right - left) / (right + left) / self._track
        if speed > _SLOWEST and _COURSE in means and _COURSE in before:
            yield _COURSE, wrap(before[_COURSE] - means[_COURSE]) / _INTERVAL


def _find_turn(angle: str, before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """By how much a wheel's angle has increased, rad; 0 if it is not known."""
    return now[angle] - before[angle] if angle in now and angle in before else 0.0
