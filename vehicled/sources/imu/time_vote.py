"""Finds a wrong time of the IMU from the latencies that several sensors have in common.

The filter treats the IMU's samples as of the present, and estimates latencies of fixes and speeds relative to
them. If all of these are equal, the IMU's time is wrong, unless this would make samples newer than possible.
The IMU's time is also wrong if fixes would be newer than possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import Group
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.speeds.body_velocity import VELOCITY_LATENCY
from vehicled.sources.speeds.vehicle_speed import CHANNEL, SPEED_LATENCY
from vehicled.sources.speeds.wheels import WHEEL_LATENCY
from vehicled.vehicle.arrays import AHEAD

_LEAST, _LEAST_FURTHER = 0.005, 0.001
"""s: smaller latencies are ignored, as tyres and antennas that differ from their models cause such latencies
as well; the second value holds once a latency of the IMU has been found."""
_KNOWN = 0.003
"""s, 1 σ: largest uncertainty of a latency that counts."""
_SIGNIFICANT = 3.5
"""Standard deviations."""
_LAGGING = 0.05
"""s: speeds with a larger latency are smoothed. What they show is no true latency, and it affects that of
fixes."""
_ALIKE = 0.003
"""s: largest difference of latencies that one error of the IMU explains."""
_LEADING, _SURE = 0.015, 2.5
"""s: apparent latency of either sign that slip, or an IMU that is late, may cause; and number of standard
deviations beyond it."""
_SLIPPING = 0.0025
"""s, per m/s of speed: apparent negative latency of wheels due to slip. They slip by 0.003 to 0.007 per m/s² of
driving or braking (slip stiffness of 15 to 30 per load), and half of that may be an error of the model."""

_TIMED = (CHANNEL, SPEED_LATENCY), ("velocity", VELOCITY_LATENCY)
"""Speeds that slip does not make seem early, unlike wheel speeds: kinds of observation, and their
latencies."""


class _Latency(NamedTuple):
    configured: float
    found: float
    """Estimate relative to the configured one, s."""
    sigma: float


def find_lateness(
    filter: ObservedFilter,
    configured: Mapping[Group, float],
    of_imu: float,
    found: float,
    has_reference: Callable[[], bool],
    denies: Callable[[float], bool],
) -> float:
    """Error of the latency of the IMU's samples, s, positive if they are older; 0 if sensors do not agree on it.

    `configured`: latencies of all sensors with a state of latency, s; `of_imu`, `found`: the IMU's latency as
    configured, and as found so far in addition, s; `has_reference`: whether a speed of known time is measured;
    `denies`: whether IMU and fixes alone contradict samples that are older by so much, s. Fixes must be among the
    agreeing sensors: slip makes all wheels seem early in the same way.
    """
    least = _LEAST_FURTHER if found else _LEAST
    if abs(filter.slow.view(GNSS.latency).item()) < least:
        return 0.0
    latencies = dict(_read(filter, configured))
    known = {group: one for group, one in latencies.items() if one.sigma < _KNOWN}
    if GNSS.latency not in known:
        return 0.0
    if len(known) == 1:
        # With fixes alone, it is only certain that no fix is of the future. If the receiver's own clock is
        # wrong, a sensor of known time shows that.
        fixes = known[GNSS.latency]
        future = -(fixes.configured + fixes.found)
        is_early = future > max(least, _SIGNIFICANT * fixes.sigma) and not has_reference()
        lags = any(one.found > _LAGGING for group, one in latencies.items() if group != GNSS.latency)
        return future if is_early and not lags and not denies(future) else 0.0
    alike = [one.found for one in known.values()]
    late = -sum(alike) / len(alike)
    sigma = max(one.sigma for one in known.values())
    if max(alike) - min(alike) > _ALIKE or abs(late) < max(least, _SIGNIFICANT * sigma):
        return 0.0
    if late > 0.0:
        # Otherwise all of them may be configured too large.
        is_possible = any(one.configured + one.found < 0.0 for one in known.values())
    else:
        is_possible = of_imu + found + late > -_LEAST
    return late if is_possible else 0.0


def find_earliness(
    filter: ObservedFilter, configured: Mapping[Group, float], has_reference: Callable[[], bool]
) -> float:
    """Lag of the estimate behind the IMU, s, found because wheel speeds would be newer than possible; else 0.

    The IMU hardly shows an error that all latencies have in common: the filter distributes it by their
    configured σ. If one of them is far off, as for a speed that is smoothed for the driver, or for fixes that
    are stamped on arrival, the latency of wheels becomes negative, and the whole estimate is late by as much.
    Parameters as in `find_lateness`.
    """
    if WHEEL_LATENCY not in configured or WHEEL_LATENCY not in filter.states:
        return 0.0
    if configured[WHEEL_LATENCY] + filter.slow.view(WHEEL_LATENCY).item() > -_LEADING:
        return 0.0
    latencies = dict(_read(filter, configured))
    wheels = latencies.pop(WHEEL_LATENCY, None)
    if wheels is None or has_reference():
        return 0.0
    future = -(wheels.configured + wheels.found)
    # If all are early, it is the IMU that is late.
    is_late = any(one.found > _LEADING + _SURE * one.sigma for one in latencies.values())
    by_slip = _SLIPPING * abs(filter.pose.item(AHEAD))
    return future if is_late and future > max(_LEADING, by_slip) + _SURE * wheels.sigma else 0.0


def has_known_time(filter: ObservedFilter, is_active: Callable[[str], bool]) -> bool:
    """Whether fixes or measured speeds are of known time. `is_active`: whether a kind of observation is."""
    return _is_known(filter, GNSS.latency) or any(
        is_active(kind) and _is_known(filter, latency) for kind, latency in _TIMED
    )


def _is_known(filter: ObservedFilter, latency: Group) -> bool:
    return latency not in filter.states or filter.get_variance(latency) == 0.0


def _read(filter: ObservedFilter, configured: Mapping[Group, float]) -> Iterator[tuple[Group, _Latency]]:
    for group, of_sensor in configured.items():
        if group in filter.states:
            sigma = math.sqrt(filter.get_variance(group))
            if sigma > 0.0:  # otherwise the latency is known
                yield group, _Latency(of_sensor, filter.slow.view(group).item(), sigma)
