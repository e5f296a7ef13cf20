"""Start of an estimator of a whole log: the log grouped by instants, and the content of its first fixes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from vehicled.configuration import Configuration
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import Measurement

_MOVING = 2.0
"""m/s: speed above which a course over ground is used as the heading."""

Instant = tuple[int, dict[str, float]]
"""Time of measurement, ns, and all measurements of that time."""


def group_by_time(measurements: Iterable[Measurement]) -> list[Instant]:
    """Measurements in the order of their times of measurement, however late they arrived."""
    ordered = sorted(measurements, key=lambda m: m.t)
    return [
        (t, {c: v for m in group for c, v in m.values.items()})
        for t, group in groupby(ordered, lambda m: m.t)
    ]


@dataclass(frozen=True)
class LogStart:
    """What is known at the start of a log."""

    origin: WorldOrigin | None
    """Origin of the configured world, else the first fix; None without either."""
    antenna: tuple[float, float] | None
    """East and north of the first fix, m in that world; None without a fix."""
    quality: int
    """NMEA quality of that fix."""
    yaw: float
    """Heading, rad from east: the first course over ground of the log, at whatever time."""
    speed: float
    """m/s"""

    def place_car(self, arm: float) -> tuple[float, float]:
        """East and north (m) of a car whose antenna is `arm` (m) ahead of it; the origin without a fix."""
        if self.antenna is None:
            return 0.0, 0.0
        east, north = self.antenna
        return east - arm * math.cos(self.yaw), north - arm * math.sin(self.yaw)


def find_start(configuration: Configuration, instants: Sequence[Instant]) -> LogStart:
    """The start of a log of that car."""
    first = next((i for i, (_, v) in enumerate(instants) if "gnss.lat" in v), None)
    fix = None if first is None else instants[first][1]
    origin = antenna = None
    if configuration.world is not None:
        origin = WorldOrigin.of(configuration.world)
    elif fix is not None:
        origin = WorldOrigin(fix["gnss.lat"], fix["gnss.lon"], fix.get("gnss.alt", 0.0))
    if fix is not None and origin is not None:
        antenna = find_fix(origin, fix)[:2]
    moving = next(
        (i for i, (_, v) in enumerate(instants) if "gnss.course" in v and v.get("gnss.speed", 0.0) > _MOVING),
        None,
    )
    yaw = speed = 0.0
    if moving is not None:
        yaw = math.pi / 2 - instants[moving][1]["gnss.course"]
        speed = instants[moving][1]["gnss.speed"] if moving == first else 0.0
    else:
        speed = next((v["vehicle.speed"] for _, v in instants if "vehicle.speed" in v), 0.0)
    quality = 1 if fix is None else round(fix.get("gnss.quality", 1.0))
    return LogStart(origin, antenna, quality, yaw, speed)


def find_fix(origin: WorldOrigin, values: Mapping[str, float]) -> tuple[float, float, float]:
    """East, north and up of a fix, m; without a height, up is that of the origin."""
    height = values.get("gnss.alt", origin.height)
    east, north, up = origin.to_world(values["gnss.lat"], values["gnss.lon"], height).tolist()
    return east, north, up
