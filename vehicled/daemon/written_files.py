"""Checks of the files that a daemon writes: none may be one that it reads, or a folder."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drivers.registry import load_driver
from vehicled.daemon.daemon import DeviceOptions
from vehicled.daemon.endpoints import PublishOptions
from vehicled.errors import SettingsError, UsageError
from vehicled.reading.settings import Deferred
from vehicled.terminal.output_files import find_folder_fault, is_same_file
from vehicled.trust.bounded_file import check_regular


def check_learned(document: Deferred, path: Path) -> None:
    """Raise SettingsError if `daemon.learned` would overwrite another file in use, or cannot be a file.

    `document`: the configuration, which is in the file `path`. Nothing is opened.
    """
    daemon = document.parts("daemon")
    if "learned" not in daemon:
        return
    part = daemon["learned"]
    learned = part.to(Path)
    if learned.exists():
        try:
            check_regular(os.stat(learned))
        except UsageError as error:
            part.fail(f"{error}: {learned}")
    if (fault := find_folder_fault(learned.parent)) is not None:
        part.fail(fault)
    directory = _read(document.parts("daemon", "record").get("directory"), Path)
    if directory is not None and any(is_same_file(learned, p) for p in (directory, *directory.parents)):
        part.fail("expected a file, got a folder that recordings go to")
    if is_same_file(learned, path):
        part.fail("expected another file than the configuration")
    for used in _find_inputs(document):
        if is_same_file(learned, used):
            part.fail(f"expected another file than {used}, which the configuration uses")


def check_record(document: Deferred) -> None:
    """Raise SettingsError if `daemon.record.directory` cannot be a folder."""
    part = document.parts("daemon", "record").get("directory")
    directory = _read(part, Path)
    if part is not None and directory is not None and (fault := find_folder_fault(directory)) is not None:
        part.fail(fault)


def _find_inputs(document: Deferred) -> Iterator[Path]:
    """Files that devices and sockets read. Parts with mistakes are skipped, as these are reported elsewhere."""
    yield from _find_paths(_read(document.parts("daemon").get("publish"), PublishOptions))
    for part in document.parts("daemon", "devices").values():
        device = _read(part, DeviceOptions)
        if device is not None:
            yield from _find_paths(device.corrections)
            with contextlib.suppress(UsageError):
                yield from _find_paths(_read(device.options, load_driver(device.driver).Options))


def _find_paths(options: Any) -> Iterator[Path]:
    """All paths in a dataclass and those within it."""
    if isinstance(options, Path):
        yield options
    elif dataclasses.is_dataclass(options):
        for field in dataclasses.fields(options):
            yield from _find_paths(getattr(options, field.name))


def _read(part: Deferred | None, kind: type[Any]) -> Any:
    """A part of the configuration; None where there is none, or one with a mistake."""
    if part is None:
        return None
    try:
        return part.to(kind)
    except SettingsError:
        return None
