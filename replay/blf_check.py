"""Checks whether a BLF log can be read in bounded memory and time, as its reader in python-can assumes.

A BLF file (Vector, as python-can reads it) is a header and containers of zlib data, which together are a
stream of objects. Each object begins with `LOBJ`, the size of its own head, a version, its whole size and its
type.
"""

import contextlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_FILE_HEAD = struct.Struct("<4sL")
_OBJECT_HEAD = struct.Struct("<4sHHLL")
_CONTAINER_HEAD = struct.Struct("<H6xL4x")
_SIGNATURE = b"LOBJ"
_CONTAINER = 10
_ZLIB = 2
_LEAST = 32
"""Least size of an object with a time, bytes."""
_LARGEST = 16 << 20
"""Largest size of a container's contents, and of an object, bytes: writers use 128 kB."""


def check_blf(path: Path) -> int | None:
    """First byte of a container within which the file ends, which readers do not notice; else None.

    Raises ValueError for a container or object that is too large, or an object that is too small, to be valid.

    OSError if the file cannot be read. Other damage is left to the reader.
    """
    tail, cut = b"", None
    # Like the reader, end at a container that cannot be decompressed, after all frames before it.
    with open(path, "rb") as file, contextlib.suppress(zlib.error):
        for begin, data, is_whole in _containers(file):
            cut = None if is_whole else begin
            tail = _check_objects(tail + data, begin)
    return cut


def _containers(file: BinaryIO) -> Iterator[tuple[int, bytes, bool]]:
    """First byte in the file, contents, and whether the file has all of it, of each container."""
    head = file.read(_FILE_HEAD.size)
    if len(head) < _FILE_HEAD.size:
        return
    begin: int = _FILE_HEAD.unpack(head)[1]
    while True:
        file.seek(begin)
        head = file.read(_OBJECT_HEAD.size)
        if len(head) < _OBJECT_HEAD.size or not head.startswith(_SIGNATURE):
            return
        _, _, _, size, kind = _OBJECT_HEAD.unpack(head)
        if not _OBJECT_HEAD.size <= size <= _LARGEST:
            raise ValueError(f"byte {begin}: an object of {size} bytes")
        if kind == _CONTAINER:
            body = file.read(size - _OBJECT_HEAD.size)
            if len(body) >= _CONTAINER_HEAD.size:
                yield begin, _contents(body, begin), len(body) == size - _OBJECT_HEAD.size
        begin += size + size % 4


def _contents(body: bytes, begin: int) -> bytes:
    method, _ = _CONTAINER_HEAD.unpack_from(body)
    data = body[_CONTAINER_HEAD.size :]
    if method == _ZLIB:
        data = zlib.decompressobj().decompress(data, _LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"byte {begin}: a container of more than {_LARGEST} bytes")
    return data


def _check_objects(data: bytes, begin: int) -> bytes:
    """Check whole objects; returns the incomplete one at the end, which continues in the next container."""
    at = 0
    while (found := data.find(_SIGNATURE, at, at + 8)) >= 0 and found + _OBJECT_HEAD.size <= len(data):
        size = _OBJECT_HEAD.unpack_from(data, found)[3]
        if not _LEAST <= size <= _LARGEST:
            raise ValueError(f"container at byte {begin}: an object of {size} bytes")
        if found + size > len(data):
            break
        at = found + size
    return data[at:]
