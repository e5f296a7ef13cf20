"""The end of an MCAP file: the summary through which viewers seek (mcap.dev/spec)."""

import struct
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Attachment,
    AttachmentIndex,
    ChunkIndex,
    DataEnd,
    Footer,
    Metadata,
    MetadataIndex,
    Statistics,
    SummaryOffset,
)

from replay.mcap_format import MAGIC

_PIECE_BYTES = 1 << 16
"""Largest part of the index in memory, and copied at once: copying megabytes would hold the interpreter's
lock for longer than a filter step may be late."""


class McapSummary:
    """Collects the index of a file while its chunks are written or recovered."""

    def __init__(self, schemas: list[bytes], channels: list[bytes], folder: Path | None = None) -> None:
        """`schemas`, `channels`: the file's records, which the summary repeats.

        `folder`: place of an unnamed file that keeps the index until the end; None: in memory. The index is
        the only data that grows with a run, by 1.6 kB/s.
        """
        self._schemas, self._channels = schemas, channels
        self._chunk_indexes = tempfile.SpooledTemporaryFile(  # noqa: SIM115  # closed by `close`
            max_size=0 if folder is None else _PIECE_BYTES, dir=None if folder is None else str(folder)
        )
        """Encoded index records."""
        self._chunk_count = 0
        self._first_time, self._last_time = 2**64 - 1, 0
        self._counts: dict[int, int] = {}
        self._beside: dict[int, list[bytes]] = {Opcode.ATTACHMENT_INDEX: [], Opcode.METADATA_INDEX: []}

    @property
    def messages(self) -> int:
        """Messages in all chunks."""
        return sum(self._counts.values())

    def add(self, index: ChunkIndex, counts: dict[int, int]) -> None:
        """Add a chunk with its number of messages by channel. OSError of the folder."""
        builder = RecordBuilder()
        index.write(builder)
        self._chunk_indexes.write(builder.end())
        self._chunk_count += 1
        self._first_time = min(self._first_time, index.message_start_time)
        self._last_time = max(self._last_time, index.message_end_time)
        for channel, count in counts.items():
            self._counts[channel] = self._counts.get(channel, 0) + count

    def add_beside(self, index: AttachmentIndex | MetadataIndex) -> None:
        """Add an attachment or a record of metadata."""
        builder = RecordBuilder()
        index.write(builder)
        attached = isinstance(index, AttachmentIndex)
        self._beside[Opcode.ATTACHMENT_INDEX if attached else Opcode.METADATA_INDEX].append(builder.end())

    def encode(self, data_end: int) -> list[bytes]:
        """Encode everything after the chunks, which end at byte `data_end` of the file, in pieces.

        OSError of the folder.
        """
        start = position = data_end + len(_DATA_END)
        pieces: list[bytes] = []
        offsets = RecordBuilder()
        self._chunk_indexes.seek(0)
        groups: dict[int, Sequence[bytes]] = {
            Opcode.SCHEMA: self._schemas,
            Opcode.CHANNEL: self._channels,
            Opcode.STATISTICS: [self._statistics()],
            Opcode.CHUNK_INDEX: [*iter(lambda: self._chunk_indexes.read(_PIECE_BYTES), b"")],
            **self._beside,
        }
        for opcode, records in groups.items():
            if not records:
                continue
            length = sum(map(len, records))
            SummaryOffset(group_opcode=opcode, group_start=position, group_length=length).write(offsets)
            pieces += records
            position += length
        pieces.append(offsets.end())
        crc = 0
        for piece in (*pieces, struct.pack("<BQQQ", Opcode.FOOTER, 20, start, position)):
            crc = zlib.crc32(piece, crc)
        return [_DATA_END, *pieces, _footer(start, position, crc), MAGIC]

    def close(self) -> None:
        """Discard the index."""
        self._chunk_indexes.close()

    def _statistics(self) -> bytes:
        builder = RecordBuilder()
        Statistics(
            attachment_count=len(self._beside[Opcode.ATTACHMENT_INDEX]),
            channel_count=len(self._channels),
            channel_message_counts={c: n for c, n in sorted(self._counts.items()) if n},
            chunk_count=self._chunk_count,
            message_count=self.messages,
            message_end_time=self._last_time,
            message_start_time=self._first_time if self._chunk_count else 0,
            metadata_count=len(self._beside[Opcode.METADATA_INDEX]),
            schema_count=len(self._schemas),
        ).write(builder)
        encoded: bytes = builder.end()
        return encoded


def index_beside(record: Attachment | Metadata, offset: int, length: int) -> AttachmentIndex | MetadataIndex:
    """The index of an attachment or a record of metadata at byte `offset` of the file, with `length` bytes."""
    if isinstance(record, Metadata):
        return MetadataIndex(offset=offset, length=length, name=record.name)
    return AttachmentIndex(
        offset=offset,
        length=length,
        log_time=record.log_time,
        create_time=record.create_time,
        data_size=len(record.data),
        name=record.name,
        media_type=record.media_type,
    )


def _footer(summary_start: int, offsets_start: int, crc: int) -> bytes:
    builder = RecordBuilder()
    Footer(summary_start=summary_start, summary_offset_start=offsets_start, summary_crc=crc).write(builder)
    encoded: bytes = builder.end()
    return encoded


def _data_end() -> bytes:
    builder = RecordBuilder()
    DataEnd(data_section_crc=0).write(builder)
    encoded: bytes = builder.end()
    return encoded


_DATA_END = _data_end()

UNINDEXED_END = _DATA_END + _footer(0, 0, 0) + MAGIC
"""A valid end without a summary: any reader takes such a file from its beginning."""
