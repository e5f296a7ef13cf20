"""What a receiver measures: noise by kind of fix, the baseline between two antennas, and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from vehicled.sources.gate import Gate
from vehicled.sources.limits import FASTEST
from vehicled.units import Direction, Metres, MetresPerSecond, NonNegative, Positive, Radians, Seconds


@dataclass(frozen=True, kw_only=True)
class FixNoise:
    """Position noise of one kind of fix, where the receiver does not report its accuracy."""

    horizontal: Annotated[Metres, Positive]
    vertical: Annotated[Metres, Positive]
    wander: Annotated[Metres, NonNegative] = 0.0
    """The part of the noise that wanders slowly (Gauss–Markov), per axis; the rest is white."""
    wander_time: Annotated[Seconds, Positive] = 120.0
    velocity: Annotated[MetresPerSecond, Positive] = 0.1
    """Per horizontal axis: of the speed, and, divided by it, of the course."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) where the slow part of the noise is not smaller than the whole."""
        if self.wander >= self.horizontal:
            yield "wander", "the part that wanders must be smaller than the whole horizontal noise"


RTK_FIXED = FixNoise(horizontal=0.02, vertical=0.03, velocity=0.02)
RTK_FLOAT = FixNoise(horizontal=0.3, vertical=0.5, wander=0.2, wander_time=60.0, velocity=0.05)
DGNSS = FixNoise(horizontal=0.7, vertical=1.4, wander=0.35)
SINGLE = FixNoise(horizontal=1.0, vertical=2.0, wander=0.5)
"""Noise by default, without correction data and with those of each kind."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Two antennas, from the first to the second of which the receiver gives the heading."""

    angle: Direction = 0.0
    """From ahead to the baseline, to the left."""
    angle_sigma: Annotated[Radians, NonNegative] = 0.01
    """How well that is known, 1 σ; the filter estimates the rest."""
    noise: Annotated[Radians, Positive] = 0.005
    """Where the receiver does not report its accuracy."""
    gate: Gate = field(default_factory=Gate)


_LIMITS = {
    **{"lat": 90.0, "lon": 360.0, "alt": 1e5, "quality": 100.0, "h_acc": 1e5, "v_acc": 1e5},
    **{"speed": FASTEST, "course": 7.0},
    **{"vn": FASTEST, "ve": FASTEST, "vd": FASTEST, "s_acc": 1e3},
    **{"heading": 7.0, "heading_acc": 7.0},
}


def limit_channels(receiver: str) -> Mapping[str, float]:
    """The largest magnitude that can be a measurement, in the channel's unit, by channel of a receiver."""
    return {f"{receiver}.{what}": limit for what, limit in _LIMITS.items()}
