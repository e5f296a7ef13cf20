"""Recordings and measurement logs as MCAP: JSON messages with JSON Schemas in zstd chunks (mcap.dev/spec).

Schemas and channels stand before the first chunk, and every chunk is complete when it is written: a file that
ends anywhere reads back up to its last complete chunk.
"""

import io
import json
import os
import struct
import zlib
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import zstandard
from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    Schema,
    Statistics,
    SummaryOffset,
)
from mcap.stream_reader import get_chunk_data_stream

from replay.csv_log import Table
from replay.problems import Problems
from vehicled import __version__
from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_COLUMNS, Command, Innovation, Measurement, Status, Step
from vehicled.schemas import (
    TOPIC_COLUMNS,
    TOPICS,
    Clock,
    CommandRecord,
    Configuration,
    MeasurementRecord,
    StepRecord,
    encode,
    encode_measurement,
    viewer_schema,
)

MAGIC = b"\x89MCAP0\r\n"

CHANNEL = {topic: i for i, topic in enumerate(TOPICS, start=1)}
"""Channel (and schema) number of every topic in a file that is written here."""

_CHUNK_BYTES = 1 << 20
_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<BQHIQQ")
"""Opcode, length, channel, sequence, log time, publish time."""
_MESSAGE_FIELDS = 22
_MESSAGE_INDEX = struct.Struct("<BQHI")


