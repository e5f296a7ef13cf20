"""Check of the mounting of a two-antenna baseline: its heading against the course over ground.

On a straight a car moves along its heading, so that both differ only by the error of the mounting angle; in a
bend they differ by less than half a right angle.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from statistics import median

from vehicled.maths.angles import wrap

_FAST, _STRAIGHT = 3.0, 0.05
"""m/s and rad/s: at a higher speed and a lower yaw rate, sideslip and latencies change the angle by less than
degrees."""
_SLOW, _GROSS = 2.0, math.radians(45.0)
"""m/s, and rad: above that speed, a car moves along its heading within that angle, also in a bend."""
_LARGEST, _SIGMAS = math.radians(10.0), 4.0
"""rad, and standard deviations of the mounting angle: a larger difference means another mounting."""
_KEPT = 15
"""Number of comparisons; more than half of them must exceed the limit."""
_TOGETHER_NS = 200_000_000
"""Longest time between a course and a heading that are compared."""


class HeadingCheck:
    """Finds whether the heading of a receiver is that of the configured baseline."""

    def __init__(self) -> None:
        self._apart: deque[float] = deque(maxlen=_KEPT)
        """Magnitudes of the differences on straights, rad."""
        self._anyhow: deque[float] = deque(maxlen=_KEPT)
        """The same, including bends."""
        self._course = 0.0
        self._course_ns = -_TOGETHER_NS
        self.is_wrong = False
        """Whether the receiver's headings must not be used."""

    def forget(self) -> None:
        """Forget the comparisons, as another mounting angle is configured."""
        self._apart.clear()
        self._anyhow.clear()
        self.is_wrong = False

    def take(
        self, t_ns: int, values: Mapping[str, float], motion: tuple[float, float], angle: tuple[float, float]
    ) -> None:
        """Take course and heading of a measurement, as far as it has them.

        `motion`: forward speed (m/s) and yaw rate (rad/s) of the car; `angle`: of the baseline, and its σ,
        rad.
        """
        ahead, yaw_rate = motion
        if abs(ahead) < _SLOW:
            return
        if "course" in values:
            self._course_ns, self._course = t_ns, values["course"]
        if "heading" in values and t_ns - self._course_ns < _TOGETHER_NS:
            backwards = math.pi if ahead < 0.0 else 0.0
            apart = abs(wrap(values["heading"] + angle[0] - self._course - backwards))
            self._anyhow.append(apart)
            if abs(ahead) > _FAST and abs(yaw_rate) < _STRAIGHT:
                self._apart.append(apart)
            limits = (self._apart, max(_LARGEST, _SIGMAS * angle[1])), (self._anyhow, _GROSS)
            known = [median(kept) > limit for kept, limit in limits if len(kept) == _KEPT]
            self.is_wrong = any(known) if known else self.is_wrong
