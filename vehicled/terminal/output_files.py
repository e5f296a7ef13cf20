"""The files that a command writes: checked before it opens any, and named where one cannot be written."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vehicled.errors import UsageError

PLOTS = (".svg", ".png", ".pdf")
"""Endings of pictures."""

_BUFFER = 1 << 18


class OutputFile(NamedTuple):
    """A file that will be written."""

    option: str
    """That it was given by, such as `--estimates`; empty for an argument without one."""
    path: str | Path | None
    """None where it was left out."""
    endings: Sequence[str] = ()
    """Of names, in lower case, one of which is expected; empty: any name."""


def check_outputs(outputs: Iterable[OutputFile], inputs: Mapping[str, Iterable[str | Path | None]]) -> None:
    """Raise UsageError for an output whose name or folder is wrong, or that would overwrite another file in use.

    `inputs`: what the command reads, by what messages call it, such as `log`; None where it was left out.
    """
    used = [(Path(p), f"the {what}") for what, paths in inputs.items() for p in paths if p is not None]
    for option, given, endings in outputs:
        if given is None:
            continue
        path, name = Path(given), f"{option} {given}".lstrip()
        _check_place(path, name, endings)
        for other, what in used:
            if is_same_file(path, other):
                raise UsageError(f"{name}: expected another file than {what}")
            if path.exists() and other.is_dir() and _resolve(other) in _resolve(path).parents:
                raise UsageError(
                    f"{name}: expected a file outside of the folder that is {what}, or a new one"
                )
        used.append((path, option))


def check_folder(option: str, folder: Path | None) -> None:
    """Raise UsageError where a folder that files go to, and that is made if missing, cannot be one."""
    if folder is not None and (fault := find_folder_fault(folder)) is not None:
        raise UsageError(f"{option} {folder}: {fault}")


def find_folder_fault(folder: Path) -> str | None:
    """Why a folder, which is made if missing, cannot be one, in words; None where nothing is in its way."""
    there = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    return None if there.is_dir() else f"expected a folder, but {there} is a file"


def _check_place(path: Path, name: str, endings: Sequence[str]) -> None:
    if path.is_dir():
        raise UsageError(f"{name}: expected a file, got a folder")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{name}: no such folder")
    # A pipe or a device has any name, unless the name is what chooses the kind of file.
    is_stream = path.exists() and not path.is_file() and len(endings) == 1
    if endings and path.suffix.lower() not in endings and not is_stream:
        *others, last = endings
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"{name}: expected a name that ends in {wanted}")


def is_same_file(path: Path, other: Path) -> bool:
    """Whether two paths, also of files that are not there yet, are those of one file."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return _resolve(path) == _resolve(other)


def _resolve(path: Path) -> Path:
    """Without links; as `Path.resolve`, which raises RuntimeError for links in a circle."""
    return Path(os.path.realpath(path))


class OutputStream(io.FileIO):
    """Bytes into a file, unbuffered: an OSError of writing has its name, as of a full disk, too."""

    def write(self, data: Any, /) -> int:  # whatever io.RawIOBase takes
        """As of any file: how many bytes were written. Raises OSError."""
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.name)) from None


def open_output(path: str | Path, mode: str = "wb") -> io.BufferedWriter:
    """A file for writing bytes, whose every OSError has its name."""
    return io.BufferedWriter(OutputStream(path, mode), _BUFFER)


def open_text_output(path: str | Path) -> io.TextIOWrapper:
    """A file for writing text in UTF-8, with lines that end in a line feed, whose every OSError has its name."""
    return io.TextIOWrapper(open_output(path), encoding="utf-8", newline="\n")


def write_output(path: Path, content: bytes) -> None:
    """A whole file. Raises OSError, as `writing`."""
    with writing(path), open_output(path) as file:
        file.write(content)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Within it a file is written; one that is left incomplete is renamed, which the error says.

    It is by an OSError, Ctrl-C or SIGTERM. Its new name ends in `.part`: half of a table or of a log looks like a
    whole one.
    """
    path = Path(path)
    before = _describe(path)
    try:
        yield
    except (OSError, KeyboardInterrupt) as error:
        if _describe(path) == before or not path.is_file():
            raise
        part = path.with_name(path.name + ".part")
        path.rename(part)
        left = f"the incomplete file is {part}"
        if isinstance(error, KeyboardInterrupt):
            raise type(error)(*error.args, left) from error
        raise OSError(error.errno, f"{error.strerror or error}; {left}", error.filename) from error


def _describe(path: Path) -> tuple[int, ...] | None:
    """What changes once it is opened for writing; None where it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
