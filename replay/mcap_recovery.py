"""Repairs recordings cut off by power loss or a full disk, so that any reader opens them with an index."""

import fcntl
import io
import os
import struct
import zlib
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Attachment, AttachmentIndex, ChunkIndex, Metadata, MetadataIndex

from replay.mcap_format import LARGEST, MAGIC, MESSAGE, RECORD
from replay.mcap_messages import is_our_head
from replay.mcap_summary import UNINDEXED_END, McapSummary, index_beside
from vehicled.errors import UsageError

_CHUNK_HEAD = struct.Struct("<QQQI")
"""First and last time, size and CRC of the uncompressed records."""
_INDEX_HEAD = struct.Struct("<HI")
"""Channel, and bytes of entries of 16 bytes each."""
_END = struct.Struct("<BQQQI8s")
"""Footer and magic bytes: opcode, length, begin of the summary and of its offsets, CRC of the summary, magic."""
_LARGEST_HEAD = 16 << 20
"""Largest record before the chunks, bytes: a schema, a channel, or the configuration."""
_BESIDE: dict[int, type[Attachment] | type[Metadata]] = {
    Opcode.ATTACHMENT: Attachment,
    Opcode.METADATA: Metadata,
}


class Recovered(NamedTuple):
    """What a repaired file contains."""

    messages: int
    removed: int
    """Number of removed bytes of an incomplete chunk and an incomplete end."""
    unreadable: int = 0
    """Number of damaged chunks before the end, which are not in the index."""


class _Chunk(NamedTuple):
    record: ChunkIndex
    counts: dict[int, int]
    """Number of messages by channel, by the message indexes after the chunk."""
    crc: int
    data: tuple[int, int]
    """First byte and length of the compressed records."""
    end: int
    """First byte behind its last message index."""