class McapWriter:
    """Writes messages of any of `TOPICS`; does only what they need, and is several times faster for it.

    OSError when the disk fails: the file then still ends with its last good chunk, and writing may go on.
    """

    def __init__(self, path: str | Path, exclusive: bool = False) -> None:
        """Creates the file; with `exclusive`, FileExistsError if there is one already."""
        # Unbuffered: what `end_chunk` has written is in the hands of the operating system.
        self._file = open(path, "xb" if exclusive else "wb", buffering=0)  # noqa: SIM115
        self._body = bytearray()
        self._index: dict[int, array[int]] = {}
        # Encoded index records for the summary: all that grows with the run, by 0.3 kB/s.
        self._chunk_indexes = bytearray()
        self._chunk_count = 0
        self._first_time, self._last_time = 2**64 - 1, 0
        self._counts: dict[int, int] = dict.fromkeys(CHANNEL.values(), 0)
        self._compress = zstandard.ZstdCompressor(level=1).compress
        self._size = 0
        builder = RecordBuilder()
        Header(profile="", library=f"vehicled {__version__}").write(builder)
        self._append(MAGIC + builder.end() + _describe_topics()[0])
        self.sync()

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    @property
    def pending(self) -> int:
        """Messages that wait for the end of their chunk."""
        return sum(len(entries) // 2 for entries in self._index.values())

    def write(self, channel: int, log_time: int, publish_time: int, data: bytes, sequence: int = 0) -> None:
        """Add a message to the chunk in progress; times in ns since 1970 UTC, negative ones as 0."""
        body = self._body
        log_time = log_time if log_time > 0 else 0
        entries = self._index.get(channel)
        if entries is None:
            entries = self._index[channel] = array("Q")
        entries.append(log_time)
        entries.append(len(body))
        body += _MESSAGE.pack(
            Opcode.MESSAGE,
            _MESSAGE_FIELDS + len(data),
            channel,
            sequence & 0xFFFFFFFF,
            log_time,
            publish_time if publish_time > 0 else 0,
        )
        body += data

    @property
    def chunk_is_full(self) -> bool:
        return len(self._body) >= _CHUNK_BYTES

    def end_chunk(self) -> None:
        """Hand the messages since the last chunk to the operating system; OSError, and they are lost."""
        if not self._index:
            return
        body, index = self._body, self._index
        self._body, self._index = bytearray(), {}
        times = [entries[::2] for entries in index.values()]
        chunk = Chunk(
            compression="zstd",
            data=self._compress(body),
            message_start_time=min(min(t) for t in times),
            message_end_time=max(max(t) for t in times),
            uncompressed_crc=zlib.crc32(body),
            uncompressed_size=len(body),
        )
        builder = RecordBuilder()
        chunk.write(builder)
        length = builder.count
        offsets = {}
        for channel, entries in index.items():
            offsets[channel] = self._size + builder.count
            pairs = entries.tobytes()
            builder.write(_MESSAGE_INDEX.pack(Opcode.MESSAGE_INDEX, 6 + len(pairs), channel, len(pairs)))
            builder.write(pairs)
        start = self._size
        self._append(builder.end())
        ChunkIndex(
            chunk_length=length,
            chunk_start_offset=start,
            compression=chunk.compression,
            compressed_size=len(chunk.data),
            message_end_time=chunk.message_end_time,
            message_index_length=self._size - start - length,
            message_index_offsets=offsets,
            message_start_time=chunk.message_start_time,
            uncompressed_size=chunk.uncompressed_size,
        ).write(builder)
        self._chunk_indexes += builder.end()
        self._chunk_count += 1
        self._first_time = min(self._first_time, chunk.message_start_time)
        self._last_time = max(self._last_time, chunk.message_end_time)
        for channel, entries in index.items():
            self._counts[channel] += len(entries) // 2

    def sync(self) -> None:
        """Wait until the disk has what was handed over; power may then fail."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """End the chunk, write the summary that lets viewers seek, and close. Once only matters."""
        if self._file.closed:
            return
        try:
            self.end_chunk()
            self._append(self._summary())
            self.sync()
        finally:
            self._file.close()

    def _append(self, data: bytes) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.seek(self._size)
            self._file.truncate()
            raise
        self._size += len(data)

    def _summary(self) -> bytes:
        builder = RecordBuilder()
        DataEnd(data_section_crc=0).write(builder)
        data_end = builder.end()
        start = self._size + len(data_end)
        groups: list[SummaryOffset] = []

        def end_group(opcode: Opcode, begin: int) -> None:
            groups.append(
                SummaryOffset(
                    group_opcode=opcode, group_start=start + begin, group_length=builder.count - begin
                )
            )

        described, schemas_length = _describe_topics()
        builder.write(described[:schemas_length])
        end_group(Opcode.SCHEMA, 0)
        builder.write(described[schemas_length:])
        end_group(Opcode.CHANNEL, schemas_length)
        begin = builder.count
        Statistics(
            attachment_count=0,
            channel_count=len(CHANNEL),
            channel_message_counts={c: n for c, n in self._counts.items() if n},
            chunk_count=self._chunk_count,
            message_count=sum(self._counts.values()),
            message_end_time=self._last_time,
            message_start_time=self._first_time if self._chunk_count else 0,
            metadata_count=0,
            schema_count=len(CHANNEL),
        ).write(builder)
        end_group(Opcode.STATISTICS, begin)
        begin = builder.count
        builder.write(self._chunk_indexes)
        end_group(Opcode.CHUNK_INDEX, begin)
        offsets_start = start + builder.count
        for group in groups:
            group.write(builder)
        summary = builder.end()
        footer_head = struct.pack("<BQQQ", Opcode.FOOTER, 20, start, offsets_start)
        Footer(
            summary_start=start,
            summary_offset_start=offsets_start,
            summary_crc=zlib.crc32(footer_head, zlib.crc32(summary)),
        ).write(builder)
        return data_end + summary + builder.end() + MAGIC


def _describe_topics() -> tuple[bytes, int]:
    """Schema and channel records of all topics, and the length of the schemas."""
    builder = RecordBuilder()
    for topic, number in CHANNEL.items():
        text = json.dumps(viewer_schema(topic), ensure_ascii=False).encode()
        Schema(id=number, data=text, encoding="jsonschema", name=f"vehicled.{topic}").write(builder)
    length = builder.count
    for topic, number in CHANNEL.items():
        Channel(id=number, topic=f"/{topic}", message_encoding="json", metadata={}, schema_id=number).write(
            builder
        )
    return builder.end(), length


class McapLogWriter:
    """Writes measurements that no filter has seen yet, such as those of a simulation. A context manager."""

    def __init__(self, path: str | Path, utc_offset_ns: int = 0) -> None:
        """`utc_offset_ns`: time of day minus the clock of the measurements; 0 if there is no time of day."""
        self.rows = 0
        self._writer = McapWriter(path)
        self._offset = utc_offset_ns
        self._clock_written = False

    def write(self, m: Measurement) -> None:
        if not self._clock_written:
            write_clock(self._writer, m.arrival, self._offset)
            self._clock_written = True
        offset = self._offset
        data = encode_measurement(None, m)
        self._writer.write(CHANNEL["measurement"], m.arrival + offset, m.t + offset, data)
        if self._writer.chunk_is_full:
            self._writer.end_chunk()
        self.rows += 1

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_clock(writer: McapWriter, t: int, utc_offset_ns: int) -> None:
    """Record one instant on both clocks."""
    utc = t + utc_offset_ns if utc_offset_ns else 0
    writer.write(CHANNEL["clock"], t + utc_offset_ns, t + utc_offset_ns, encode(Clock(t, utc)))


def is_mcap(path: str | Path) -> bool:
    """Whether a file is MCAP, by content or, if damaged at its very start, by name. OSError if unreadable."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC or Path(path).suffix.lower() == ".mcap"


class Message(NamedTuple):
    """One message of an MCAP file."""

    topic: str
    """Without the leading slash."""
    log_time: int
    sequence: int
    data: bytes


class Run(NamedTuple):
    """All that `vehicled score` and `vehicled report` want of a recording."""

    estimates: Table
    measurements: list[Measurement]
    innovations: list[Innovation]
    statuses: list[Status]
    steps: list[StepRecord]
    problems: Problems


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {}


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
    """An MCAP file with the topics of this program, whole or cut off. Problems are counted and survived."""

    def __init__(self, path: str | Path) -> None:
        """Reads up to the first measurement. UsageError if the file is none of ours."""
        self.path = Path(path)
        self.problems = Problems(self.path.name)
        self.configuration: str | None = None
        """Text of the configuration that the recorded program ran with."""
        self.utc_offset_ns = 0
        """Time of day minus the clock of the measurements; 0 if unknown."""
        self.recorded = False
        """Whether a filter has consumed these measurements, so that `steps` can tell how."""
        with open(self.path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise UsageError(
                    f"{self.path}: not an MCAP file; expected it to start with the MCAP magic bytes"
                )
        self._read_head()

    def _read_head(self) -> None:
        for m in self.messages(("clock", "configuration", "measurement", "step")):
            if m.topic == "clock":
                clock = self._decode(m, Clock)
                self.utc_offset_ns = clock.utc - clock.t if clock and clock.utc else 0
            elif m.topic == "configuration":
                configuration = self._decode(m, Configuration)
                self.configuration = configuration.text if configuration else None
            elif m.topic == "step":
                self.recorded = True
                break
            elif (record := self._decode(m, MeasurementRecord)) is not None:
                self.recorded = record.step is not None
                break

    def messages(self, topics: Collection[str] = TOPICS) -> Iterator[Message]:
        """The messages of these topics in the order in which they were written."""
        self.problems.clear()
        channels: dict[int, str] = {}
        size = self.path.stat().st_size
        with open(self.path, "rb") as file:
            file.seek(len(MAGIC))
            while True:
                begin = file.tell()
                head = file.read(_RECORD.size)
                opcode, length = _RECORD.unpack(head) if len(head) == _RECORD.size else (0, 0)
                if opcode == Opcode.DATA_END:
                    return
                if opcode == 0 or length > size - begin - _RECORD.size:
                    # Power failed, or the file is still being written: what came before is good.
                    self.problems.add(
                        "truncated", f"byte {begin}", f"{size - begin} bytes without a complete record"
                    )
                    return
                if opcode == Opcode.CHUNK:
                    yield from self._chunk(file.read(length), begin, channels, topics)
                elif opcode in (Opcode.CHANNEL, Opcode.MESSAGE):
                    yield from self._records(head + file.read(length), begin, channels, topics)
                else:
                    file.seek(length, os.SEEK_CUR)

    def _chunk(
        self, record: bytes, begin: int, channels: dict[int, str], topics: Collection[str]
    ) -> Iterator[Message]:
        try:
            chunk = Chunk.read(ReadDataStream(io.BytesIO(record)))
            stream, length = get_chunk_data_stream(chunk, validate_crc=True)
            body = stream.read(length)
        except Exception as error:  # Every library under this has exceptions of its own for the same damage.
            self.problems.add("damaged chunk", f"byte {begin}", f"{error or type(error).__name__}; skipped")
            return
        yield from self._records(body, begin, channels, topics)

    def _records(
        self, body: bytes, begin: int, channels: dict[int, str], topics: Collection[str]
    ) -> Iterator[Message]:
        """Messages of `topics` in a run of complete records, at byte `begin` of the file or in the chunk there;
        channels that it declares go into `channels`."""
        position, end = 0, len(body)
        unpack = _MESSAGE.unpack_from
        while position + _RECORD.size <= end:
            opcode, length = _RECORD.unpack_from(body, position)
            following = position + _RECORD.size + length
            if opcode == Opcode.MESSAGE and length >= _MESSAGE_FIELDS:
                _, _, channel, sequence, log_time, _ = unpack(body, position)
                topic = channels.get(channel, "")
                if topic in topics:
                    yield Message(topic, log_time, sequence, body[position + _MESSAGE.size : following])
            elif opcode == Opcode.CHANNEL:
                stream = ReadDataStream(io.BytesIO(body[position + _RECORD.size : following]))
                try:
                    declared = Channel.read(stream)
                    channels[declared.id] = declared.topic.lstrip("/")
                except Exception as error:  # As for chunks.
                    what = str(error) or type(error).__name__
                    self.problems.add("damaged channel", f"byte {begin}", f"{what}; skipped")
            position = following

    def _decode(self, message: Message, kind: type[Any]) -> Any:
        """The message as `kind`, None (and a problem) if it is not one."""
        decoder = _DECODERS.get(kind.__name__)
        if decoder is None:
            decoder = _DECODERS[kind.__name__] = msgspec.json.Decoder(kind)
        try:
            return decoder.decode(message.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.problems.add("bad message", f"/{message.topic} at {message.log_time}", str(error))
            return None

    def _measurement(self, record: MeasurementRecord) -> Measurement:
        values: dict[str, Any] = record.values
        if None in values.values():
            self.problems.add("not finite", f"t = {record.t / 1e9:.9g} s", f"{record.source}")
            values = {channel: value for channel, value in values.items() if value is not None}
        return Measurement(record.source, record.t, record.arrival, values)

    def measurements(self) -> Iterator[Measurement]:
        """All measurements, in the order in which they were written: that of consumption, or of arrival."""
        for message in self.messages(("measurement",)):
            record = self._decode(message, MeasurementRecord)
            if record is not None:
                yield self._measurement(record)

    def recorded_steps(self) -> Iterator[Step]:
        """The filter steps of the recorded run, each with exactly what it consumed, in order.

        Steps that the recorder had to drop leave a gap, and a problem.
        """
        measurements: list[Measurement] = []
        commands: list[Command] = []
        expected = 1
        for message in self.messages(("measurement", "command", "step")):
            if message.topic == "measurement":
                record = self._decode(message, MeasurementRecord)
                if record is not None:
                    measurements.append(self._measurement(record))
            elif message.topic == "command":
                command = self._decode(message, CommandRecord)
                if command is not None:
                    commands.append(Command(command.name, command.arguments))
            else:
                step = self._decode(message, StepRecord)
                if step is None:
                    continue
                if message.sequence != expected:
                    missing = (message.sequence - expected) & 0xFFFFFFFF
                    self.problems.add(
                        "steps missing", f"t = {step.t / 1e9:.9g} s", f"{missing} before this one"
                    )
                expected = (message.sequence + 1) & 0xFFFFFFFF
                # A damaged chunk may have taken the end of one step, never a part of what follows it here.
                yield Step(step.t, measurements, tuple(commands))
                measurements, commands = [], []

    def read_run(self) -> Run:
        """Everything at once, in memory."""
        measurements: list[Measurement] = []
        innovations: list[Innovation] = []
        statuses: list[Status] = []
        steps: list[StepRecord] = []
        rows: dict[str, list[bytes]] = {topic: [] for topic in TOPIC_COLUMNS}
        for message in self.messages():
            if message.topic in rows:
                rows[message.topic].append(message.data)
            elif message.topic == "measurement":
                if (record := self._decode(message, MeasurementRecord)) is not None:
                    measurements.append(self._measurement(record))
            elif message.topic == "innovation":
                if (innovation := self._decode(message, _InnovationRecord)) is not None:
                    innovations.append(_finite_or_nan(innovation))
            elif message.topic == "status":
                if (status := self._decode(message, Status)) is not None:
                    statuses.append(status)
            elif message.topic == "step" and (step := self._decode(message, StepRecord)) is not None:
                steps.append(step)
        estimates = _table(rows, self.problems)
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


def _table(rows: dict[str, list[bytes]], problems: Problems) -> Table:
    """The three topics of each step as one row again, at the times of `position`."""
    times: dict[str, np.ndarray] = {}
    values: dict[str, np.ndarray] = {}
    decode = msgspec.json.Decoder(dict[str, float | int | None]).decode
    for topic, columns in TOPIC_COLUMNS.items():
        decoded = []
        for data in rows[topic]:
            try:
                fields = decode(data)
                decoded.append((int(fields["t"] or 0), [fields.get(c) for c in columns]))
            except (msgspec.DecodeError, KeyError) as error:
                problems.add("bad message", f"/{topic}", str(error))
        times[topic] = np.array([t for t, _ in decoded], dtype=np.int64)
        values[topic] = np.array([v for _, v in decoded], dtype=float).reshape(len(decoded), len(columns))
    t = times["position"]
    columns_of: dict[str, np.ndarray] = {}
    for topic, columns in TOPIC_COLUMNS.items():
        whole = np.full((len(t), len(columns)), np.nan)
        _, here, there = np.intersect1d(t, times[topic], return_indices=True)
        whole[here] = values[topic][there]
        columns_of.update(zip(columns, whole.T, strict=True))
    return Table(t, {c: columns_of[c] for c in ESTIMATE_COLUMNS}, problems)
