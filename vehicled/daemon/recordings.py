"""Folder of recordings: names and opens files, repairs old ones, and removes them when space runs out."""

import fcntl
import logging
import os
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from replay.mcap_recovery import recover
from replay.mcap_writer import McapWriter
from vehicled.daemon.recording_file import ALL_RESULTS, Contents, RecordingFile, RecordRates
from vehicled.errors import UsageError
from vehicled.units import Range, Seconds

_log = logging.getLogger(__name__)

_NAME = re.compile(r"(\d{8}T\d{6}Z)(?:-(\d+))?\.mcap")
"""Names of files made by this program; others in the folder are never changed."""
_STEM = "%Y%m%dT%H%M%SZ"
_TEND_EVERY_S = 10.0


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Place and size of the recordings."""

    directory: Path
    """Folder of the MCAP files, which are named after the time of day; made if it is missing."""
    file_duration: Annotated[Seconds, Range(10.0, 1e6)] = 3600.0
    """A new file begins after this time, s."""
    file_size_mb: Annotated[int, Range(1, 1_000_000)] = 2000
    """A new file begins after this size, MB; on a small disk, after a tenth of it."""
    keep_free: Annotated[float, Range(0.0, 0.95)] = 0.05
    """Share of free space below which the oldest recordings are removed, those of this run last; 0: none is
    removed."""
    rates: RecordRates = field(default_factory=RecordRates)
    """How often results are recorded."""


def open_recording(
    folder: Path, configuration: str, t: int, utc_offset_ns: int, contents: Contents = ALL_RESULTS
) -> tuple[RecordingFile, Path]:
    """Create a new file, never overwriting one, and sync it to disk; arguments as for `RecordingFile`.

    OSError leaves no file behind.
    """
    stem = time.strftime(_STEM, time.gmtime((t + utc_offset_ns) // 1_000_000_000))
    number = 0
    while True:
        path = folder / f"{stem}-{number}.mcap" if number else folder / f"{stem}.mcap"
        try:
            writer = McapWriter(path, exclusive=True)
            break
        except FileExistsError:
            number += 1
    try:
        recording = RecordingFile(writer, configuration, t, utc_offset_ns, contents)
        writer.sync()
        _sync_folder(folder)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return recording, path


def size_limit(options: RecordOptions) -> float:
    """Bytes after which a new file begins: less on a small disk, of which each file is then a tenth. OSError."""
    disk = os.statvfs(options.directory)
    return min(options.file_size_mb * 1e6, 0.1 * disk.f_blocks * disk.f_frsize)


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def list_recordings(folder: Path) -> list[Path]:
    """Recordings made by this program, oldest first. OSError if the folder cannot be read.

    The clock may be behind when a file begins and right when it ends, or behind when a file is repaired: so
    the later of both times counts.
    """
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if match := _NAME.fullmatch(entry.name):
                try:
                    changed = time.strftime(_STEM, time.gmtime(entry.stat(follow_symlinks=False).st_mtime))
                except (OSError, OverflowError):  # removed just now, or damaged
                    changed = ""
                found.append((max(match[1], changed), match[1], int(match[2] or 0), entry.name))
    return [folder / name for *_, name in sorted(found)]


class Housekeeper:
    """Maintains the folder every ten seconds, in its own thread: repairs files that were cut off, and makes room.

    A file that any process is writing is locked, and left alone.
    """

    def __init__(self, options: RecordOptions) -> None:
        """Nothing is done before `start`."""
        self._options = options
        self._done: set[Path] = set()
        """Recordings that need no repair."""
        self._own: list[Path] = []
        """Recordings of this run, oldest first."""
        self._warned: set[str] = set()
        self._recovered = self._removed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout: float) -> None:
        """End after the present operation, waiting no longer than `timeout` (s)."""
        self._stop.set()
        self._thread.join(timeout)

    def note(self, path: Path) -> None:
        """Note a new file of this run: it counts as newer than all others, whatever the clock says."""
        self._own.append(path)

    def counters(self) -> dict[str, Any]:
        """Recordings that were `recovered` and `removed`."""
        return {"recovered": self._recovered, "removed": self._removed}

    def tend(self) -> None:
        """Make room, then repair."""
        try:
            recordings = list_recordings(self._options.directory)
        except OSError:
            return  # The recorder cannot write there either, and reports it.
        for work in (self._make_room, self._repair):
            try:
                work(recordings)
            except OSError as error:
                self._warn_once(f"{error.filename or self._options.directory}: {error.strerror}")

    def _run(self) -> None:
        while True:
            self.tend()
            if self._stop.wait(_TEND_EVERY_S):
                return

    def _make_room(self, recordings: list[Path]) -> None:
        disk = os.statvfs(self._options.directory)
        missing = self._options.keep_free * disk.f_blocks * disk.f_frsize - disk.f_bavail * disk.f_frsize
        # Some file systems update free space late: so removed bytes are counted instead.
        present, own = set(recordings), set(self._own)
        for path in [*(p for p in recordings if p not in own), *(p for p in self._own if p in present)]:
            if missing <= 0:
                return
            try:
                size = _remove(path)
            except OSError as error:  # such as a read-only file: the next one makes room, too
                self._warn_once(f"{path}: not removed: {error.strerror}")
                continue
            if path in own:
                self._own.remove(path)
            if size is not None:
                missing -= size
                self._removed += 1
                _log.info("%s: removed, less than %g %% is free", path, 100 * self._options.keep_free)

    def _repair(self, recordings: list[Path]) -> None:
        self._done.intersection_update(recordings)
        for path in recordings:
            if self._stop.is_set():
                return
            if path in self._done:
                continue
            try:
                if path.stat().st_size == 0:
                    continue  # Just created, or left by a power failure: it is empty.
                recovered = recover(path)
            except BlockingIOError:
                continue
            except FileNotFoundError:
                continue  # removed just now
            except UsageError as error:
                self._warn_once(f"not recovered: {error}")
            except Exception as error:  # whatever the file contains, the others are repaired
                self._warn_once(f"{path}: not recovered: {getattr(error, 'strerror', None) or repr(error)}")
                continue
            else:
                if recovered is not None:
                    self._recovered += 1
                    _log.info("%s: it was cut off; recovered with %d messages", path, recovered.messages)
            self._done.add(path)

    def _warn_once(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            _log.warning("%s", line)


def _remove(path: Path) -> int | None:
    """Remove a recording; returns its bytes on disk, None if it is being written. Raises OSError."""
    with open(path, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        size = os.fstat(file.fileno()).st_blocks * 512
        path.unlink()
    return size