def recover(path: Path, check_all: bool = False) -> Recovered | None:
    """End a file after its last intact chunk, with an index, in place; None if it already has one.

    Only the last chunks are decompressed, as earlier ones had been written long before; with `check_all`
    every chunk is, and damaged ones are left out of the index. A repair that is itself interrupted can be
    repeated. UsageError if the file is no recording, or has no complete head; BlockingIOError while it is
    being written; OSError if it cannot be read or written.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: expected a recording (an MCAP file), but it is no regular file")
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            raise UsageError(f"{path}: expected a recording (an MCAP file), but it does not start as one")
        if _has_index(file, size):
            return None
        file.seek(len(MAGIC))
        summary = _read_head(file, size, path)
        end = file.tell()
        chunks: deque[_Chunk] = deque()
        while (chunk := _read_chunk(file, size)) is not None:
            chunks.append(chunk)
        while chunks and not _is_intact(file, chunks[-1]):
            chunks.pop()
        end = chunks[-1].end if chunks else end
        unreadable = 0
        while chunks:  # One by one: freeing all at once would hold the interpreter's lock for long.
            chunk = chunks.popleft()
            if check_all and chunks and _decompress(file, chunk) is None:
                unreadable += 1
                continue
            summary.add(chunk.record, chunk.counts)
        # The old end is cut off last: until then a second attempt finds what this one has found.
        file.seek(end)
        file.writelines(summary.encode(end))
        file.flush()
        file.truncate()
        os.fsync(file.fileno())
        unindexed = size == end + len(UNINDEXED_END)
        return Recovered(summary.messages, 0 if unindexed else size - end, unreadable)


def _has_index(file: io.BufferedRandom, size: int) -> bool:
    """Whether the file ends with an intact summary."""
    start = size - _END.size
    if start < 0:
        return False
    file.seek(start)
    end = file.read(_END.size)
    opcode, length, summary_start, _, crc, magic = _END.unpack(end)
    if (opcode, length, magic) != (Opcode.FOOTER, 20, MAGIC) or not 0 < summary_start <= start:
        return False
    file.seek(summary_start)
    summary = file.read(start - summary_start)
    return bool(zlib.crc32(end[: RECORD.size + 16], zlib.crc32(summary)) == crc)


def _read_head(file: io.BufferedRandom, size: int, path: Path) -> McapSummary:
    """Read the records before the chunks; leaves the file position after the last complete one.

    UsageError if it is no recording.
    """
    head = _read_record(file, size)
    if head is None or head[0] != Opcode.HEADER or not is_our_head(head[1]):
        raise UsageError(f"{path}: expected a recording of this program with a complete head")
    found: dict[int, list[bytes]] = {Opcode.SCHEMA: [], Opcode.CHANNEL: []}
    beside: list[AttachmentIndex | MetadataIndex] = []
    end = file.tell()
    while (record := _read_record(file, size)) is not None:
        opcode, body = record
        if opcode in found:
            found[opcode].append(RECORD.pack(opcode, len(body)) + body)
        elif opcode in _BESIDE:
            index = _index_beside(opcode, body, end)
            if index is not None:
                beside.append(index)
        else:
            break
        end = file.tell()
    file.seek(end)
    summary = McapSummary(found[Opcode.SCHEMA], found[Opcode.CHANNEL])
    for index in beside:
        summary.add_beside(index)
    return summary


def _index_beside(opcode: int, body: bytes, start: int) -> AttachmentIndex | MetadataIndex | None:
    """The index of an attachment or a record of metadata at byte `start`; None if it is damaged."""
    try:
        contents = _BESIDE[opcode].read(ReadDataStream(io.BytesIO(body)))
        return index_beside(contents, start, RECORD.size + len(body))
    except Exception:  # The library has exceptions of several kinds for damage.
        return None


def _read_record(file: io.BufferedRandom, size: int) -> tuple[int, bytes] | None:
    """Opcode and contents of a small record; None if it is not complete."""
    head = file.read(RECORD.size)
    if len(head) < RECORD.size:
        return None
    opcode, length = RECORD.unpack(head)
    if length > min(_LARGEST_HEAD, size - file.tell()):
        return None
    return opcode, file.read(length)


def _read_chunk(file: io.BufferedRandom, size: int) -> _Chunk | None:
    """The chunk that begins here, with its message indexes; None if it is not complete."""
    start = file.tell()
    head = file.read(RECORD.size + _CHUNK_HEAD.size + 4 + 4 + 8)
    if len(head) < RECORD.size + _CHUNK_HEAD.size + 4 + 4 + 8:
        return None
    opcode, length = RECORD.unpack_from(head)
    first, last, uncompressed, crc = _CHUNK_HEAD.unpack_from(head, RECORD.size)
    name_length, name, compressed = struct.unpack_from("<I4sQ", head, RECORD.size + _CHUNK_HEAD.size)
    data = file.tell()
    complete = data + compressed <= size and length == len(head) - RECORD.size + compressed
    if opcode != Opcode.CHUNK or (name_length, name) != (4, b"zstd") or not complete:
        return None
    indexes_start = end = file.seek(compressed, os.SEEK_CUR)
    offsets: dict[int, int] = {}
    counts: dict[int, int] = {}
    while True:
        head = file.read(RECORD.size + _INDEX_HEAD.size)
        if len(head) < RECORD.size + _INDEX_HEAD.size:
            break
        opcode, length = RECORD.unpack_from(head)
        channel, entries = _INDEX_HEAD.unpack_from(head, RECORD.size)
        if opcode != Opcode.MESSAGE_INDEX or length != _INDEX_HEAD.size + entries:
            break
        if file.tell() + entries > size:
            break
        offsets[channel], counts[channel] = end, entries // 16
        end = file.seek(entries, os.SEEK_CUR)
    file.seek(end)
    index = ChunkIndex(
        chunk_length=indexes_start - start,
        chunk_start_offset=start,
        compression="zstd",
        compressed_size=compressed,
        message_end_time=last,
        message_index_length=end - indexes_start,
        message_index_offsets=offsets,
        message_start_time=first,
        uncompressed_size=uncompressed,
    )
    return _Chunk(index, counts, crc, (data, compressed), end)


def _is_intact(file: io.BufferedRandom, chunk: _Chunk) -> bool:
    """Whether a chunk decompresses correctly, and has all of its message indexes."""
    records = _decompress(file, chunk)
    return records is not None and dict(_count(records)) == chunk.counts


def _decompress(file: io.BufferedRandom, chunk: _Chunk) -> bytes | None:
    """The records in a chunk; None if they are not those that were compressed."""
    file.seek(chunk.data[0])
    data = file.read(chunk.data[1])
    size = chunk.record.uncompressed_size
    try:
        if zstandard.frame_content_size(data) != size or size > LARGEST:
            return None
        records = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError:
        return None
    return records if zlib.crc32(records) == chunk.crc else None


def _count(records: bytes) -> Counter[int]:
    """Messages by channel in a run of records."""
    counts: Counter[int] = Counter()
    position = 0
    while position + MESSAGE.size <= len(records):
        opcode, length, channel, *_ = MESSAGE.unpack_from(records, position)
        if opcode == Opcode.MESSAGE:
            counts[channel] += 1
        position += RECORD.size + length
    return counts
