"""Compiled models on disk, by content hash.

An entry is ignored when it is stale (other key) or damaged (checksum), and written by rename, so that any
number of processes may start at once. A cache that cannot be written only costs time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

_MAGIC = b"vehicled-object-1\n"


class Entry(msgspec.Struct):
    """What is kept of a compiled model."""

    object_code: bytes
    description: dict
    """Layout of the workspace and whatever else the model needs beside its code (plain data)."""


def directory() -> Path:
    """Where entries are kept: the service manager's cache directory, else the user's."""
    given = os.environ.get("CACHE_DIRECTORY") or os.environ.get("VEHICLED_CACHE")
    if given:
        return Path(given.split(":")[0])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vehicled"


def content_key(folders: Iterable[Path], *options: str) -> str:
    """Hash of all Python sources in the folders, and of options that the compiled model depends on."""
    h = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            h.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for option in options:
        h.update(option.encode() + b"\0")
    return h.hexdigest()


def load_or_build(key: str, build: Callable[[], Entry]) -> Entry:
    """The entry of that key: from disk when a sound one is there, else built and kept."""
    path = directory() / f"{key}.bin"
    entry = _read(path)
    if entry is None:
        entry = build()
        _write(path, entry)
    return entry


def _read(path: Path) -> Entry | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head, payload = data[: len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if head != _MAGIC + hashlib.sha256(payload).digest():
        return None
    try:
        return msgspec.msgpack.decode(payload, type=Entry)
    except msgspec.DecodeError:
        return None


def _write(path: Path, entry: Entry) -> None:
    payload = msgspec.msgpack.encode(entry)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        os.replace(temporary, path)
    except OSError:
        return
