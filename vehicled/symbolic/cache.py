"""Object code on disk, by the hash of the code it was compiled from.

An entry is written by rename, so that any number of processes may start at once. Any change to a model changes
its code and so its key; an entry that is damaged or belongs to another key fails its checksum and is made anew.
A cache that cannot be written only costs time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)

_MAGIC = b"vehicled-object-1\n"


def directory() -> Path:
    """Where entries are kept: the service manager's cache directory, else the user's."""
    given = os.environ.get("CACHE_DIRECTORY") or os.environ.get("VEHICLED_CACHE")
    if given:
        return Path(given.split(":")[0])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vehicled"


def load_or_build(source: str, target: str, build: Callable[[], bytes]) -> bytes:
    """Object code of `source` for `target`: from disk when a sound entry is there, else built and kept."""
    key = hashlib.sha256(f"{target}\0{source}".encode())
    path = directory() / f"{key.hexdigest()}.o"
    code = _read(path, key.digest())
    if code is None:
        begun = time.monotonic()
        # A warning is shown without any set-up of logging, so that a user sees what takes time.
        _log.warning("compiling %d kB of model code for this processor, once", len(source) // 1000)
        code = build()
        took = time.monotonic() - begun
        if _write(path, key.digest(), code):
            _log.warning("compiled in %.1f s, kept in %s", took, path.parent)
        else:
            _log.warning("compiled in %.1f s, but cannot be kept in %s", took, path.parent)
    return code


def _head(key: bytes, code: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(key + code).digest()


def _read(path: Path, key: bytes) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    size = len(_head(key, b""))
    head, code = data[:size], data[size:]
    return code if head == _head(key, code) else None


def _write(path: Path, key: bytes, code: bytes) -> bool:
    """Whether it could be."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_head(key, code) + code)
        os.replace(temporary, path)
    except OSError:
        # A full disk leaves half a file.
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        return False
    return True
