"""Reads the messages of an MCAP file, whole or cut off: damage is counted, complete messages are read."""

import io
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Header

from replay.mcap_format import LARGEST, LIBRARY, MAGIC, MESSAGE, MESSAGE_FIELDS, RECORD
from replay.problems import Problems
from vehicled.errors import UsageError

_LARGEST_RATIO = 256
"""Largest ratio of a chunk's contents to its size: measurements and estimates have 5 to 20."""
_AT_ONCE = 1024
"""Number of messages of a topic in a batch: decoding each on its own takes several times longer."""
_MESSAGE = int(Opcode.MESSAGE)
_LARGEST_HEAD = 1 << 16
_SMALL = 1 << 14
"""Size of a chunk's contents up to which any ratio is allowed, bytes."""


def is_mcap(path: str | Path) -> bool:
    """Whether a file is MCAP, by content or, if damaged at its very start, by name. UsageError if unreadable."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC or Path(path).suffix.lower() == ".mcap"
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}; expected a recording (.mcap) or a table (.csv)"
        ) from None


def is_ours(path: Path) -> bool:
    """Whether this program has written an MCAP file, as its head says. OSError if unreadable."""
    with open(path, "rb") as file:
        file.seek(len(MAGIC))
        head = file.read(RECORD.size)
        opcode, length = RECORD.unpack(head) if len(head) == RECORD.size else (0, 0)
        return opcode == Opcode.HEADER and length <= _LARGEST_HEAD and is_our_head(file.read(length))


def is_our_head(header: bytes) -> bool:
    """Whether this program has written the contents of an MCAP file's header."""
    try:
        library = Header.read(ReadDataStream(io.BytesIO(header))).library
    except Exception:  # The library has exceptions of several kinds for damage.
        return False
    return bool(library.split(" ")[0] == LIBRARY)


class ByteRange(NamedTuple):
    """The records of a file that begin in a range of its bytes."""

    begin: int
    end: int
    size: int
    """Size of the file, bytes, when it was divided: it may still grow."""


