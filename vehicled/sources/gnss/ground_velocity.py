"""Speed and course over ground of receivers that give their velocity as a vector.

The filter uses the vector. Comparisons between sensors, and the start, use speed and course. If a receiver
gives only these, the filter uses their vector near standstill, because a speed does not show whether a car
reverses.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Container, Mapping

from vehicled.messages import Measurement
from vehicled.sources.limits import FASTEST

_RECEIVERS = tuple(
    tuple(f"{name}.{what}" for what in ("vn", "ve", "speed", "course")) for name in ("gnss", "gnss2")
)
VECTORS = frozenset(north for north, *_ in _RECEIVERS)
"""Channels that every velocity vector contains."""
_SHOWN = 5.0
"""Number of σ of a velocity: at lower speeds, a course is noise, or held by the receiver."""
_ALIKE, _SHORTEST = 1.0, 0.001
"""s within which velocities near standstill have the same error; and the least interval between them, s."""
_HELD = 0.5
"""m/s: some receivers report zero below this speed."""
LEAST_SPEED = 0.3
"""m/s: below it, the speed of a noisy velocity is no longer Gaussian."""


def find_channels(m: Measurement, wrong: Container[str]) -> list[str]:
    """Channels of a measurement that are `wrong`, and the velocity vector if a wrong speed came from it."""
    values = m.values
    found = [c for c in values if c in wrong]
    if "gnss.speed" in found and "gnss.vn" in values and "gnss.ve" in values:
        speed = math.hypot(values["gnss.vn"], values["gnss.ve"])
        if math.isclose(speed, values["gnss.speed"], rel_tol=0.1):
            found += [c for c in ("gnss.vn", "gnss.ve", "gnss.vd") if c in values]
    return found


def add_speed_and_course(m: Measurement) -> Measurement:
    """Add speed and course by a measurement's vector, if a car can have it; its own values stay."""
    values = m.values
    for north, east, speed, course in _RECEIVERS:
        if north in values and east in values:
            vn, ve = values[north], values[east]
            fast = math.hypot(vn, ve)
            if fast <= FASTEST:
                found = {speed: fast, course: math.atan2(ve, vn) % (2.0 * math.pi)}
                m = Measurement(m.source, m.t, m.arrival, found | m.values)
    return m


class GroundVectors:
    """Velocities of one receiver that are used as vectors."""

    def __init__(self) -> None:
        self._last_ns = 0
        self.are_given = False
        """Whether the receiver has given a vector; else vectors are made of speed and course, only near
        standstill."""

    def find(
        self, t_ns: int, v: Mapping[str, float], sigma: float, moving: bool
    ) -> tuple[complex | None, float]:
        """Velocity over ground, east + i north, and its σ, m/s; None if speed and course are used separately.

        `v`: values by name; `sigma`: of the speed, m/s; `moving`: whether a course is used by itself.
        """
        interval, self._last_ns = (t_ns - self._last_ns) * 1e-9, t_ns
        if "vn" in v and "ve" in v:
            self.are_given = True
            return complex(v["ve"], v["vn"]), sigma
        slow = None if moving else find_slow_vector(v, sigma, interval)
        return slow or (None, sigma)


def find_slow_vector(v: Mapping[str, float], sigma: float, interval: float) -> tuple[complex, float] | None:
    """Velocity, east + i north, and its σ per axis, m/s, from speed and course; None if they do not give one.

    `v`: values by name; `sigma`: σ of the speed; `interval`: time since the previous one, s. Near standstill
    it is zero, with a σ of speed and noise together: that error lasts, so it counts once per second, however
    often velocities come. A speed of exactly zero is held by the receiver, and the true speed may be up to
    the hold limit.
    """
    speed = v.get("speed")
    if speed is None:
        return None
    if speed < max(_SHOWN * sigma, LEAST_SPEED):
        return 0j, math.hypot(speed or _HELD, sigma) / math.sqrt(
            min(max(interval, _SHORTEST), _ALIKE) / _ALIKE
        )
    return (cmath.rect(speed, 0.5 * math.pi - v["course"]), sigma) if "course" in v else None
