"""Writes recordings and measurement logs as MCAP: JSON messages with JSON Schemas in zstd chunks (mcap.dev/spec).

Schemas and channels stand before the first chunk, and every chunk is complete when it is written: a file that
ends anywhere reads back up to its last complete chunk.
"""

import json
import os
import struct
import zlib
from array import array
from pathlib import Path
from typing import Self

import zstandard
from mcap.data_stream import RecordBuilder
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

from replay.mcap_format import MAGIC, MESSAGE, MESSAGE_FIELDS
from vehicled import __version__
from vehicled.messages import Measurement
from vehicled.schemas import TOPICS, ClockRecord, encode, encode_measurement, viewer_schema

CHANNEL = {topic: i for i, topic in enumerate(TOPICS, start=1)}
"""Channel (and schema) number of every topic in a file that is written here."""

_CHUNK_BYTES = 1 << 20
_MESSAGE_INDEX = struct.Struct("<BQHI")
"""Opcode, length, channel, length of the entries."""


class McapWriter:
    """Writes messages of any of `TOPICS`; several times faster than a writer for all of MCAP.

    OSError when the disk fails: the file then still ends with its last good chunk, and writing may go on.
    """

    def __init__(self, path: str | Path, exclusive: bool = False) -> None:
        """Creates the file; with `exclusive`, FileExistsError if there is one already."""
        # Unbuffered: after `end_chunk` the data are with the operating system.
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
        body += MESSAGE.pack(
            Opcode.MESSAGE,
            MESSAGE_FIELDS + len(data),
            channel,
            sequence & 0xFFFFFFFF,
            log_time,
            publish_time if publish_time > 0 else 0,
        )
        body += data

    @property
    def chunk_is_full(self) -> bool:
        """Whether the open chunk has reached the size at which it should be ended."""
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
        """End the chunk, write the summary that lets viewers seek, and close. Further calls have no effect."""
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
        tail: bytes = data_end + summary + builder.end() + MAGIC
        return tail


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
    """Writes measurements that no filter has processed, such as those of a simulation. A context manager."""

    def __init__(self, path: str | Path, utc_offset_ns: int = 0) -> None:
        """`utc_offset_ns`: time of day minus the clock of the measurements; 0 if there is no time of day."""
        self.rows = 0
        self._writer = McapWriter(path)
        self._offset = utc_offset_ns
        self._clock_written = False

    def write(self, m: Measurement) -> None:
        """Append a measurement; the first one sets the recording's clock. Raises OSError."""
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
        """End the file with its index."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_clock(writer: McapWriter, t: int, utc_offset_ns: int) -> None:
    """Record one instant on both clocks."""
    utc = t + utc_offset_ns if utc_offset_ns else 0
    writer.write(CHANNEL["clock"], t + utc_offset_ns, t + utc_offset_ns, encode(ClockRecord(t, utc)))
