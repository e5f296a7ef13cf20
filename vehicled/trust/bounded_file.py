"""Reads a small file that a setting names, whatever it turns out to be."""

import os
import stat
from pathlib import Path

from vehicled.errors import UsageError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def read_bounded(path: str | Path, most: int, expected: str = "a smaller file") -> bytes:
    """The bytes of a regular file. Raises OSError, and UsageError, without the path, for any other and a larger one.

    Never waits: a pipe without a writer would otherwise not even let itself be opened.
    """
    check_regular(os.stat(path))
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        check_regular(os.fstat(file.fileno()))
        data = file.read(most + 1)
    if len(data) > most:
        raise UsageError(f"larger than {most >> 20} MiB; expected {expected}")
    return data


def check_regular(status: os.stat_result) -> None:
    """Raise UsageError, without a path, for the status of anything but a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise UsageError(f"expected a regular file, got {_KINDS.get(kind, 'something else')}")
