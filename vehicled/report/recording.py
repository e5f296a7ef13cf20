"""Data of a recording that a report shows, collected while it is read: little of an hour remains in memory."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import NamedTuple, Self

import msgspec
import numpy as np

from replay.csv_log import Table
from replay.mcap_batches import TableReader
from replay.mcap_log import McapLog
from replay.mcap_messages import ByteRange
from replay.problems import Problems
from replay.times import Nanoseconds
from vehicled.garbage import collector_off
from vehicled.jobs.local import LocalProcesses
from vehicled.jobs.run import run_jobs
from vehicled.messages import Parameters, Status
from vehicled.schemas import TOPIC_COLUMNS, StepRecord
from vehicled.scoring.scores import SensorScore


@dataclass(frozen=True)
class SensorHistory:
    """All innovation records of one kind of observation."""

    t: np.ndarray
    """(n,) int64 ns."""
    normalised: np.ndarray
    """(n, components) innovation over its own standard deviation."""
    nis: np.ndarray
    """(n,) normalised innovation squared per component."""
    fused: np.ndarray
    """(n,) bool."""
    reasons: Counter[str]
    """Reasons why the others were not fused."""

    def score(self) -> SensorScore:
        """Consistency of the fused observations."""
        fused = self.nis[self.fused]
        return SensorScore(
            float(np.mean(fused)) if len(fused) else float("nan"), len(fused), len(self.fused) - len(fused)
        )


@dataclass(frozen=True)
class Device:
    """Data sent by one device."""

    measurements: int
    latency: float
    """Median latency, s."""


@dataclass(frozen=True)
class RecordedDrive:
    """Data of a run, in addition to its estimates."""

    fixes: np.ndarray
    """(n, 2) latitude and longitude, deg."""
    devices: dict[str, Device]
    """Devices by name."""
    sensors: dict[str, SensorHistory]
    """Histories by kind of observation, in alphabetical order."""
    scores: dict[str, SensorScore]
    """Consistency of the innovations, by kind of observation."""
    status: Status | None
    """The last status."""
    parameters: Parameters | None
    """The last estimated parameters of car and sensors."""
    steps: np.ndarray
    """(n, 2) int64 ns: time of each step, and its duration; 0 if unknown."""


# Fields of messages that a report shows: decoding only these takes half of the time.


class _Place(msgspec.Struct, gc=False):
    lat: float | None = msgspec.field(name="gnss.lat", default=None)
    lon: float | None = msgspec.field(name="gnss.lon", default=None)


class _Sample(msgspec.Struct, gc=False):
    source: str
    t: Nanoseconds
    arrival: Nanoseconds
    values: _Place


class _Residual(msgspec.Struct, gc=False):
    t: int
    sensor: str
    innovation: list[float]
    variance: list[float]
    nis: float
    fused: bool
    reason: str


@dataclass
class _Gathered:
    fixes: list[tuple[float, float]] = field(default_factory=list)
    ages: dict[str, array[int]] = field(default_factory=dict)
    """Times from measurement to arrival by device, ns."""
    histories: defaultdict[str, list[SensorHistory]] = field(default_factory=partial(defaultdict, list))
    """Parts of the histories by kind of observation."""
    status: Status | None = None
    parameters: Parameters | None = None
    steps: array[int] = field(default_factory=lambda: array("q"))

    def take_samples(self, samples: Iterable[_Sample]) -> None:
        ages = self.ages
        for m in samples:
            if m.source not in ages:
                ages[m.source] = array("q")
            ages[m.source].append(m.arrival - m.t)
            if m.values.lat is not None and m.values.lon is not None:
                self.fixes.append((m.values.lat, m.values.lon))

    def take_innovations(self, innovations: Iterable[_Residual]) -> None:
        by_sensor: dict[str, list[_Residual]] = {}
        for innovation in innovations:
            by_sensor.setdefault(innovation.sensor, []).append(innovation)
        for sensor, records in by_sensor.items():
            self.histories[sensor].append(_shorten(records))

    def take_steps(self, steps: Iterable[StepRecord]) -> None:
        for step in steps:
            self.steps.append(step.t)
            self.steps.append(step.duration or 0)

    def take_parameters(self, messages: Iterable[Parameters]) -> None:
        for parameters in messages:
            # They are empty before the start, and after a failure.
            if parameters.value:
                self.parameters = parameters

    def extend(self, following: Self) -> None:
        """Add the next part of the recording."""
        self.fixes += following.fixes
        for source, ages in following.ages.items():
            self.ages.setdefault(source, array("q")).extend(ages)
        for sensor, pieces in following.histories.items():
            self.histories[sensor] += pieces
        self.status = following.status or self.status
        self.parameters = following.parameters or self.parameters
        self.steps.extend(following.steps)

    def finish(self) -> RecordedDrive:
        sensors = {sensor: _join(self.histories[sensor]) for sensor in sorted(self.histories)}
        return RecordedDrive(
            np.array(self.fixes, dtype=float).reshape(-1, 2),
            {
                name: Device(len(ages), float(np.median(np.frombuffer(ages, dtype=np.int64))) * 1e-9)
                for name, ages in self.ages.items()
            },
            sensors,
            {sensor: history.score() for sensor, history in sensors.items()},
            self.status,
            self.parameters,
            np.array(self.steps, dtype=np.int64).reshape(-1, 2),
        )


_LEAST_PART = 48 << 20
"""Bytes, for six minutes: starting a process takes half as long as reading this much."""


def read_recorded(log: McapLog, processes: int = 1) -> tuple[Table, RecordedDrive]:
    """Estimates, and all other data that a report shows, read by a number of processes. OSError."""
    parts = log.find_parts(max(1, min(processes, log.path.stat().st_size // _LEAST_PART)))
    if len(parts) == 1:
        read = [_read(log, parts[0])]
    else:
        with LocalProcesses(len(parts)) as executor:
            read = run_jobs(partial(_read, log), parts, executor, lambda _: None)
    table, gathered = read[0].table, read[0].gathered
    for part in read[1:]:
        table.extend(part.table)
        gathered.extend(part.gathered)
    if len(parts) > 1:
        log.problems.clear()
        for part in read:
            log.problems.extend(part.problems)
    return table.finish(), gathered.finish()


class _ReadPart(NamedTuple):
    table: TableReader
    gathered: _Gathered
    problems: Problems


def _read(log: McapLog, part: ByteRange) -> _ReadPart:
    with collector_off():  # a million short-lived objects
        return _gather(log, part)


def _gather(log: McapLog, part: ByteRange) -> _ReadPart:
    table, gathered = log.make_table(), _Gathered()
    for topic, messages in log.batches(
        (*TOPIC_COLUMNS, "measurement", "innovation", "status", "parameters", "step"), part
    ):
        if topic == "measurement":
            gathered.take_samples(log.decode_parts(messages, _Sample))
        elif topic == "innovation":
            gathered.take_innovations(log.decode_parts(messages, _Residual))
        elif topic == "status":
            gathered.status = next(reversed(log.decode_all(messages, Status)), gathered.status)
        elif topic == "parameters":
            gathered.take_parameters(log.decode_all(messages, Parameters))
        elif topic == "step":
            gathered.take_steps(log.decode_all(messages, StepRecord))
        else:
            table.take(topic, messages)
    return _ReadPart(table, gathered, log.problems)


def _shorten(records: Sequence[_Residual]) -> SensorHistory:
    """Arrays from the records of one kind of observation."""
    counts = np.fromiter((len(r.innovation) for r in records), np.int64, len(records))
    normalised = np.full((len(records), counts.max()), np.nan)
    for n in set(counts.tolist()) - {0}:  # some components may be missing
        rows = np.flatnonzero(counts == n)
        some = [records[i] for i in rows.tolist()]
        innovations = np.fromiter(chain.from_iterable(r.innovation for r in some), float).reshape(-1, n)
        variances = np.fromiter(chain.from_iterable(r.variance for r in some), float).reshape(-1, n)
        with np.errstate(divide="ignore", invalid="ignore"):
            normalised[rows, :n] = innovations / np.sqrt(variances)
    return SensorHistory(
        np.fromiter((r.t for r in records), np.int64, len(records)),
        normalised,
        np.fromiter((r.nis for r in records), float, len(records)) / np.maximum(counts, 1),
        np.fromiter((r.fused for r in records), bool, len(records)),
        Counter(r.reason for r in records if not r.fused),
    )


def _join(pieces: Sequence[SensorHistory]) -> SensorHistory:
    """Join the parts, with the largest number of components."""
    width = max(piece.normalised.shape[1] for piece in pieces)
    return SensorHistory(
        np.concatenate([piece.t for piece in pieces]),
        np.concatenate(
            [
                np.pad(p.normalised, ((0, 0), (0, width - p.normalised.shape[1])), constant_values=np.nan)
                for p in pieces
            ]
        ),
        np.concatenate([piece.nis for piece in pieces]),
        np.concatenate([piece.fused for piece in pieces]),
        sum((piece.reasons for piece in pieces), Counter()),
    )
