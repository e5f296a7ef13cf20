"""Effects of a wrong time of the IMU's samples, which the filter has to forget once their latency is found.

Until then the estimate is less certain (`added_doubt`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import (
    ATTITUDE,
    POSITION,
    STEERING_OFFSET,
    STEERING_RATIO,
    TYRE_ERROR,
    VELOCITY,
    Group,
)
from vehicled.sources.gnss.fix_time import Latency
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.model import ALIGNMENT, GYRO_SCALE
from vehicled.vehicle.arrays import AHEAD

_FALSIFIED = (GYRO_SCALE, ALIGNMENT, TYRE_ERROR, STEERING_OFFSET, STEERING_RATIO)
"""Parameters that explain samples of a wrong time as well, besides the antenna's place."""
_CLEARLY = 2.5
"""Number of σ from which on the antenna is where it has been found. That it is elsewhere has been decided
before, by evidence."""
_TURNING = 0.3
"""rad/s: usual turn, in which the heading is wrong by the angle turned within the latency."""
_CHANGING = 1.0
"""m/s²: usual acceleration of a car in traffic."""


def forget_falsified(filter: ObservedFilter, change: float) -> None:
    """Find parameters that explained a wrong time of samples by `change`, s, anew; widen position and heading.

    All but the antenna keep their values until then: most are right in part, and a jump to zero would turn the car.
    The antenna's offset has falsified the position: with an unchanged σ, fixes would lead to the same offset again.
    """
    offset = math.hypot(*filter.slow.view(GNSS.antenna)[:2].tolist())
    filter.slow.forget([GNSS.antenna])
    filter.slow.doubt(_FALSIFIED)
    turned = abs(change) * _TURNING
    for group, element, sigma in (
        (POSITION, "x", offset),
        (POSITION, "y", offset),
        (ATTITUDE, "yaw", turned),
        (VELOCITY, "left", turned * filter.pose.item(AHEAD)),
    ):
        filter.add_variance(group, element, sigma**2)


def doubt_antenna(filter: ObservedFilter, place: complex, sigma: complex) -> None:
    """Widen the places of antenna and car if the antenna has clearly been found elsewhere.

    `place`: found from a path without tyres, relative to the configured one, m, ahead + i left; `sigma`: its
    σ. A filter with a certain antenna would turn and shift the car by the fixes instead.
    """
    states = filter.states
    if GNSS.antenna not in states:  # its place is known
        return
    estimated = filter.slow.view(GNSS.antenna)
    for n, (found, error) in enumerate(((place.real, sigma.real), (place.imag, sigma.imag))):
        element = GNSS.antenna.elements[n]
        known = filter.get_variance(GNSS.antenna, element)
        apart = found - estimated.item(n)
        if abs(apart) > _CLEARLY * math.sqrt(error * error + known):
            filter.add_variance(GNSS.antenna, element, apart * apart)
            for axis in ("x", "y"):
                filter.add_variance(POSITION, axis, apart * apart)


def correct_fixes(filter: ObservedFilter, right: Latency) -> None:
    """Replace a latency of fixes that tyres unlike the model have falsified, and forget what follows from it."""
    change = right.mean - filter.slow.view(GNSS.latency).item()
    filter.slow.replace(GNSS.latency, right.mean, right.variance)
    forget_falsified(filter, change)
    _widen_motion(filter, change)


def move_to_present(filter: ObservedFilter, latencies: Iterable[Group], change: float) -> None:
    """Treat the estimate as that of `change` (s) ago; latencies are relative to its time and increase by that."""
    for group in latencies:
        if filter.slow.view(group).any():
            filter.slow.move(group, change)
    forget_falsified(filter, change)
    for axis in ("x", "y"):
        filter.add_variance(POSITION, axis, (change * filter.pose.item(AHEAD)) ** 2)


def move_ahead(filter: ObservedFilter, latencies: Iterable[Group], lag: float) -> None:
    """Treat the estimate as that of `lag` (s) ago: latencies increase by that. The IMU's time stays."""
    for group in latencies:
        if group in filter.states and filter.get_variance(group) > 0.0:
            filter.slow.move(group, lag)
    _widen_motion(filter, lag)


def _widen_motion(filter: ObservedFilter, late: float) -> None:
    """Make place and speed as uncertain as an estimate that is late by so much, s."""
    for axis in ("x", "y"):
        filter.add_variance(POSITION, axis, (late * filter.pose.item(AHEAD)) ** 2)
    filter.add_variance(VELOCITY, "ahead", (late * _CHANGING) ** 2)
