"""Records a replay to one MCAP file; the same replay gives the same bytes."""

import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from replay.mcap_writer import McapWriter
from vehicled.daemon.recording_file import (
    ALL_RESULTS,
    CHUNK_NS,
    QUEUE_LIMIT,
    Contents,
    Intake,
    Item,
    RecordingFile,
    StepItem,
)


class Recorder(Intake):
    """Writes in a thread of its own; the caller waits while its queue is full. A context manager.

    A write error ends the recording: the next call that passes an item, and `close`, raise it.
    """

    def __init__(
        self,
        path: str | Path,
        configuration: str,
        t: int,
        utc_offset_ns: int,
        limit: int = QUEUE_LIMIT,
        contents: Contents = ALL_RESULTS,
    ) -> None:
        """Creates the file, or overwrites it, and starts the thread.

        `configuration` is the text that the program runs with, `t` the time at which the run begins (ns, the clock
        of the measurements), `utc_offset_ns` the time of day minus that clock, 0 if unknown; `contents` as of
        `RecordingFile`. OSError if the file cannot be written.
        """
        super().__init__()
        self._recording = RecordingFile(McapWriter(path), configuration, t, utc_offset_ns, contents)
        self._limit = limit
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        self._room = threading.Event()
        self._error: Exception | None = None
        self._last_chunk = t
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the items still waiting and close the file. Raises OSError, or another error of writing."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
            if self._error is not None:
                raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, item: Item) -> None:
        if self._error is not None:
            raise self._error
        while self._queue.qsize() >= self._limit:
            self._room.clear()
            self._room.wait(0.01)
        self._queue.put(item)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            self._room.set()
            if self._error is None:
                try:
                    self._write(item)
                except Exception as error:  # raised to the caller, who must not wait for ever
                    self._error = error
        try:
            self._recording.writer.close()
        except Exception as error:
            self._error = self._error or error

    def _write(self, item: Item) -> None:
        self._recording.write(item)
        writer = self._recording.writer
        now = item.t if isinstance(item, StepItem) else self._last_chunk
        if now - self._last_chunk >= CHUNK_NS or writer.chunk_is_full:
            writer.end_chunk()
            self._last_chunk = now
