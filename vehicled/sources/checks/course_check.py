"""Checks courses over ground against positions: courses in degrees, or counted counter-clockwise.

The direction in which positions move is only as good as the positions. So a course counts as
counter-clockwise only if it also turns against gyroscope or steering: with latitude and longitude exchanged,
it is the direction of the positions that does.
"""

from __future__ import annotations

import cmath
import math
from collections import deque

from vehicled.maths.angles import wrap

_LEAST, _KEPT, _KEPT_TURNS = 8, 120, 16
"""Numbers of intervals of half a second: least with courses, for a result; kept; and kept in turns."""
_AGREEING = 0.75
"""Share of these intervals that must agree."""
_ASTRAY, _ALIGNED = 0.5, 0.2
"""rad: beyond the first a course contradicts that of the positions; within the second it agrees with it."""
_DEGREES = 180.0 / math.pi

IN_DEGREES = "in deg"
"""Result of `find` for courses in degrees."""
_EXPECTED = "expected courses over ground, clockwise from north"
_ORIGINS = {"north": 0.0, "east": 0.5 * math.pi}


class CourseCheck:
    """Compares courses with the directions in which positions move."""

    def __init__(self) -> None:
        self._courses: deque[tuple[float, float, float]] = deque(maxlen=_KEPT)
        """rad: differences between courses and those of the positions: as given; if courses are in degrees;
        and if latitude and longitude are exchanged."""
        self._turns: deque[tuple[float, float, bool]] = deque(maxlen=_KEPT_TURNS)
        """In turns: the difference as given, the sum of both, and whether the course turns against the
        car."""
        self._origin: complex | None = None
        """Direction from which courses are counted counter-clockwise, if they are."""

    def take(self, course: float, position_course: float, turns_otherwise: bool | None) -> None:
        """Take the course of an interval and the direction of the positions, rad.

        `turns_otherwise`: whether the course turns against the car; None if unknown.
        """
        apart = wrap(course - position_course)
        exchanged = wrap(course + position_course - 0.5 * math.pi)
        self._courses.append((apart, wrap(course / _DEGREES - position_course), exchanged))
        if turns_otherwise is None:
            return
        self._turns.append((apart, course + position_course, turns_otherwise))
        # If the sum stays constant while both turn, they turn in opposite senses.
        origin = sum(cmath.rect(1.0, total) for _, total, _ in self._turns)
        begin = cmath.phase(origin)
        mirrored = sum(
            otherwise and abs(wrap(total - begin)) < min(abs(apart), _ASTRAY)
            for apart, total, otherwise in self._turns
        )
        if len(self._turns) >= _LEAST and mirrored >= _AGREEING * len(self._turns):
            self._origin = origin
        elif mirrored <= (1.0 - _AGREEING) * len(self._turns):
            self._origin = None

    @property
    def is_certain(self) -> bool:
        """Whether only wrong courses explain what was found."""
        return self._origin is not None or self.find() == IN_DEGREES

    def find(self) -> str | None:
        """What is wrong, in words or `IN_DEGREES`."""
        if self._origin is not None:
            angle = cmath.phase(self._origin)
            begin = next(
                (f" from {name}" for name, at in _ORIGINS.items() if abs(wrap(angle - at)) < _ALIGNED), ""
            )
            return f"counted counter-clockwise{begin}: {_EXPECTED}"
        if len(self._courses) < _LEAST:
            return None
        enough = _AGREEING * len(self._courses)
        if sum(abs(off) > _ASTRAY for off, *_ in self._courses) < enough:
            return None
        if sum(abs(exchanged) < _ALIGNED for _, _, exchanged in self._courses) >= enough:
            # For a car that goes east with exchanged positions, correct courses also fit those in degrees of
            # a car that goes north. So this is checked first.
            return (
                f"positions move in other directions, as with latitude and longitude exchanged: {_EXPECTED}"
            )
        if sum(abs(in_degrees) < _ALIGNED for _, in_degrees, _ in self._courses) >= enough:
            return IN_DEGREES
        return f"positions move in other directions: {_EXPECTED}"
