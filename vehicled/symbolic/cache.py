"""Files on disk under a key of their inputs: object code and its description.

An entry is written under another name and then renamed, so that any number of processes may start at once.
Its key includes everything on which the entry depends. An entry that is damaged or belongs to another key
fails its checksum and is built again. Reading an entry runs no code, but its object code is run later.
Therefore an entry is not used if other users own it or can write to it or to its folder. If the cache cannot
be used or written, the code is compiled every time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from vehicled.trust import ownership

_log = logging.getLogger(__name__)

OBJECT = "o"
"""Suffix of object code."""
_MAGIC = b"vehicled-object-1\n"


def directory() -> Path:
    """Folder of the entries: the service manager's cache directory, else the user's."""
    given = os.environ.get("CACHE_DIRECTORY") or os.environ.get("VEHICLED_CACHE")
    if given:
        return Path(given.split(":")[0])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vehicled"


def make_key(*parts: str) -> str:
    """Key of a result that depends on the given texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def object_key(source: str, target: str) -> str:
    """Key of the object code of `source` for `target`."""
    return make_key(target, source)


def load(key: str, suffix: str) -> bytes | None:
    """Content that was kept under `key`, or None without a valid entry. `suffix` of the file: kind of the content."""
    path = _path(key, suffix)
    if not _is_safe(path.parent):
        return None
    try:
        with path.open("rb") as file:
            fault = ownership.find_fault(os.fstat(file.fileno()))
            data = file.read() if fault is None else b""
    except OSError:
        return None
    if fault is not None:
        _warn(path, fault)
        return None
    size = len(_head(key, b""))
    head, content = data[:size], data[size:]
    if head != _head(key, content):
        _log.warning("%s is damaged or foreign: ignored", path)
        return None
    return content


def keep(key: str, suffix: str, content: bytes) -> bool:
    """Keep an entry, replacing an earlier one. Returns whether it could be written."""
    path, temporary = _path(key, suffix), None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_safe(path.parent):
            return False
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_head(key, content) + content)
        os.replace(temporary, path)
    except OSError:
        # If the disk is full, half a file remains.
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        return False
    return True


def load_or_build(source: str, target: str, build: Callable[[], bytes]) -> bytes:
    """Object code of `source` for `target`: from a valid entry on disk, else built and kept."""
    key = object_key(source, target)
    code = load(key, OBJECT)
    if code is None:
        begun = time.monotonic()
        # A warning is shown even if logging is not set up, so that a user sees what takes time.
        _log.warning("compiling %d kB of model code for this processor, once", len(source) // 1000)
        code = build()
        took = time.monotonic() - begun
        if keep(key, OBJECT, code):
            _log.warning("compiled in %.1f s, kept in %s", took, directory())
        else:
            _log.warning("compiled in %.1f s, but cannot be kept in %s", took, directory())
    return code


def _is_safe(folder: Path) -> bool:
    """Whether no other user can have written to a folder, or it does not exist; warns if not."""
    try:
        fault = ownership.find_fault(folder.stat())
    except OSError:
        return True
    if fault is not None:
        _warn(folder, fault)
    return fault is None


@lru_cache
def _warn(path: Path, fault: str) -> None:
    """Warn, once for each file or folder."""
    _log.warning("%s: compiled code is not taken from there: %s; expected your own, mode 0700", path, fault)


def _path(key: str, suffix: str) -> Path:
    return directory() / f"{key}.{suffix}"


def _head(key: str, content: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(bytes.fromhex(key) + content).digest()
