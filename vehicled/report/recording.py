"""What a report shows of a recording, gathered while it is read: little of an hour stays in memory."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from replay.csv_log import Table
from replay.mcap_log import McapLog
from vehicled.garbage import collector_off
from vehicled.messages import Innovation, Measurement, Parameters, Status
from vehicled.schemas import TOPIC_COLUMNS, StepRecord
from vehicled.scoring import SensorScore, SensorTally


@dataclass(frozen=True)
class SensorHistory:
    """All innovation records of one kind of observation."""

    t: np.ndarray
    """(n,) int64 ns."""
    normalised: np.ndarray
    """(n, components) innovation over its own standard deviation."""
    fused: np.ndarray
    """(n,) bool."""
    reasons: Counter[str]
    """Why the others were not."""


@dataclass(frozen=True)
class Device:
    """What one device has sent."""

    measurements: int
    latency: float
    """Median, s."""


@dataclass(frozen=True)
class RecordedDrive:
    """Of a run, beside its estimates."""

    fixes: np.ndarray
    """(n, 2) latitude and longitude, deg."""
    devices: dict[str, Device]
    """By name."""
    sensors: dict[str, SensorHistory]
    """By kind of observation, in alphabetical order."""
    scores: dict[str, SensorScore]
    """Consistency of the innovations, likewise."""
    status: Status | None
    """The last one."""
    parameters: Parameters | None
    """What the filter has found of car and sensors, the last ones."""
    steps: np.ndarray
    """(n, 2) int64 ns: time of each step, and how long it took; 0 where that is not known."""


@dataclass
class _Gathered:
    fixes: list[tuple[float, float]] = field(default_factory=list)
    ages: defaultdict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    """From measurement to arrival by device, ns."""
    histories: defaultdict[str, list[SensorHistory]] = field(default_factory=lambda: defaultdict(list))
    """Pieces by kind of observation."""
    tally: SensorTally = field(default_factory=SensorTally)
    status: Status | None = None
    parameters: Parameters | None = None
    steps: array[int] = field(default_factory=lambda: array("q"))

    def take_measurements(self, measurements: Iterable[Measurement]) -> None:
        ages = self.ages
        for m in measurements:
            ages[m.source].append(m.arrival - m.t)
            if "gnss.lat" in m.values and "gnss.lon" in m.values:
                self.fixes.append((m.values["gnss.lat"], m.values["gnss.lon"]))

    def take_innovations(self, innovations: Sequence[Innovation]) -> None:
        self.tally.take(innovations)
        by_sensor: dict[str, list[Innovation]] = {}
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
            # There are none before the start, and after a failure.
            if parameters.value:
                self.parameters = parameters

    def finish(self) -> RecordedDrive:
        return RecordedDrive(
            np.array(self.fixes, dtype=float).reshape(-1, 2),
            {
                name: Device(len(ages), float(np.median(np.frombuffer(ages, dtype=np.int64))) * 1e-9)
                for name, ages in self.ages.items()
            },
            {sensor: _join(self.histories[sensor]) for sensor in sorted(self.histories)},
            self.tally.score(),
            self.status,
            self.parameters,
            np.array(self.steps, dtype=np.int64).reshape(-1, 2),
        )


def read_recorded(log: McapLog) -> tuple[Table, RecordedDrive]:
    """Estimates, and all else that a report shows. OSError."""
    with collector_off():  # a million objects that stay only for a moment
        return _read(log)


def _read(log: McapLog) -> tuple[Table, RecordedDrive]:
    table, gathered = log.make_table(), _Gathered()
    for topic, messages in log.batches(
        (*TOPIC_COLUMNS, "measurement", "innovation", "status", "parameters", "step")
    ):
        if topic == "measurement":
            gathered.take_measurements(log.decode_measurements(messages))
        elif topic == "innovation":
            gathered.take_innovations(log.decode_innovations(messages))
        elif topic == "status":
            gathered.status = next(reversed(log.decode_all(messages, Status)), gathered.status)
        elif topic == "parameters":
            gathered.take_parameters(log.decode_all(messages, Parameters))
        elif topic == "step":
            gathered.take_steps(log.decode_all(messages, StepRecord))
        else:
            table.take(topic, messages)
    return table.finish(), gathered.finish()


def _shorten(records: Sequence[Innovation]) -> SensorHistory:
    """Of one kind of observation."""
    counts = np.array([len(r.innovation) for r in records])
    normalised = np.full((len(records), counts.max()), np.nan)
    for n in set(counts.tolist()) - {0}:  # some components may be missing
        rows = np.flatnonzero(counts == n).tolist()
        innovations = np.array([records[i].innovation for i in rows])
        variances = np.array([records[i].variance for i in rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            normalised[rows, :n] = innovations / np.sqrt(variances)
    return SensorHistory(
        np.array([r.t for r in records], dtype=np.int64),
        normalised,
        np.array([r.fused for r in records], dtype=bool),
        Counter(r.reason for r in records if not r.fused),
    )


def _join(pieces: Sequence[SensorHistory]) -> SensorHistory:
    """One after the other, with as many components as the widest has."""
    width = max(piece.normalised.shape[1] for piece in pieces)
    return SensorHistory(
        np.concatenate([piece.t for piece in pieces]),
        np.concatenate(
            [
                np.pad(p.normalised, ((0, 0), (0, width - p.normalised.shape[1])), constant_values=np.nan)
                for p in pieces
            ]
        ),
        np.concatenate([piece.fused for piece in pieces]),
        sum((piece.reasons for piece in pieces), Counter()),
    )
