"""Reads the recordings and measurement logs that `replay.mcap_writer` writes."""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from replay.csv_log import Table
from replay.mcap_batches import TableReader, decode_all, find_decoder
from replay.mcap_format import MAGIC
from replay.mcap_messages import ByteRange, Message, divide, is_ours, read_batches, read_messages
from replay.problems import Problems
from replay.times import LONGEST_NS
from vehicled.errors import UsageError
from vehicled.garbage import collector_off
from vehicled.messages import Command, Innovation, Measurement, Status, Step
from vehicled.schemas import (
    ROW_COLUMNS,
    TOPICS,
    ClockRecord,
    CommandRecord,
    ConfigurationRecord,
    MeasurementRecord,
    StepRecord,
)

_T = TypeVar("_T")


class Run(NamedTuple):
    """All that `vehicled score` and `vehicled report` need of a recording."""

    estimates: Table
    measurements: list[Measurement]
    innovations: list[Innovation]
    statuses: list[Status]
    steps: list[StepRecord]
    problems: Problems


_LONGEST_PAUSE_S = 10.0
"""Longest time between two steps of one run. The service is restarted well before."""


class _InnovationRecord(msgspec.Struct, gc=False):
    """`Innovation` as stored in a file: with nulls where the filter had NaN."""

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
                if (start := file.read(len(MAGIC))) != MAGIC:
                    found = "not an MCAP file" if start else "the file is empty"
                    raise UsageError(f"{p}: {found}; expected it to start with the MCAP magic bytes")
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
                # A file that the daemon had just begun when it ended.
                is_begun = next(read_messages(path, ("configuration",), self.problems), None) is not None
                if before is not None and path is self._paths[-1] and is_begun:
                    return
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
        return self._read(read_messages, topics)

    def _read(self, read: Callable[..., Iterator[_T]], topics: Collection[str]) -> Iterator[_T]:
        self.problems.clear()
        several = len(self._paths) > 1
        return chain.from_iterable(
            read(path, topics, self.problems, f"{path.name}, " * several) for path in self._paths
        )

    def _decode(self, message: Message, kind: type[Any]) -> Any:
        """The message as `kind`, None (and a problem) if it is not one."""
        try:
            if not message.data.isascii():
                message.data.decode()  # raises for damaged names of fields, which the decoder would skip
            return find_decoder(kind)(message.data)  # type: ignore[arg-type]  # classes are hashable
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.problems.add("bad message", f"/{message.topic} at {message.log_time}", str(error))
            return None

    def _decode_measurement(self, message: Message) -> Measurement | None:
        # Only few have unknown values, so most are decoded directly to their final type.
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

    def _decode_innovation(self, message: Message) -> Innovation | None:
        record = self._decode(message, _InnovationRecord)
        return None if record is None else _finite_or_nan(record)

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

    def batches(
        self, topics: Collection[str] = TOPICS, part: ByteRange | None = None
    ) -> Iterator[tuple[str, list[Message]]]:
        """The messages of these topics, some thousand of one topic at a time, with its name; each topic in order.

        part: of `find_parts`; all when left out.
        """
        return self._read(partial(read_batches, part=part), topics)

    def find_parts(self, most: int) -> list[ByteRange]:
        """The log in at most so many equal parts; in one unless it is a single file of this program."""
        return divide(self.path, most if len(self._paths) == 1 and is_ours(self.path) else 1)

    def decode_measurements(self, messages: Sequence[Message]) -> list[Measurement]:
        """Decode messages of `measurement`; damaged ones are left out."""
        found = decode_all(messages, Measurement, self._decode_measurement)
        times = [t for m in found for t in (m.t, m.arrival)] or [0]
        if not -LONGEST_NS <= min(times) <= max(times) <= LONGEST_NS:
            found = [m for message in messages if (m := self._decode_measurement(message)) is not None]
        return found

    def decode_innovations(self, messages: Sequence[Message]) -> list[Innovation]:
        """Decode messages of `innovation`; damaged ones are left out; NaN where the filter had it."""
        return decode_all(messages, Innovation, self._decode_innovation)

    def decode_parts(self, messages: Sequence[Message], kind: type[_T]) -> list[_T]:
        """Decode those fields of `measurement` or `innovation` that `kind` has; damaged messages are left out.

        In `kind`, times of measurements have the type `Nanoseconds`.
        """
        is_innovation = messages[0].topic == "innovation"
        decode_whole = self._decode_innovation if is_innovation else self._decode_measurement

        def decode(message: Message) -> _T | None:
            whole = decode_whole(message)
            return None if whole is None else msgspec.convert(whole, kind, from_attributes=True)

        return decode_all(messages, kind, decode, nulls=is_innovation)

    def decode_all(self, messages: Sequence[Message], kind: type[_T]) -> list[_T]:
        """Decode messages as `kind`, without those that are not."""
        return decode_all(messages, kind, lambda message: self._decode(message, kind))

    def make_table(self) -> TableReader:
        """Reader for batches of the topics `ROW_COLUMNS`."""
        return TableReader(self.problems, self._decode)

    def read_run(self, topics: Collection[str] = TOPICS) -> Run:
        """Read all messages of these topics into memory."""
        with collector_off():  # a million objects that stay need not be searched again and again
            table = self.make_table()
            measurements: list[Measurement] = []
            innovations: list[Innovation] = []
            statuses: list[Status] = []
            steps: list[StepRecord] = []
            for topic, messages in self.batches(topics):
                if topic in ROW_COLUMNS:
                    table.take(topic, messages)
                elif topic == "measurement":
                    measurements += self.decode_measurements(messages)
                elif topic == "innovation":
                    innovations += self.decode_innovations(messages)
                elif topic == "status":
                    statuses += self.decode_all(messages, Status)
                elif topic == "step":
                    steps += self.decode_all(messages, StepRecord)
            estimates = table.finish()
        return Run(estimates, measurements, innovations, statuses, steps, self.problems)


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
