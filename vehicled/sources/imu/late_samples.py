"""What samples of the IMU that are of another time falsify, and what is forgotten once their latency has been found.

As long as it is not known the estimate is less certain (`added_doubt`).
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
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.model import ALIGNMENT, GYRO_SCALE
from vehicled.vehicle.arrays import AHEAD

_FALSIFIED = (GNSS.antenna, GYRO_SCALE, ALIGNMENT, TYRE_ERROR, STEERING_OFFSET, STEERING_RATIO)
"""What explains samples of another time as well."""
_CLEARLY = 2.5
"""σ from which on an antenna is where it has been found: that it is elsewhere, the evidence has decided before."""
_TURNING = 0.3
"""rad/s: of turns, in which the heading is then wrong by as much as the car turns meanwhile."""
_CHANGING = 1.0
"""m/s²: of a car in traffic."""


def forget_falsified(filter: ObservedFilter, change: float) -> None:
    """Forget what explained samples of another time, by `change`, s; and how well position and heading are known.

    With a place that the antenna's offset has falsified, fixes would make the same offset again at once.
    """
    offset = math.hypot(*filter.slow.view(GNSS.antenna)[:2].tolist())
    filter.slow.forget(_FALSIFIED)
    turned = abs(change) * _TURNING
    for group, element, sigma in (
        (POSITION, "x", offset),
        (POSITION, "y", offset),
        (ATTITUDE, "yaw", turned),
        (VELOCITY, "left", turned * filter.pose.item(AHEAD)),
    ):
        filter.add_variance(group, element, sigma**2)


def doubt_antenna(filter: ObservedFilter, place: complex, sigma: complex) -> None:
    """Make the antenna's place and the car's uncertain where the former has clearly been found elsewhere.

    By a path without tyres, m beside the configured one, ahead + i left. A filter that knows the antenna well has
    fixes turn and shift the car instead.
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


def move_to_present(filter: ObservedFilter, latencies: Iterable[Group], change: float) -> None:
    """Take the estimate as that of `change` (s) ago, and add this to latencies, which are relative to its time."""
    for group in latencies:
        if filter.slow.view(group).any():
            filter.slow.move(group, change)
    forget_falsified(filter, change)
    moved = change * filter.pose.item(AHEAD)
    for axis in ("x", "y"):
        filter.add_variance(POSITION, axis, moved**2)


def move_ahead(filter: ObservedFilter, latencies: Iterable[Group], lag: float) -> None:
    """Take the estimate as that of `lag` (s) ago, to which latencies are relative, but not for another IMU's time."""
    for group in latencies:
        if group in filter.states and filter.get_variance(group) > 0.0:
            filter.slow.move(group, lag)
    moved, gained = lag * filter.pose.item(AHEAD), lag * _CHANGING
    for axis in ("x", "y"):
        filter.add_variance(POSITION, axis, moved**2)
    filter.add_variance(VELOCITY, "ahead", gained**2)
