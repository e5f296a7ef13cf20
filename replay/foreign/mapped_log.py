"""Any log of named signals as a log of measurements, by a mapping."""

import difflib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from drivers.can import WHEEL_SPEEDS
from replay.csv_log import ABSURD, Latest, is_new
from replay.foreign.mapping import TARGETS, LogMapping
from replay.foreign.spellings import find_unit
from replay.problems import Problems
from replay.rows import ARRIVAL, source_of
from replay.steps import MAX_GAP_NS
from replay.times import ISO_8601, LONGEST_NS, format_seconds, round_seconds
from vehicled.errors import SettingsError, UsageError
from vehicled.messages import CHANNELS, Measurement
from vehicled.units import UnitError, calc_factor

_MOST_NAMES = 12
"""Signals that an error message lists."""


class SignalRecord(NamedTuple):
    """Signals that were sampled together."""

    t: int
    """When they were measured, ns, by the log's own clock."""
    arrival: int
    """When they arrived, ns; `t` where the log does not have that."""
    values: Mapping[str, float]
    """Values by name of the signal; NaN for a missing one."""


class SignalLog(Protocol):
    """Interface of a format: named signals over time."""

    path: Path
    problems: Problems

    @property
    def has_clock(self) -> bool:
        """Whether its records have times of their own; otherwise a signal of the mapping gives them."""

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of every signal that there is; empty where the log has none."""

    def find_mapping(self) -> LogMapping:
        """Mapping that needs no file: channels whose signals the format names."""

    def records(self, wanted: Collection[str]) -> Iterator[SignalRecord]:
        """The records with any of these signals, nearly in order of time. Faults go to `problems`."""


@dataclass(frozen=True)
class _Target:
    channel: str
    source: str
    factor: float
    offset: float
    absurd: float


@runtime_checkable
class DatedLog(Protocol):
    """A format of tables: times of rows are those of a column, which may be dates in text."""

    def take_dates(self, column: str) -> None:
        """The times of the records are to be those of a signal with dates as ISO 8601 writes them."""

    def ignore_clock(self) -> None:
        """Do not read times of records: a mapped signal has them, which may be the same column."""


class MappedLog:
    """The measurements of a log of signals. Problems are counted; reading goes on."""

    recorded = False

    def __init__(self, signals: SignalLog, mapping: LogMapping) -> None:
        """`mapping` adds to that of the format.

        SettingsError with all signals that the log does not have, or whose unit is not the channel's; UsageError.
        """
        self.path, self.problems = signals.path, signals.problems
        self._signals, self._clock = signals, mapping.time
        self._clock_signal = mapping.time.signal
        self._targets: dict[str, list[_Target]] = {}
        self._asked = {mapped.signal for channel, mapped in mapping.channels.items() if channel != ARRIVAL}
        """Signals that the user's mapping names, and not only that of the format."""
        units = signals.units
        mistakes: list[str] = []
        for channel, mapped in mapping.over(signals.find_mapping()).channels.items():
            if (fault := self._find_fault(mapped.signal, channel, units)) is not None:
                mistakes.append(fault)
                continue
            wanted = TARGETS[channel]
            unit = find_unit(units[mapped.signal]) if mapped.unit is None else mapped.unit
            try:
                # Without a unit, a number is in the channel's unit; with a radius, its unit would be unknown.
                is_plain = not unit and mapped.radius is None
                rolls = channel in WHEEL_SPEEDS
                factor = 1.0 if is_plain else calc_factor(unit, wanted, mapped.radius, rolls)
            except UnitError as error:
                mistakes.append(
                    f"{self.path}: {channel} from {mapped.signal!r}: {error} (`unit` of the signal in the mapping)"
                )
                continue
            absurd = math.inf if channel == ARRIVAL else ABSURD[CHANNELS[channel]]
            target = _Target(channel, source_of(channel), factor * mapped.scale, mapped.offset, absurd)
            self._targets.setdefault(mapped.signal, []).append(target)
        clock = mapping.time.signal
        if clock is not None and (fault := self._find_fault(clock, "time", units)) is not None:
            mistakes.append(fault)
        if mistakes:
            raise SettingsError(*mistakes)
        if not self._targets:
            raise UsageError(
                f"{self.path}: no channel known in it; expected a mapping of its signals ({_list(units)})"
            )
        if self._clock.unit == ISO_8601:
            self._take_dates(signals, units)
            return
        self._time_factor = calc_factor(self._clock.unit, "s")
        if clock is not None and isinstance(signals, DatedLog):
            signals.ignore_clock()  # in milliseconds, `t` would be too large for seconds
        if self._clock.signal is None and not signals.has_clock:
            raise UsageError(
                f"{self.path}: no column 't'; expected `time: {{signal: NAME, unit: s}}` in the mapping "
                f"({_list(units)})"
            )

    def _take_dates(self, signals: SignalLog, units: Mapping[str, str]) -> None:
        column = self._clock.signal or "t"
        if not isinstance(signals, DatedLog):
            raise UsageError(f"{self.path}: `time: {{unit: {ISO_8601}}}` is of tables (.csv, .parquet)")
        if (fault := self._find_fault(column, "time", units)) is not None:
            raise UsageError(fault)
        signals.take_dates(column)
        self._clock_signal = None

    def _find_fault(self, signal: str, channel: str, units: Mapping[str, str]) -> str | None:
        """What is wrong with the name of a signal; None if the log has it."""
        if signal in units:
            return None
        near = difflib.get_close_matches(signal, units, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {_list(units)}"
        of_groups = [name for name in units if name.endswith(f":{signal}")]
        if len(of_groups) > 1:
            hint = f"expected one of {', '.join(map(repr, of_groups))}, which all have that name"
        return f"{self.path}: no signal {signal!r}, which is to be {channel}; {hint}"

    def measurements(self) -> Iterator[Measurement]:
        """One per record and kind of sensor, in the order of the log."""
        self.problems.clear()
        latest: Latest = {}
        clock = self._clock_signal
        offset = round(self._clock.offset * 1e9)
        wanted = dict.fromkeys(self._targets if clock is None else (*self._targets, clock))
        missing = set(self._asked)
        for record in _join_instants(self._signals.records(wanted)):
            if missing:
                missing -= {signal for signal, value in record.values.items() if not math.isnan(value)}
            t, arrival = record.t + offset, record.arrival + offset
            if clock is not None:
                found = round_seconds(record.values.get(clock, math.nan) * self._time_factor)
                if found is None:
                    self.problems.add("no time", f"t = {format_seconds(t)} s", f"{clock!r}; record skipped")
                    continue
                t = arrival = found + offset
            if abs(t) > LONGEST_NS:
                self.problems.add("absurd time", f"t = {format_seconds(t)} s", "record skipped")
                continue
            yield from self._convert(record.values, t, arrival, latest)
        for signal in sorted(missing):
            channels = ", ".join(target.channel for target in self._targets[signal])
            self.problems.add("no values", repr(signal), f"it is always empty, and there is no {channels}")

    def _convert(
        self, values: Mapping[str, float], t: int, arrival: int, latest: Latest
    ) -> Iterator[Measurement]:
        found: dict[str, dict[str, float]] = {}
        where = f"t = {format_seconds(t)} s"
        fix_arrival = arrival
        for signal, value in values.items():
            for target in self._targets.get(signal, ()):
                converted = value * target.factor + target.offset
                if target.channel == ARRIVAL:
                    if not math.isnan(converted):
                        fix_arrival = round(converted * 1e9) + round(self._clock.offset * 1e9)
                elif -target.absurd <= converted <= target.absurd:
                    found.setdefault(target.source, {})[target.channel] = converted
                elif not math.isnan(converted):
                    self.problems.add_absurd(target.channel, converted, where)
        for source, group in found.items():
            arrived = fix_arrival if source == "gnss" else arrival
            if not t <= arrived <= t + MAX_GAP_NS:
                self.problems.add("bad arrival", where, f"{source} arrived at {format_seconds(arrived)} s")
                arrived = t
            if is_new(source, group, t, latest, where, self.problems):
                yield Measurement(source, t, arrived, group)


def _join_instants(records: Iterator[SignalRecord]) -> Iterator[SignalRecord]:
    """Join neighbouring records of one time: latitude and longitude may be in separate groups."""
    held: SignalRecord | None = None
    for record in records:
        if held is None:
            held = record
        elif record[:2] == held[:2] and held.values.keys().isdisjoint(record.values):
            held = held._replace(values={**held.values, **record.values})
        else:
            yield held
            held = record
    if held is not None:
        yield held


def _list(names: Mapping[str, str]) -> str:
    shown = list(names)[:_MOST_NAMES]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
