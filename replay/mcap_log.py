"""Reads the recordings and measurement logs that `replay.mcap_writer` writes."""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from replay.csv_log import Table
from replay.mcap_format import MAGIC
from replay.mcap_messages import Message, read_messages
from replay.problems import Problems
from replay.times import LONGEST_NS
from vehicled.errors import UsageError
from vehicled.garbage import collector_off
from vehicled.messages import ESTIMATE_COLUMNS, LOAD_COLUMNS, Command, Innovation, Measurement, Status, Step
from vehicled.schemas import (
    ROW_COLUMNS,
    TOPIC_COLUMNS,
    TOPICS,
    ClockRecord,
    CommandRecord,
    ConfigurationRecord,
    MeasurementRecord,
    StepRecord,
    decode_row,
)


class Run(NamedTuple):
    """All that `vehicled score` and `vehicled report` need of a recording."""

    estimates: Table
    measurements: list[Measurement]
    innovations: list[Innovation]
    statuses: list[Status]
    steps: list[StepRecord]
    problems: Problems


_LONGEST_PAUSE_S = 10.0
"""Between two steps of one run. The service is restarted long before."""


class _InnovationRecord(msgspec.Struct, gc=False):
    """`Innovation` as it may be in a file: with nulls where the filter had NaN."""

    t: int
    step: int
    sensor: str
    source: str
    value: list[float | None]
    predicted: list[float | None]
    innovation: list[float | None]
    variance: list[float | None]
    nis: float | None
    test_ratio: float | None
    fused: bool
    reason: str


