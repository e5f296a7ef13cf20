"""Limits what the library for ROS bags decompresses, as this program does for its own recordings.

It reads chunks at the places given by the file's index, so checking the chunks beforehand would not be
enough.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from replay.mcap_format import LARGEST
from replay.mcap_messages import find_most, unpack


def bound(require: Callable[[str], Any]) -> None:
    """Replace the library's decompressors; `require`: imports one of its modules."""
    mcap = require("rosbags.rosbag2.storage_mcap")
    for name in ("zstd", "lz4"):
        mcap.DECOMPRESSORS[name] = partial(unpack, name)
    first = require("rosbags.rosbag1.reader")
    first.decompressors["bz2"] = _unpack_bz2
    first.decompressors["lz4"] = _unpack_lz4
    require("rosbags.rosbag2.reader").zstd = _Zstd


def _check(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise ValueError(f"compressed by more than can be: expected at most {most} bytes")
    return data


def _unpack_bz2(packed: bytes) -> bytes:
    """Decompress a chunk of ROS 1. Raises ValueError if it is too large."""
    most = find_most(len(packed))
    return _check(bz2.BZ2Decompressor().decompress(packed, max_length=most + 1), most)


def _unpack_lz4(packed: bytes) -> bytes:
    from lz4.frame import LZ4FrameDecompressor  # comes with the library

    most = find_most(len(packed))
    return _check(LZ4FrameDecompressor().decompress(packed, max_length=most + 1), most)


class _Zstd:
    """Replaces the module of that name: single messages, and whole files, of ROS 2."""

    @staticmethod
    def decompress(packed: bytes) -> bytes:
        most = find_most(len(packed))
        decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST)
        return _check(decompressor.stream_reader(packed).read(most + 1), most)

    @staticmethod
    def open(file: BinaryIO, mode: str) -> _BoundedFile:
        return _BoundedFile(file)


class _BoundedFile:
    """A compressed file with a limit, a multiple of its size, on the bytes read. Used as a context."""

    def __init__(self, file: BinaryIO) -> None:
        self._stream: Any = zstandard.ZstdDecompressor().stream_reader(file)
        self._most = find_most(Path(file.name).stat().st_size, largest=None)
        self._read = 0

    def __enter__(self) -> _BoundedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Raises ValueError beyond the bound."""
        data: bytes = self._stream.read(size)
        self._read += len(data)
        if self._read > self._most:
            raise ValueError(f"compressed by more than can be: expected at most {self._most} bytes")
        return data
