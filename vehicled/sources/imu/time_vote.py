"""A wrong time of the IMU, by what several sensors have in common.

The filter takes the IMU's samples as the present and finds the latencies of fixes and speeds beside them. Where all
of these come out alike, it is the IMU's time that is wrong: unless that would make samples newer than they can be. So
it is where fixes come out as newer than they can be.
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

_LEAST, _LEAST_FURTHER = 0.005, 0.001
"""s: smaller latencies are left as they are, as tyres and antennas that differ from their models make them as well;
and once one of the IMU has been found."""
_KNOWN = 0.003
"""s, 1 σ: of a latency that counts."""
_SIGNIFICANT = 3.5
"""Standard deviations."""
_LAGGING = 0.05
"""s: speeds found later than this are smoothed. Their latency, which is none, draws that of fixes with it."""
_ALIKE = 0.003
"""s: by how much latencies may differ that one error of the IMU explains."""
_LEADING, _SURE = 0.015, 2.5
"""s, by which slip of tyres, or an IMU that is late, may make speeds seem early; and standard deviations."""

_TIMED = (CHANNEL, SPEED_LATENCY), ("velocity", VELOCITY_LATENCY)
"""Speeds that no slip makes seem early, as it does those of wheels: kinds of observation, and their latencies."""


class _Latency(NamedTuple):
    configured: float
    found: float
    """Beside the configured one, s."""
    sigma: float


def find_lateness(
    filter: ObservedFilter,
    configured: Mapping[Group, float],
    of_imu: float,
    found: float,
    has_reference: Callable[[], bool],
    denies: Callable[[float], bool],
) -> float:
    """By how much the IMU's samples are older than they are taken for, s; 0 where sensors do not agree on it.

    Parameters: `configured` latencies of all that has states of latency, s; those `of_imu` that are configured and
    have been `found` so far, s; `has_reference`: whether a speed of known time is measured; `denies`: whether IMU and
    fixes alone contradict samples that are so much older, s. Fixes must be among what agrees: slip makes wheels seem
    early, all in the same way.
    """
    least = _LEAST_FURTHER if found else _LEAST
    if abs(filter.slow.view(GNSS.latency).item()) < least:
        return 0.0
    latencies = dict(_read(filter, configured))
    known = {group: one for group, one in latencies.items() if one.sigma < _KNOWN}
    if GNSS.latency not in known:
        return 0.0
    if len(known) == 1:
        # All that is certain then is that no fix is of the future. If its clock is wrong, a known time shows that.
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
        # Else all of them may be configured as too old.
        is_possible = any(one.configured + one.found < 0.0 for one in known.values())
    else:
        is_possible = of_imu + found + late > -_LEAST
    return late if is_possible else 0.0


def find_earliness(
    filter: ObservedFilter, configured: Mapping[Group, float], has_reference: Callable[[], bool]
) -> float:
    """By how much the estimate lags behind the IMU, s, as wheels come out as newer than they can be; 0 if not.

    What latencies have in common the IMU hardly shows: the filter shares it out by how well they are configured.
    Where one of them is far off, as of a speed that is smoothed for the driver, or of fixes that are stamped when
    they arrive, that of wheels seems to be negative, and the whole estimate is late by as much. Parameters as of
    `find_lateness`.
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
    # Where all are early, it is the IMU that is late.
    is_late = any(one.found > _LEADING for one in latencies.values())
    return future if is_late and future > _LEADING + _SURE * wheels.sigma else 0.0


def has_known_time(filter: ObservedFilter, is_active: Callable[[str], bool]) -> bool:
    """Whether fixes or speeds that are measured are of known time. `is_active`: of a kind of observation."""

    def is_known(latency: Group) -> bool:
        if latency not in filter.states:
            return True
        return filter.get_variance(latency) == 0.0

    return is_known(GNSS.latency) or any(is_active(kind) and is_known(latency) for kind, latency in _TIMED)


def _read(filter: ObservedFilter, configured: Mapping[Group, float]) -> Iterator[tuple[Group, _Latency]]:
    for group, of_sensor in configured.items():
        if group in filter.states:
            sigma = math.sqrt(filter.get_variance(group))
            if sigma > 0.0:  # else it is known
                yield group, _Latency(of_sensor, filter.slow.view(group).item(), sigma)
