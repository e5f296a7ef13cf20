"""Speed and course over ground of receivers that give their velocity as a vector.

The filter uses the vector. What compares sensors with each other, and the start, use speed and course. Of receivers
that give these alone the filter uses the vector near standstill: a speed does not say whether a car goes backwards.
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
"""Channels without which there is no such vector."""
_SHOWN = 5.0
"""σ of a velocity: slower, a course is noise, or one that the receiver has kept."""
_ALIKE, _SHORTEST = 1.0, 0.001
"""s within which velocities next to standstill err alike; and the least interval between them."""
_HELD = 0.5
"""m/s: some receivers report zero below that."""
LEAST_SPEED = 0.3
"""m/s: next to standstill the speed of a noisy velocity is no longer Gaussian."""


def find_channels(m: Measurement, wrong: Container[str]) -> list[str]:
    """Those of its channels that are `wrong`, and a vector of which a speed that is wrong was calculated."""
    values = m.values
    found = [c for c in values if c in wrong]
    if "gnss.speed" in found and "gnss.vn" in values and "gnss.ve" in values:
        speed = math.hypot(values["gnss.vn"], values["gnss.ve"])
        if math.isclose(speed, values["gnss.speed"], rel_tol=0.1):
            found += [c for c in ("gnss.vn", "gnss.ve", "gnss.vd") if c in values]
    return found


def add_speed_and_course(m: Measurement) -> Measurement:
    """A measurement with those that follow from its vector, where a car can have it; its own values stay."""
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
    """Velocities of one receiver, as far as they are used as vectors."""

    def __init__(self) -> None:
        self._last_ns = 0
        self.are_given = False
        """Whether the receiver has given any; else they are made of speed and course, and only near standstill."""

    def find(
        self, t_ns: int, v: Mapping[str, float], sigma: float, moving: bool
    ) -> tuple[complex | None, float]:
        """Velocity over ground, east + i north, and its σ, m/s; None where speed and course count one by one.

        `v`: values by name, with `sigma` of the speed, m/s; `moving`: whether a course counts by itself.
        """
        interval, self._last_ns = (t_ns - self._last_ns) * 1e-9, t_ns
        if "vn" in v and "ve" in v:
            self.are_given = True
            return complex(v["ve"], v["vn"]), sigma
        slow = None if moving else find_slow_vector(v, sigma, interval)
        return slow or (None, sigma)


def find_slow_vector(v: Mapping[str, float], sigma: float, interval: float) -> tuple[complex, float] | None:
    """A receiver's velocity, east + i north, and its σ per axis, m/s, by speed and course; None where they show none.

    `v`: its values by name; `sigma`: σ of the speed; `interval` since the one before, s. Next to standstill it is
    zero, by as much as speed and noise: an error that lasts, and counts once per second however often they come. A
    speed of exactly zero is held by the receiver, and may be any that is as slow.
    """
    speed = v.get("speed")
    if speed is None:
        return None
    if speed < max(_SHOWN * sigma, LEAST_SPEED):
        return 0j, math.hypot(speed or _HELD, sigma) / math.sqrt(
            min(max(interval, _SHORTEST), _ALIKE) / _ALIKE
        )
    return (cmath.rect(speed, 0.5 * math.pi - v["course"]), sigma) if "course" in v else None
