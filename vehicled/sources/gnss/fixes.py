"""Settings of a receiver's measurements: noise by kind of fix, baseline between two antennas, and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from vehicled.sources.gate import Gate
from vehicled.sources.limits import FASTEST
from vehicled.units import Direction, Metres, MetresPerSecond, NonNegative, Positive, Radians, Seconds


@dataclass(frozen=True, kw_only=True)
class FixNoise:
    """Position noise of one kind of fix, used if the receiver does not report its accuracy.

    With good satellite geometry: it increases with the horizontal dilution of precision (HDOP).
    """

    horizontal: Annotated[Metres, Positive]
    vertical: Annotated[Metres, Positive]
    wander: Annotated[Metres, NonNegative] = 0.0
    """The part of the noise that wanders slowly (Gauss–Markov), per axis; the rest is white."""
    wander_time: Annotated[Seconds, Positive] = 120.0
    velocity: Annotated[MetresPerSecond, Positive] = 0.1
    """Noise of the speed, and, divided by the speed, of the course; per horizontal axis."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, message) if the slow part of the noise is not smaller than the whole."""
        if self.wander >= self.horizontal:
            yield "wander", "the part that wanders must be smaller than the whole horizontal noise"

    def dilute(self, hdop: float) -> FixNoise:
        """The noise with an HDOP: proportional to it, but no less than with an HDOP of 1.

        The error of a range times the dilution is that of the position (Kaplan and Hegarty, "Understanding GPS/GNSS",
        2017). An HDOP below 1 is that of many satellites; errors that these have in common do not decrease with it.
        """
        if not hdop > 1.0:
            return self
        return replace(
            self,
            horizontal=hdop * self.horizontal,
            vertical=hdop * self.vertical,
            wander=hdop * self.wander,
            velocity=hdop * self.velocity,
        )


RTK_FIXED = FixNoise(horizontal=0.02, vertical=0.03, velocity=0.02)
RTK_FLOAT = FixNoise(horizontal=0.3, vertical=0.5, wander=0.2, wander_time=60.0, velocity=0.05)
DGNSS = FixNoise(horizontal=0.7, vertical=1.4, wander=0.35)
SINGLE = FixNoise(horizontal=1.0, vertical=2.0, wander=0.5)
"""Default noise, without correction data and with each kind of them."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Two antennas; the receiver gives the direction from the first to the second."""

    angle: Direction = 0.0
    """Angle from straight ahead to the baseline, positive to the left."""
    angle_sigma: Annotated[Radians, NonNegative] = 0.01
    """How well the angle is known, 1 σ; the filter estimates the error."""
    noise: Annotated[Radians, Positive] = 0.005
    """Noise of the heading if the receiver does not report its accuracy."""
    gate: Gate = field(default_factory=Gate)


_LIMITS = {
    **{"lat": 90.0, "lon": 360.0, "alt": 1e5, "quality": 100.0, "hdop": 1e3, "h_acc": 1e5, "v_acc": 1e5},
    **{"speed": FASTEST, "course": 7.0},
    **{"vn": FASTEST, "ve": FASTEST, "vd": FASTEST, "s_acc": 1e3},
    **{"heading": 7.0, "heading_acc": 7.0},
}


def limit_channels(receiver: str) -> Mapping[str, float]:
    """Largest possible magnitude of a measurement, in the channel's unit, by channel of a receiver."""
    return {f"{receiver}.{what}": limit for what, limit in _LIMITS.items()}
