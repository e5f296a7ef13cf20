"""Maps signals of a log to channels: a mapping file, or the mapping of a format."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from drivers.can import NO_SCALE, OFFSET_UNITS, WHEEL_SPEEDS, RollingRadius
from replay.rows import ARRIVAL
from replay.times import ISO_8601
from vehicled.messages import CHANNELS
from vehicled.reading.expectations import suggest
from vehicled.reading.settings import load
from vehicled.units import Seconds, UnitBy, UnitError, calc_factor

TARGETS = {**CHANNELS, ARRIVAL: "s"}
"""Targets of a signal, with their units: any channel, or the time of arrival of a fix."""


@dataclass(frozen=True, kw_only=True)
class MappedSignal:
    """The signal that a channel comes from, and how its numbers become those of the channel."""

    SHORT_FORM: ClassVar[str] = "signal"

    signal: str
    """Column, channel of a measurement file, or `/topic:field` of a bag."""
    unit: str | None = None
    """Unit of the signal; without, the one that the log names, or that of the channel."""
    scale: float = 1.0
    """Factor on the value in the channel's unit; −1 turns a sign round."""
    offset: Annotated[float, UnitBy(OFFSET_UNITS)] = 0.0
    """Added after `scale`: a quantity of the channel's dimension; a plain number is in the channel's unit."""
    radius: RollingRadius | None = None
    """For a wheel's speed in m/s or km/h: the rolling radius that it was calculated with."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a scale of 0."""
        if self.scale == 0.0:
            yield "scale", NO_SCALE


_LARGEST_OFFSET = 1e10
"""s: three centuries; more nanoseconds do not fit into a time."""


@dataclass(frozen=True, kw_only=True)
class MappedClock:
    """When the samples were measured."""

    SHORT_FORM: ClassVar[str] = "signal"

    signal: str | None = None
    """The signal with the time; without, the log's own time stamps (in CSV the column `t`)."""
    unit: str = "s"
    """Unit of that signal; `iso8601` of dates such as 2026-05-01T12:00:00.250Z or 01.05.2026 12:00:00, in tables."""
    offset: Seconds = 0.0
    """Added to all times, s: aligns the log with another one."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for what is no unit of time, or no time of a drive."""
        fault = None if self.unit == ISO_8601 else _find_unit_fault(self.unit, "s")
        if fault is not None:
            yield "unit", f"{fault}; dates have `{ISO_8601}`"
        if not abs(self.offset) <= _LARGEST_OFFSET:
            yield "offset", f"expected at most ±{_LARGEST_OFFSET:g} s, got {self.offset:g} s"


@dataclass(frozen=True, kw_only=True)
class LogMapping:
    """A mapping file."""

    INDEPENDENT_CHECKS: ClassVar[bool] = True

    channels: dict[str, MappedSignal] = field(default_factory=dict)
    """By channel."""
    time: MappedClock = MappedClock()

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for names that are no channels, and units of another dimension."""
        for channel, mapped in self.channels.items():
            if channel not in TARGETS:
                yield f"channels.{channel}", f"unknown channel; {suggest(channel, list(TARGETS))}"
            elif mapped.radius is not None and channel not in WHEEL_SPEEDS:
                yield f"channels.{channel}.radius", f"expected only for {', '.join(sorted(WHEEL_SPEEDS))}"
            elif mapped.unit is not None:
                fault = _find_unit_fault(
                    mapped.unit, TARGETS[channel], mapped.radius, channel in WHEEL_SPEEDS
                )
                if fault is not None:
                    yield f"channels.{channel}.unit", fault

    def over(self, other: LogMapping) -> LogMapping:
        """This mapping, with those channels of `other` that it does not have."""
        return dataclasses.replace(self, channels={**other.channels, **self.channels})


def load_mapping(path: str | Path) -> LogMapping:
    """The mapping in a YAML file. Raises SettingsError."""
    return load(path, LogMapping)


def map_names(signals: Mapping[str, str | MappedSignal]) -> LogMapping:
    """Mapping of a format, from channel to signal."""
    return LogMapping(
        channels={
            channel: MappedSignal(signal=s) if isinstance(s, str) else s for channel, s in signals.items()
        }
    )


def map_own_names(names: Iterable[str]) -> LogMapping:
    """Mapping of a table whose signals are named like channels."""
    return map_names({name: name for name in names if name in TARGETS})


def turned(signal: str, offset: float = 0.0) -> MappedSignal:
    """A signal with reversed sign; `offset` in the channel's unit, added after that."""
    return MappedSignal(signal=signal, scale=-1.0, offset=offset)


RIGHT_DOWN_IMU: Mapping[str, str | MappedSignal] = {
    "imu.ax": "ax",
    "imu.ay": turned("ay"),
    "imu.az": turned("az"),
    "imu.wx": "wx",
    "imu.wy": turned("wy"),
    "imu.wz": turned("wz"),
}
"""Mapping of an IMU with axes forward, right, down, for `map_names`."""


def _find_unit_fault(unit: str, wanted: str, radius: float | None = None, rolls: bool = False) -> str | None:
    try:
        calc_factor(unit, wanted, radius, rolls)
    except UnitError as error:
        return str(error)
    return None
