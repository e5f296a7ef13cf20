"""Searches a log for probable faults: units, axes, signs, exchanged wheels, time offsets, pauses."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from replay.rows import source_of
from vehicled.configuration import Configuration, load_configuration
from vehicled.log_check.clocks import ClockFinder
from vehicled.log_check.expected import CarDynamics
from vehicled.log_check.findings import (
    Finding,
    find_beyond,
    find_bursts,
    find_clocks,
    find_coarse,
    find_configured,
    find_course,
    find_held,
    find_interpolated,
    find_late_fixes,
    find_magnitudes,
    find_mounting,
    find_offsets,
    find_other_axis,
    find_pauses,
    find_rate,
    find_ratios,
    find_set_back,
    find_signs,
    find_slopes,
    find_speeds,
    find_units,
    find_unread,
)
from vehicled.log_check.lags import Lag, LagFinder
from vehicled.log_check.motion import CAR_SPEEDS, COMPARED, Window
from vehicled.log_check.rates import Rate, RateCounter
from vehicled.log_check.reversing import ReversingFinder
from vehicled.log_check.steps import StepFinder
from vehicled.log_check.tracks import LEAST_ACCELERATION, TrackFinder
from vehicled.messages import Measurement
from vehicled.sources.checks.mounting_check import MountingCheck
from vehicled.sources.checks.unit_check import UnitCheck
from vehicled.sources.gnss.ground_velocity import add_speed_and_course
from vehicled.sources.inputs.steering import CHANNELS_BY_SOURCE
from vehicled.sources.limits import find_absurd
from vehicled.sources.sensors import Sensors, find_limits

USUAL_CAR = "saloon"
"""The shipped configuration whose dimensions are used where no other is given."""

_WINDOW_NS = 30_000_000_000
_LEAST_YAW_RATES = {"steer.": 0.003, "": 0.03}
"""Least root mean square of the yaw rate, rad/s, for comparing a channel, by the beginning of its name. Lane
changes suffice for the steering. Lateral accelerations also come from banks, and differences of wheels from
their radii."""
_IN_MOTION = 10.0
"""Time in motion, s, from which courses and positions are compared."""
_OF_VECTOR, _VECTOR = ("gnss.speed", "gnss.course"), ("gnss.vn", "gnss.ve")
"""What is made of a receiver's velocity where it gives no speed and course, and that velocity."""
_USUAL_OFFSETS = {
    "steer": (-0.35, 0.05),
    "imu.ay": (-0.1, 0.1),
    "gnss": (-0.1, 0.1),
    "": (-0.06, 0.06),
}
"""Range of usual time offsets, s, by the beginning of a channel's name: the car turns after it is steered;
courses and lateral accelerations contain the sideslip, which builds up with a delay."""


@dataclass(frozen=True)
class LogCheck:
    """What was found in a log."""

    rates: list[Rate]
    lags: list[Lag]
    findings: list[Finding]
    not_compared: dict[str, list[str]]
    """Channels that may have unnoticed faults, by the motion of which there was too little for a
    comparison."""

    def is_alone(self, motion: str) -> bool:
        """Whether the channels that were not compared are the only ones of this motion, and of one sensor."""
        compared = _find_names(self.lags).intersection(COMPARED[motion])
        return not compared and len({source_of(c) for c in self.not_compared[motion]}) == 1