class McapLog:
    """MCAP files with the topics of this program, whole or cut off. Problems are counted; reading goes on."""

    def __init__(self, path: str | Path, *following: str | Path) -> None:
        """Reads up to the first measurement. UsageError if a file is none of ours.

        following: the further files of one run, each begun after a time or size, in the order in which they were
        written. All steps are then read, with UsageError if some are missing between two files.
        """
        self.path = Path(path)
        self._paths = (self.path, *map(Path, following))
        names = [p.name for p in self._paths]
        self.problems = Problems(names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}")
        self.configuration: str | None = None
        """Text of the configuration that the recorded program ran with."""
        self.utc_offset_ns = 0
        """Time of day minus the clock of the measurements; 0 if unknown."""
        self.recorded = False
        """Whether a filter has consumed these measurements, so that `recorded_steps` can give its steps."""
        for p in self._paths:
            with open(p, "rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise UsageError(f"{p}: not an MCAP file; expected it to start with the MCAP magic bytes")
        self._read_head()
        if following:
            self._check_order()

    def _read_head(self) -> None:
        for m in self.messages(("clock", "configuration", "measurement", "step")):
            if m.topic == "clock":
                clock = self._decode(m, ClockRecord)
                self.utc_offset_ns = clock.utc - clock.t if clock and clock.utc else 0
            elif m.topic == "configuration":
                configuration = self._decode(m, ConfigurationRecord)
                self.configuration = configuration.text if configuration else None
            elif m.topic == "step":
                self.recorded = True
                break
            elif (record := self._decode(m, MeasurementRecord)) is not None:
                self.recorded = record.step is not None
                break

    def _check_order(self) -> None:
        """UsageError unless each file begins with the step after the last one of the file before it."""
        before: tuple[Path, Message] | None = None
        for path in self._paths:
            steps = read_messages(path, ("step",), self.problems)
            first = next(steps, None)
            if first is None:
                raise UsageError(
                    f"{path}: no filter steps; expected a recording, as several files were given"
                )
            if before is not None:
                self._check_follows(path, first, *before)
            if path is not self._paths[-1]:
                before = path, deque(chain((first,), steps), maxlen=1)[0]

    def _check_follows(self, path: Path, first: Message, before: Path, last: Message) -> None:
        expected = (last.sequence + 1) & 0xFFFFFFFF
        end, begin = (self._decode(message, StepRecord) for message in (last, first))
        pause = (begin.t - end.t) * 1e-9 if begin and end else math.nan
        if first.sequence != expected or not 0.0 < pause <= _LONGEST_PAUSE_S:
            raise UsageError(
                f"{path}: begins with step {first.sequence}, {pause:.6g} s after the end of {before}; expected its "
                f"step {expected} within {_LONGEST_PAUSE_S:g} s: all files of one run, in their order"
            )

    def messages(self, topics: Collection[str] = TOPICS) -> Iterator[Message]:
        """The messages of these topics in the order in which they were written."""
        self.problems.clear()
        several = len(self._paths) > 1
        return chain.from_iterable(
            read_messages(path, topics, self.problems, f"{path.name}, " * several) for path in self._paths
        )

    def _decode(self, message: Message, kind: type[Any]) -> Any:
        """The message as `kind`, None (and a problem) if it is not one."""
        try:
            return _find_decoder(kind)(message.data)  # type: ignore[arg-type]  # classes are hashable
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.problems.add("bad message", f"/{message.topic} at {message.log_time}", str(error))
            return None

    def _decode_measurement(self, message: Message) -> Measurement | None:
        # Only few have something that is not known, so that most are read as what they will be.
        has_null = b"null" in message.data
        record = self._decode(message, MeasurementRecord if has_null else Measurement)
        if record is None:
            return None
        if not (-LONGEST_NS <= record.t <= LONGEST_NS and -LONGEST_NS <= record.arrival <= LONGEST_NS):
            self.problems.add("absurd time", f"t = {record.t / 1e9:.9g} s", f"{record.source}; skipped")
            return None
        if not has_null:
            found: Measurement = record
            return found
        values: dict[str, Any] = record.values
        if None in values.values():
            self.problems.add("not finite", f"t = {record.t / 1e9:.9g} s", f"{record.source}")
            values = {channel: value for channel, value in values.items() if value is not None}
        return Measurement(record.source, record.t, record.arrival, values)

    def measurements(self) -> Iterator[Measurement]:
        """All measurements, in the order in which they were written: that of consumption, or of arrival."""
        for message in self.messages(("measurement",)):
            measurement = self._decode_measurement(message)
            if measurement is not None:
                yield measurement

    def recorded_steps(self) -> Iterator[Step]:
        """The filter steps of the recorded run, each with exactly what it consumed, in order.

        Steps that the recorder had to drop leave a gap, and a problem.
        """
        measurements: list[Measurement] = []
        commands: list[Command] = []
        expected: int | None = None
        for message in self.messages(("measurement", "command", "step")):
            if message.topic == "measurement":
                if (measurement := self._decode_measurement(message)) is not None:
                    measurements.append(measurement)
            elif message.topic == "command":
                command = self._decode(message, CommandRecord)
                if command is not None:
                    commands.append(Command(command.name, command.arguments))
            else:
                step = self._decode(message, StepRecord)
                if step is None:
                    continue
                if expected is not None and message.sequence != expected:
                    missing = (message.sequence - expected) & 0xFFFFFFFF
                    self.problems.add(
                        "steps missing", f"t = {step.t / 1e9:.9g} s", f"{missing} before this one"
                    )
                expected = (message.sequence + 1) & 0xFFFFFFFF
                # A damaged chunk may have taken the end of one step, never a part of what follows it here.
                yield Step(step.t, measurements, tuple(commands))
                measurements, commands = [], []

    def read_run(self, topics: Collection[str] = TOPICS) -> Run:
        """Everything at once, in memory; of other topics than these nothing."""
        with collector_off():  # a million objects that stay are not worth looking through again and again
            measurements: list[Measurement] = []
            innovations: list[Innovation] = []
            statuses: list[Status] = []
            steps: list[StepRecord] = []
            rows: dict[str, list[bytes]] = {topic: [] for topic in ROW_COLUMNS}
            for message in self.messages(topics):
                if message.topic in rows:
                    rows[message.topic].append(message.data)
                elif message.topic == "measurement":
                    if (measurement := self._decode_measurement(message)) is not None:
                        measurements.append(measurement)
                elif message.topic == "innovation":
                    kind = _InnovationRecord if b"null" in message.data else Innovation
                    if (innovation := self._decode(message, kind)) is not None:
                        innovations.append(innovation if kind is Innovation else _finite_or_nan(innovation))
                elif message.topic == "status":
                    if (status := self._decode(message, Status)) is not None:
                        statuses.append(status)
                elif message.topic == "step" and (step := self._decode(message, StepRecord)) is not None:
                    steps.append(step)
            estimates = _table(rows, self.problems)
        return Run(estimates, measurements, innovations, statuses, steps, self.problems)


@cache
def _find_decoder(kind: type[Any]) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


def _finite_or_nan(record: _InnovationRecord) -> Innovation:
    def lists(values: list[float | None]) -> list[float]:
        return [float("nan") if v is None else v for v in values]

    nis, ratio = lists([record.nis, record.test_ratio])
    return Innovation(
        record.t,
        record.step,
        record.sensor,
        record.source,
        lists(record.value),
        lists(record.predicted),
        lists(record.innovation),
        lists(record.variance),
        nis,
        ratio,
        record.fused,
        record.reason,
    )


def _table(rows: dict[str, list[bytes]], problems: Problems) -> Table:
    """The topics of each step as one row again, at the times of `position`; with `loads` if there are any."""
    topics = {
        topic: columns for topic, columns in ROW_COLUMNS.items() if topic in TOPIC_COLUMNS or rows[topic]
    }
    times: dict[str, np.ndarray] = {}
    values: dict[str, np.ndarray] = {}
    for topic, columns in topics.items():
        decoded = []
        for data in rows[topic]:
            try:
                row = decode_row(topic, data)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                problems.add("bad message", f"/{topic}", str(error))
                continue
            if abs(row[0]) > LONGEST_NS:
                problems.add("absurd time", f"/{topic}", f"t = {row[0] / 1e9:.9g} s; skipped")
                continue
            decoded.append(row)
        times[topic] = np.array([row[0] for row in decoded], dtype=np.int64)
        values[topic] = np.array([row[1:] for row in decoded], dtype=float).reshape(
            len(decoded), len(columns)
        )
    rows_t = times["position"]
    columns_of: dict[str, np.ndarray] = {}
    for topic, columns in topics.items():
        whole = np.full((len(rows_t), len(columns)), np.nan)
        _, here, there = np.intersect1d(rows_t, times[topic], return_indices=True)
        whole[here] = values[topic][there]
        columns_of.update(zip(columns, whole.T, strict=True))
    return Table(
        rows_t, {c: columns_of[c] for c in (*ESTIMATE_COLUMNS, *LOAD_COLUMNS) if c in columns_of}, problems
    )