def divide(path: Path, count: int) -> list[ByteRange]:
    """A file in equal parts. OSError."""
    size = path.stat().st_size
    return [ByteRange(size * k // count, size * (k + 1) // count, size) for k in range(count)]


class Message(msgspec.Struct, gc=False):
    """One message of an MCAP file."""

    topic: str
    """Topic without the leading slash."""
    log_time: int
    sequence: int
    data: bytes


def read_messages(
    path: Path, topics: Collection[str], problems: Problems, name: str = ""
) -> Iterator[Message]:
    """The messages of these topics in the order in which they were written.

    The file starts with `MAGIC`. Damage is added to `problems`, each place with `name` in front. OSError if the file
    cannot be read.
    """
    found: list[Message] = []
    for _ in _read_chunks(path, dict.fromkeys(topics, found), problems, name):
        yield from found
        found.clear()


def read_batches(
    path: Path, topics: Collection[str], problems: Problems, name: str = "", part: ByteRange | None = None
) -> Iterator[tuple[str, list[Message]]]:
    """Yield a topic and about a thousand of its messages; like `read_messages`, but in order only within a topic.

    part: of a file that declares its topics before all else, as those of this program do.
    """
    found: dict[str, list[Message]] = {topic: [] for topic in topics}
    for _ in _read_chunks(path, found, problems, name, part):
        for topic, several in found.items():
            if len(several) >= _AT_ONCE:
                yield topic, several[:]
                several.clear()
    yield from ((topic, several) for topic, several in found.items() if several)


def _read_chunks(
    path: Path,
    found: Mapping[str, list[Message]],
    problems: Problems,
    name: str,
    part: ByteRange | None = None,
) -> Iterator[None]:
    """Append messages to the lists of their topics; yields after each chunk."""
    channels: dict[int, tuple[str, list[Message]] | None] = {}
    first, end, size = part or divide(path, 1)[0]
    with open(path, "rb") as file:
        file.seek(len(MAGIC))
        while True:
            begin = file.tell()
            if begin >= end and end < size:
                return
            where = f"{name}byte {begin}"
            head = file.read(RECORD.size)
            opcode, length = RECORD.unpack(head) if len(head) == RECORD.size else (0, 0)
            if opcode == Opcode.DATA_END:
                return
            if opcode == 0 or length > size - begin - RECORD.size:
                # Power failed, or the file is still being written: the earlier part is valid.
                if begin >= first:
                    problems.add("truncated", where, f"{size - begin} bytes without a complete record")
                return
            if begin < first and opcode != Opcode.CHANNEL:
                file.seek(length, os.SEEK_CUR)
                continue
            if length > LARGEST and opcode in (Opcode.CHUNK, Opcode.CHANNEL, Opcode.MESSAGE):
                problems.add(
                    "too large", where, f"a record of {length} bytes, expected at most {LARGEST}; skipped"
                )
                file.seek(length, os.SEEK_CUR)
                continue
            if opcode == Opcode.CHUNK:
                body = _decompress(file.read(length), where, problems)
            elif opcode in (Opcode.CHANNEL, Opcode.MESSAGE):
                body = head + file.read(length)
            else:
                file.seek(length, os.SEEK_CUR)
                continue
            _read_records(body, where, channels, found, problems)
            yield


def _decompress(record: bytes, where: str, problems: Problems) -> bytes:
    """The records in a chunk; none, and a problem, if it is damaged."""
    try:
        chunk = Chunk.read(ReadDataStream(io.BytesIO(record)))
        return _contents(chunk)
    except Exception as error:  # Every library below has exceptions of its own for the same damage.
        problems.add("damaged chunk", where, f"{error or type(error).__name__}; skipped")
        return b""


def _contents(chunk: Chunk) -> bytes:
    """Contents of a chunk. Raises ValueError if they differ from what its head declares, or are too large.

    No more is decompressed than the head of the chunk declares, whatever the head of the compressed frame
    says.
    """
    data = unpack(chunk.compression, chunk.data, chunk.uncompressed_size)
    if chunk.uncompressed_crc not in (0, zlib.crc32(data)):
        raise ValueError("wrong checksum")
    return data


def find_most(packed: int, largest: int | None = LARGEST) -> int:
    """Largest size of the contents of so many packed bytes; `largest`: limit for a chunk, None for a whole file."""
    most = max(_SMALL, _LARGEST_RATIO * packed)
    return most if largest is None else min(largest, most)


def unpack(compression: str, packed: bytes, size: int) -> bytes:
    """Decompress to `size` bytes. Raises ValueError if the result has another size, or too large a size."""
    most = find_most(len(packed))
    if size > most:
        raise ValueError(f"{size} bytes from {len(packed)}, expected at most {most}")
    match compression:
        case "zstd":
            decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST)
            data = decompressor.stream_reader(packed).read(size + 1)
        case "lz4":
            from lz4.frame import LZ4FrameDecompressor  # not what this program writes

            data = LZ4FrameDecompressor().decompress(packed, max_length=size + 1)
        case "":
            data = packed
        case other:
            raise ValueError(f"compression {other[:20]!r}, expected zstd or lz4")
    if len(data) != size:
        raise ValueError(f"{'more' if len(data) > size else 'less'} than the {size} bytes that it declares")
    return data


def _read_records(
    body: bytes,
    where: str,
    channels: dict[int, tuple[str, list[Message]] | None],
    found: Mapping[str, list[Message]],
    problems: Problems,
) -> None:
    """Add the messages in a run of complete records to the lists of their topics.

    Declared channels are added to `channels`: topic and list, or None for other topics.
    """
    # Nearly all of the time to read a recording would be spent here: there are a million messages in a
    # quarter of an hour. Every record is first unpacked as a message; `padded` allows this for a shorter last
    # one.
    padded, unpack, begin, head = body + bytes(MESSAGE.size), MESSAGE.unpack_from, MESSAGE.size, RECORD.size
    position, last = 0, len(body) - head
    while position <= last:
        opcode, length, channel, sequence, log_time, _ = unpack(padded, position)
        following = position + head + length
        if opcode == _MESSAGE and length >= MESSAGE_FIELDS:
            wanted = channels.get(channel)
            if wanted is not None:
                topic, several = wanted
                several.append(Message(topic, log_time, sequence, body[position + begin : following]))
        elif opcode == Opcode.CHANNEL:
            try:
                declared = Channel.read(ReadDataStream(io.BytesIO(body[position + head : following])))
                topic = declared.topic.lstrip("/")
                channels[declared.id] = (topic, found[topic]) if topic in found else None
            except Exception as error:  # As for chunks.
                what = str(error) or type(error).__name__
                problems.add("damaged channel", where, f"{what}; skipped")
        position = following
