"""Object code on disk, by the hash of the code it was compiled from.

An entry is ignored when it is damaged (checksum), and written by rename, so that any number of processes may
start at once. Any change to a model changes its code and so its key: nothing can be stale. A cache that
cannot be written only costs time.
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
    key = hashlib.sha256(f"{target}\0{source}".encode()).hexdigest()
    path = directory() / f"{key}.o"
    code = _read(path)
    if code is None:
        begun = time.monotonic()
        # At this level it is shown without any set-up: whoever waits shall know for what.
        _log.warning("compiling %d kB of model code for this processor, once", len(source) // 1000)
        code = build()
        _log.warning("compiled in %.1f s, kept in %s", time.monotonic() - begun, path.parent)
        _write(path, code)
    return code


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head, payload = data[: len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    return payload if head == _MAGIC + hashlib.sha256(payload).digest() else None


def _write(path: Path, code: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(code).digest() + code)
        os.replace(temporary, path)
    except OSError:
        return