class LogChecker:
    """Takes the measurements of a log, in bounded memory."""

    def __init__(self, configuration: Configuration | None) -> None:
        """`configuration`: the car and the mounting of its sensors; None: a usual car whose IMU points ahead."""
        given = configuration or load_configuration(USUAL_CAR)
        self._sensors, self._vehicle, self._is_usual = given.sensors, given.vehicle, configuration is None
        self._counters: dict[tuple[str, str], RateCounter] = {}
        self._channels: dict[str, int] = {}
        """Number of values by channel."""
        self._waiting: list[Measurement] = []
        dynamics = CarDynamics(self._vehicle, self._is_usual)
        self._window = Window(self._sensors, self._vehicle, dynamics)
        self._checks: tuple[UnitCheck, MountingCheck] | None = None
        """None until the end of the first window, which shows which steering channel there is."""
        self._yaw_rates = LagFinder(lambda channel: _find_by_name(channel, _LEAST_YAW_RATES))
        self._accelerations = LagFinder(lambda channel: LEAST_ACCELERATION, CAR_SPEEDS)
        self._tracks = TrackFinder()
        self._reversing = ReversingFinder()
        self._clocks = ClockFinder(self._sensors)
        self._steps = StepFinder()
        self._limits = find_limits()
        self._beyond: dict[str, tuple[int, float]] = {}
        """By channel: number of impossible values, and the last one."""

    def take(self, m: Measurement) -> None:
        """Take a measurement, in the order of the log."""
        begun = self._window.begun_ns
        if begun is not None and not -_WINDOW_NS < m.t - begun < _WINDOW_NS:
            self._compare()
        groups: dict[str, list[str]] = {}
        for channel in m.values:
            self._channels[channel] = self._channels.get(channel, 0) + 1
            groups.setdefault(source_of(channel), []).append(channel)
        for source, channels in groups.items():
            counter = self._counters.get((m.source, source))
            if counter is None:
                counter = self._counters[m.source, source] = RateCounter(source)
            counter.take(m, channels)
        for channel in find_absurd(m, (self._limits.get(c, math.inf) for c in m.values)):
            self._beyond[channel] = self._beyond.get(channel, (0, 0.0))[0] + 1, m.values[channel]
        self._clocks.take(m)
        self._steps.take(m)
        m = add_speed_and_course(m)
        self._waiting.append(m)
        self._window.take(m)

    def _compare(self) -> None:
        """Add the signals of the last window."""
        units, mounting = self._checks or self._make_checks()
        averages = units.averages
        for m in self._waiting:
            units.take(m)
            if units.averages is not averages:
                averages = units.averages
                mounting.take(averages, None)
        self._waiting.clear()
        self._yaw_rates.take(self._window.find_yaw_rates())
        self._accelerations.take(self._window.find_accelerations())
        self._tracks.take(self._window.find_track())
        self._reversing.take(*self._window.find_departures())
        self._window.clear()

    def _make_checks(self) -> tuple[UnitCheck, MountingCheck]:
        sensors = _with_steering(self._sensors, self._channels.keys()) if self._is_usual else self._sensors
        self._checks = UnitCheck(sensors, self._vehicle), MountingCheck(sensors, self._vehicle)
        return self._checks

    def _find_usual(self, channel: str, reference: str) -> tuple[float, float]:
        """Range of time offsets that are no fault, s."""
        configured = find_configured(channel, reference, self._sensors)
        low, high = _find_by_name(channel, _USUAL_OFFSETS)
        return low + configured, high + configured

    def find(self, left_out: Mapping[str, tuple[int, float]] = MappingProxyType({})) -> LogCheck:
        """Findings in all measurements taken so far.

        `left_out`: by channel, number of values that reading the log left out as absurd, and the last one.
        """
        self._compare()
        units, mounting = self._checks or self._make_checks()
        rates = [counter.find() for counter in self._counters.values()]
        yaw_rates, accelerations = (
            finder.find(self._find_usual) for finder in (self._yaw_rates, self._accelerations)
        )
        lags = [*yaw_rates, *accelerations]
        wrong_units = find_units(units)
        named = {channel for finding in wrong_units for channel in finding.channels}
        agreements = self._tracks.find_agreements(_IN_MOTION)
        in_degrees = units.is_too_large("gnss.course")  # they cannot be laid on the grid as radians
        wrong_courses = [] if in_degrees else find_course(agreements, yaw_rates)
        if wrong_courses:
            # The comparison over whole windows describes wrong courses in more detail.
            wrong_units = [f for f in wrong_units if f.channels != ("gnss.course",)]
        fits = {} if wrong_courses or in_degrees else dict(self._tracks.find_fits())
        wrong_speeds = find_speeds(fits, named, self._is_usual)
        known = named.union(*(finding.channels for finding in wrong_speeds))
        compared = [
            *wrong_units,
            *find_ratios(yaw_rates, named),
            *wrong_courses,
            *wrong_speeds,
            *find_slopes(accelerations, known),
            *find_mounting(mounting, self._channels),
            *find_signs(yaw_rates, of_turns=True),
            *find_signs(accelerations, of_turns=False),
            *find_other_axis(accelerations),
            *find_magnitudes(self._reversing.find()),
            *find_offsets(lags, self._sensors),
            *find_late_fixes(fits, self._sensors),
        ]
        clocks = find_set_back(rates) or find_clocks(self._clocks.find(), self._channels)
        findings = [
            *find_rate(rates),
            *find_beyond(left_out, self._beyond, self._channels, self._limits),
            *(clocks or compared),  # with wrong clocks all other comparisons fail
            *find_held(rates),
            *find_interpolated(rates),
            *find_bursts(rates),
            *find_coarse(self._steps.find(), self._sensors),
            *find_pauses(rates),
            *(() if self._is_usual else find_unread(self._sensors, self._channels)),
        ]
        findings = [dataclasses.replace(f, channels=self._name(f.channels)) for f in findings]
        not_compared = {
            motion: [c for c in channels if c in self._channels and c not in _find_names(found)]
            for (motion, channels), found in zip(COMPARED.items(), (yaw_rates, accelerations), strict=True)
        }
        return LogCheck(rates, lags, findings, not_compared)

    def _name(self, channels: tuple[str, ...]) -> tuple[str, ...]:
        """The channels, with the velocity of a receiver instead of a speed or course that were made of it."""
        made = (c in _OF_VECTOR and c not in self._channels for c in channels)
        names = (_VECTOR if is_made else (c,) for c, is_made in zip(channels, made, strict=True))
        return tuple(dict.fromkeys(itertools.chain.from_iterable(names)))


_T = TypeVar("_T")


def _find_by_name(channel: str, by_begin: Mapping[str, _T]) -> _T:
    """The entry whose key is the beginning of a channel's name."""
    return next(value for begin, value in by_begin.items() if channel.startswith(begin))


def _find_names(lags: list[Lag]) -> set[str]:
    return {name for lag in lags for name in (lag.channel, lag.reference)}


def _with_steering(sensors: Sensors, channels: Set[str]) -> Sensors:
    """The sensors with the steering that a log has."""
    source = next((s for s, cs in CHANNELS_BY_SOURCE.items() if not channels.isdisjoint(cs)), None)
    if source is None or source == sensors.steering.source:
        return sensors
    return dataclasses.replace(sensors, steering=dataclasses.replace(sensors.steering, source=source))  # type: ignore[arg-type]
