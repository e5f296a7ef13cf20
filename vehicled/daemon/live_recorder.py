"""Records measurements and estimates of the daemon; the estimator never waits for the disk."""

import contextlib
import logging
import math
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from vehicled.daemon.recording_file import (
    CHUNK_NS,
    QUEUE_LIMIT,
    Contents,
    Intake,
    Item,
    RecordingFile,
    StepItem,
    messages_of,
)
from vehicled.daemon.recordings import Housekeeper, RecordOptions, open_recording, size_limit
from vehicled.foxglove.scene import Scene

_log = logging.getLogger(__name__)

_CHUNK_S = CHUNK_NS * 1e-9
_BATCH_S = 0.03
"""Time between wakings of the thread while steps come. Woken by each step, it would take the interpreter from the
thread that publishes, and fetch its code into the processor's caches each time."""
_SHORTEST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
"""Longest time between attempts to open a file."""
_STALLED_S = 2.0
"""A disk that takes longer than this for one operation is reported."""
_END_WITHIN_S = 5.0


class _Stop:
    pass


class LiveRecorder(Intake):
    """Writes files in a folder, each named after the time of day and complete by itself.

    All disk operations, including the opening of files, are in its own threads. A disk error ends the file;
    further items count as `lost`, and opening a new file is retried. While a disk hangs, whole steps beyond
    `limit` count as `dropped`, and the file has a gap in its step numbers.
    """

    def __init__(
        self, options: RecordOptions, configuration: str, limit: int = QUEUE_LIMIT, scene: Scene | None = None
    ) -> None:
        """`configuration`: the text that the program runs with; `scene` draws the car.

        Nothing is opened before `start`.
        """
        super().__init__()
        self._contents = Contents(options.rates, scene)
        self._options = options
        self._configuration = configuration
        self._limit = limit
        self._housekeeper = Housekeeper(options)
        self._queue: SimpleQueue[Item | _Stop] = SimpleQueue()
        self._ready: SimpleQueue[None] = SimpleQueue()
        """Wakes the thread."""
        self._woken_at = -math.inf
        self._written = self._dropped = self._lost = self._errors = self._high_water = 0
        self._last_error = ""
        self._recording: RecordingFile | None = None
        self._path = options.directory
        self._closed_bytes = 0
        """Bytes in the files before this one."""
        self._size_limit = 0.0
        self._opened_at = self._chunk_at = self._retry_at = 0.0
        self._pause = _SHORTEST_PAUSE_S
        self._failed = False
        """True from an error until something is on disk again."""
        self._full = False
        """True from when the queue is full until it is half empty."""
        self._busy_since: float | None = None
        """Time at which the thread began its present operation; None while it waits for an item."""
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Start to record, or to try to."""
        self._thread.start()
        self._housekeeper.start()

    def close(self) -> None:
        """Write what is still waiting, close the file and stop; does not wait for a disk that hangs."""
        if self._thread.is_alive():
            self._queue.put(_Stop())
            self._ready.put(None)
            self._thread.join(_END_WITHIN_S)
            if self._thread.is_alive():
                _log.error(
                    "%s: the disk does not respond; what waited for it is not recorded: %d steps",
                    self._path,
                    self._queue.qsize(),
                )
        self._housekeeper.close(timeout=0.5)

    def counters(self) -> dict[str, Any]:
        """What `status` has of it.

        `state`: `opening`, `recording`, `stalled` (a disk that does not respond) or `failed`, with `reason` and the
        `path` of file or folder; messages written, dropped (queue full), lost (disk); bytes; the queue; old
        recordings recovered and removed.
        """
        recording, busy = self._recording, self._busy_since
        waited = 0.0 if busy is None else time.monotonic() - busy
        state, reason = "recording", None
        if waited > _STALLED_S:
            state, reason = "stalled", f"the disk has not responded for {waited:.0f} s"
        elif self._failed:
            state, reason = "failed", self._last_error
        elif recording is None:
            state = "opening"
        return {
            "state": state,
            "reason": reason,
            "path": str(self._path),
            "written": self._written,
            "dropped": self._dropped,
            "lost": self._lost,
            "bytes": self._closed_bytes + (0 if recording is None else recording.writer.size),
            "errors": self._errors,
            "last_error": self._last_error,
            "queue": self._queue.qsize(),
            "queue_high_water": self._high_water,
            **self._housekeeper.counters(),
        }

    def _put(self, item: Item) -> None:
        waiting = self._queue.qsize()
        if waiting >= self._limit:
            self._dropped += messages_of(item)
            if not self._full:
                self._full = True
                _log.error("%s: the disk is too slow: not everything is recorded", self._path)
            return
        if waiting >= self._high_water:
            self._high_water = waiting + 1
        self._queue.put(item)
        now = time.monotonic()
        if now - self._woken_at >= _BATCH_S:
            self._woken_at = now
            self._ready.put(None)

    def _run(self) -> None:
        self._open()
        item: Item | _Stop | None = None
        while not isinstance(item, _Stop):
            self._busy_since = None
            with contextlib.suppress(Empty):
                self._ready.get(timeout=_CHUNK_S)
            item = self._take_next()
            while item is not None and not isinstance(item, _Stop):
                item = self._take_next()
        self._end_file()
        self._busy_since = None

    def _take_next(self) -> Item | _Stop | None:
        """Write the oldest waiting item and return it; None if there is none."""
        self._busy_since = time.monotonic()
        try:
            item = self._queue.get_nowait()
        except Empty:
            item = None
        if not isinstance(item, _Stop):
            self._take(item)
        if self._full and self._queue.qsize() < self._limit // 2:
            self._full = False
            _log.warning("%s: recording again; dropped so far: %d messages", self._path, self._dropped)
        return item

    def _take(self, item: Item | None) -> None:
        recording = self._recording or self._open()
        if recording is None:
            self._lost += messages_of(item)
            return
        if item is not None:
            try:
                recording.write(item)
            except Exception as error:  # A message that cannot be written must not prevent the next ones.
                self._note(error)
                self._lost += messages_of(item)
                return
        now = time.monotonic()
        due = now - self._chunk_at >= _CHUNK_S
        if not due and not recording.writer.chunk_is_full:
            return
        # A slow disk is waited for once for all that has come meanwhile, not for each chunk of it.
        self._end_chunk(recording, sync=due)
        if due:
            self._chunk_at = time.monotonic()
        # A command belongs to the step after it: only a step may be the last item of a file.
        if isinstance(item, StepItem) and (
            now - self._opened_at >= self._options.file_duration or recording.writer.size >= self._size_limit
        ):
            self._end_file()
            self._open()

    def _open(self) -> RecordingFile | None:
        """Open a new file; None if that failed, or if it is too early to try again."""
        begun = time.monotonic()
        if begun < self._retry_at:
            return None
        self._busy_since = begun
        try:
            self._options.directory.mkdir(parents=True, exist_ok=True)
            self._size_limit = size_limit(self._options)
            # The time of day may have been set since the last file. It is read only after the disk has
            # responded.
            t = time.monotonic_ns()
            recording, self._path = open_recording(
                self._options.directory, self._configuration, t, time.time_ns() - t, self._contents
            )
        except Exception as error:
            self._fail(error, self._options.directory)
            return None
        self._housekeeper.note(self._path)
        self._written += recording.writer.messages
        self._opened_at = self._chunk_at = time.monotonic()
        self._recording = recording
        return recording

    def _end_chunk(self, recording: RecordingFile, sync: bool) -> None:
        pending = recording.writer.pending
        try:
            recording.writer.end_chunk()
            if sync:
                recording.writer.sync()
                recording.writer.check_place()
        except Exception as error:  # of the disk, or of memory while compressing: the next file may succeed
            self._lost += pending
            self._fail(error, self._path)
            self._abandon(recording)
            return
        self._written += pending
        if pending and self._failed:
            self._failed = False
            self._pause = _SHORTEST_PAUSE_S
            _log.warning("%s: recording again; lost so far: %d messages", self._path, self._lost)

    def _abandon(self, recording: RecordingFile) -> None:
        """Close a file on a failed disk, with its index if there is room for it."""
        with contextlib.suppress(Exception):
            recording.writer.close()
        if recording.is_empty:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._closed_bytes += recording.writer.size
        self._recording, self._path = None, self._options.directory

    def _end_file(self) -> None:
        recording = self._recording
        if recording is None:
            return
        pending = recording.writer.pending
        try:
            recording.writer.close()
            self._written += pending
        except Exception as error:
            self._lost += pending
            self._fail(error, self._path)
        self._closed_bytes += recording.writer.size
        self._recording = None

    def _fail(self, error: Exception, path: Path) -> None:
        self._note(error)
        if not self._failed:
            self._failed = True
            what = getattr(error, "strerror", None) or repr(error)
            _log.error("%s: cannot record: %s; estimation goes on", path, what)
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)

    def _note(self, error: Exception) -> None:
        self._errors += 1
        self._last_error = f"{type(error).__name__}: {error}"
