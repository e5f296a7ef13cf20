"""Writes recordings and measurement logs as MCAP: JSON messages with JSON Schemas in zstd chunks (mcap.dev/spec).

Schemas and channels come before the first chunk, and every chunk is complete when it is written, followed by
a valid end of the file that the next chunk overwrites. So the file of a killed program opens in any reader; a
file cut off by power loss within a chunk can be read up to that chunk, and `replay.mcap_recovery` repairs it.
"""

import contextlib
import errno
import fcntl
import json
import os
import struct
import zlib
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Chunk, ChunkIndex, Header, Metadata, Schema

from replay.mcap_format import LIBRARY, MAGIC, MESSAGE, MESSAGE_FIELDS
from replay.mcap_summary import UNINDEXED_END, McapSummary, index_beside
from vehicled.messages import Measurement
from vehicled.schemas import TOPICS, ClockRecord, encode, encode_measurement, viewer_schema
from vehicled.terminal.output_files import OutputStream
from vehicled.version import __version__
from vehicled.viewer_messages import VIEWER_TOPICS

CHANNEL = {topic: i for i, topic in enumerate((*TOPICS, *VIEWER_TOPICS), start=1)}
"""Channel (and schema) number of every topic in a file that is written here."""

_CHUNK_BYTES = 1 << 20
_COMPRESSION = zstandard.ZstdCompressionParameters.from_level(1, strategy=zstandard.STRATEGY_DFAST)
"""As fast as level 1, and 6 % smaller: JSON repeats longer sequences of keys and digits than most data."""
_MESSAGE_INDEX = struct.Struct("<BQHI")
"""Opcode, length, channel, length of the entries."""


class McapWriter:
    """Writes messages of any of `TOPICS`; several times faster than a writer for all of MCAP.

    OSError when the disk fails: the file then still ends with its last good chunk, and writing may go on.
    """

    def __init__(self, path: str | Path, exclusive: bool = False) -> None:
        """Creates the file; with `exclusive`, FileExistsError if there is one already, and none is left on errors."""
        # Unbuffered: after `end_chunk` the data are with the operating system.
        self._file = OutputStream(path, "xb" if exclusive else "wb")
        self._path = path
        if exclusive:
            # The lock marks the file as being written. On file systems without locks nothing repairs or
            # removes it.
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX)
        self._body = bytearray()
        self._index: dict[int, array[int]] = {}
        schemas, channels = _describe_topics()
        self._summary = McapSummary(schemas, channels, Path(path).parent)
        self._compress = zstandard.ZstdCompressor(compression_params=_COMPRESSION).compress
        self._size = 0
        builder = RecordBuilder()
        Header(profile="", library=f"{LIBRARY} {__version__}").write(builder)
        try:
            self._append(MAGIC + builder.end() + b"".join(schemas + channels))
            self.sync()
        except OSError:
            self._file.close()
            self._summary.close()
            if exclusive:
                os.unlink(path)
            raise

    @property
    def size(self) -> int:
        """Bytes up to the end of the last chunk, or in the file once it is closed."""
        return self._size

    @property
    def messages(self) -> int:
        """Messages in the file's chunks."""
        return self._summary.messages

    @property
    def pending(self) -> int:
        """Messages that wait for the end of their chunk."""
        return sum(len(entries) // 2 for entries in self._index.values())

    def write(self, channel: int, log_time: int, publish_time: int, data: bytes, sequence: int = 0) -> None:
        """Add a message to the chunk in progress; times in ns since 1970 UTC, negative ones as 0.

        struct.error, and nothing is added, for a time that does not fit 64 bits.
        """
        log_time = log_time if log_time > 0 else 0
        # Packed first, as this raises for times that do not fit: the index must not have a message that is
        # not there.
        head = MESSAGE.pack(
            Opcode.MESSAGE,
            MESSAGE_FIELDS + len(data),
            channel,
            sequence & 0xFFFFFFFF,
            log_time,
            publish_time if publish_time > 0 else 0,
        )
        entries = self._index.get(channel)
        if entries is None:
            entries = self._index[channel] = array("Q")
        entries.append(log_time)
        entries.append(len(self._body))
        self._body += head + data

    def add_beside(self, record: Attachment | Metadata) -> None:
        """Add an attachment or a record of metadata, before the first chunk: a repair finds it there. OSError."""
        builder = RecordBuilder()
        record.write(builder)
        data = builder.end()
        index = index_beside(record, self._size, len(data))
        self._append(data)
        self._summary.add_beside(index)

    @property
    def chunk_is_full(self) -> bool:
        """Whether the open chunk has reached the size at which it should be ended."""
        return len(self._body) >= _CHUNK_BYTES

    def end_chunk(self) -> None:
        """Pass the messages since the last chunk to the operating system; raises OSError, and they are lost."""
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
        self._summary.add(
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
            ),
            {channel: len(entries) // 2 for channel, entries in index.items()},
        )

    def sync(self) -> None:
        """Wait until all data passed on are on disk, so that they survive a power failure."""
        os.fsync(self._file.fileno())

    def check_place(self) -> None:
        """Raises FileNotFoundError unless the path still leads to this file, as a removed file cannot be found."""
        if not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))

    def close(self) -> None:
        """End the chunk, write the summary that lets viewers seek, and close. Further calls have no effect."""
        if self._file.closed:
            return
        try:
            self.end_chunk()
            summary = self._summary.encode(self._size)
            self._write(summary)
            self._size += sum(map(len, summary))
            self.sync()
        finally:
            self._file.close()
            self._summary.close()

    def _append(self, data: bytes) -> None:
        """Write `data` over the end of the file, with a new end after it, at once: a kill comes before or after."""
        self._write([data + UNINDEXED_END])
        self._size += len(data)

    def _write(self, pieces: Sequence[bytes]) -> None:
        """Write from `size` on; if that fails, the file ends there again."""
        try:
            self._file.seek(self._size)
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[self._file.write(rest) :]
        except OSError:
            # Overwrite the old end, for which even a full disk has room.
            with contextlib.suppress(OSError):
                self._file.truncate(self._size + len(UNINDEXED_END))
                self._file.seek(self._size)
                self._file.write(UNINDEXED_END)
            raise


def _describe_topics() -> tuple[list[bytes], list[bytes]]:
    """Schema and channel records of all topics."""
    schemas, channels = [], []
    for topic, number in CHANNEL.items():
        builder = RecordBuilder()
        name, schema = viewer_schema(topic)
        text = json.dumps(schema, ensure_ascii=False).encode()
        Schema(id=number, data=text, encoding="jsonschema", name=name).write(builder)
        schemas.append(builder.end())
        Channel(id=number, topic=f"/{topic}", message_encoding="json", metadata={}, schema_id=number).write(
            builder
        )
        channels.append(builder.end())
    return schemas, channels


class McapLogWriter:
    """Writes measurements not processed by a filter, such as those of a simulation. A context manager."""

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
